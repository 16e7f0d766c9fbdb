// A mock of all three providers (npm @copilotkit/aimock) on loopback, until standard input ends. Prints its address.
//
// Before it stands a recorder, since the mock's own journal holds requests in OpenAI's form, whatever was sent:
// `GET /bodies` gives back those that were taken, as they came.
import { LLMock } from "@copilotkit/aimock";
import fs from "node:fs";
import http from "node:http";

const mock = new LLMock({ port: 0, strict: true, chunkSize: 8 });
mock.addFixturesFromJSON(JSON.parse(fs.readFileSync(process.argv[2], "utf8")).fixtures);
const upstream = new URL(await mock.start());

const bodies = [];

const recorder = http.createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const body = Buffer.concat(pieces);
  if (request.url === "/bodies") return response.end(JSON.stringify(bodies));
  const { method, url: path, headers } = request;
  const onward = http.request(upstream, { method, path, headers }, (answer) => {
    if (path.startsWith("/v1/") && answer.statusCode === 200) bodies.push(JSON.parse(body));
    response.writeHead(answer.statusCode, answer.headers);
    answer.on("data", (piece) => response.write(piece));
    answer.on("end", () => response.end());
    answer.on("error", () => response.socket?.end()); // broken off: so is this one, behind what came
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  onward.end(body);
});

recorder.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${recorder.address().port}`));
process.stdin.resume().on("end", () => process.exit());

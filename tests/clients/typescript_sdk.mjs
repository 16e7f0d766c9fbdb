// The client library editors are built with (npm @agentclientprotocol/sdk) drives Bob.
import { client, methods, ndJsonStream, PROTOCOL_VERSION, RequestError } from "@agentclientprotocol/sdk";
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { bob, check, cwd, env, promised } from "./checks.mjs";

// The library tells of a message it can't take on console.error, and of nothing else.
const complaints = [];
console.error = (...words) => complaints.push(words.map(String).join(" "));

const agent = spawn(bob, ["--acp"], { env, stdio: ["pipe", "pipe", "ignore"] });
const exited = new Promise((resolve) => agent.on("exit", (code, signal) => resolve(code ?? signal)));

/// What the turn at hand brought, and what is done about it.
let updates, questions, answer, onUpdate;
function begin(how = {}) {
  updates = [];
  questions = [];
  answer = how.answer ?? ((options) => options.find((option) => option.kind === "allow_once"));
  onUpdate = how.onUpdate ?? (() => {});
}
begin();

async function permission({ params }) {
  questions.push(params);
  const option = await answer(params.options);
  return { outcome: option ? { outcome: "selected", optionId: option.optionId } : { outcome: "cancelled" } };
}

function update({ params }) {
  updates.push(params.update);
  onUpdate(params.update);
}

const states = () => updates.filter((u) => u.sessionUpdate.startsWith("tool_call")).map((u) => u.status);
const pieces = () => updates.filter((u) => u.sessionUpdate === "agent_message_chunk");
const running = (u) => u.sessionUpdate === "tool_call_update" && u.status === "in_progress";

async function drive(ctx) {
  const request = ctx.request.bind(ctx);
  const initialized = await request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: {},
    clientInfo: { name: "checks", version: "1" },
  });
  check("initialize", initialized.protocolVersion === 1 && initialized.agentInfo.name === "bob", initialized);

  const { sessionId, modes } = await request(methods.agent.session.new, { cwd, mcpServers: [] });
  check("session/new, in mode ask", sessionId && modes.currentModeId === "ask", { sessionId, modes });
  const prompt = (text, options) =>
    request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] }, options);
  const cancel = () => ctx.notify(methods.agent.session.cancel, { sessionId });
  let result;

  begin();
  result = await prompt("hello");
  check("a prompt is answered in pieces, then end_turn", result.stopReason === "end_turn" && pieces().length > 1, result);
  check("the pieces are one message", new Set(pieces().map((u) => u.messageId)).size === 1, updates);

  begin();
  result = await prompt("run printf made-by-%s $((40 + 2))");
  check("an allowed command is asked about once", questions.length === 1 && questions[0].options.length === 4, questions);
  check("and runs: pending, in progress, completed",
    states()[0] === "pending" && states()[1] === "in_progress" && states().at(-1) === "completed", states());
  check("its output arrives", JSON.stringify(updates).includes("made-by-42") && result.stopReason === "end_turn", result);

  begin({ answer: (options) => options.find((option) => option.kind === "reject_once") });
  result = await prompt("run touch refused");
  check("a refused command does not run", !fs.existsSync(path.join(cwd, "refused")) && states().at(-1) === "failed", states());
  check("and the turn goes on to its end", result.stopReason === "end_turn", result);

  begin({ onUpdate: (u) => running(u) && cancel() });
  result = await prompt("run sleep 300");
  check("cancel ends a running command", result.stopReason === "cancelled" && states().at(-1) === "failed", result);

  const never = promised();
  begin({ answer: () => (cancel(), never.promise) });
  result = await prompt("run sleep 300");
  check("cancel ends a turn whose question is open", result.stopReason === "cancelled" && states().at(-1) === "failed", result);
  never.keep(undefined);

  const abort = new AbortController();
  begin({ onUpdate: (u) => running(u) && abort.abort() });
  result = await prompt("run sleep 300", { cancellationSignal: abort.signal });
  check("$/cancel_request ends a prompt with cancelled", result.stopReason === "cancelled", result);

  await request(methods.agent.session.setMode, { sessionId, modeId: "full-access" });
  begin();
  result = await prompt("write made.txt hello");
  const diff = updates.flatMap((u) => u.content ?? []).find((content) => content.type === "diff");
  check("in full-access nothing is asked", questions.length === 0 && fs.readFileSync(path.join(cwd, "made.txt"), "utf8") === "hello\n", states());
  check("a file written is shown as a diff", diff?.newText === "hello\n" && path.isAbsolute(diff.path), diff);

  const wrong = await request(methods.agent.session.prompt, { sessionId: "none", prompt: [] }).catch((error) => error);
  check("an unknown session is an error with a code", wrong instanceof RequestError && wrong.code === -32602, wrong);

  await request(methods.agent.session.close, { sessionId });
  check("session/close", true);
}

await client({ name: "checks" })
  .onRequest(methods.client.session.requestPermission, permission)
  .onNotification(methods.client.session.update, update)
  .connectWith(ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), drive);
agent.stdin.end();
const code = await exited;
check("bob leaves with exit code 0 when its input ends", code === 0, code);
check("the library understood every message", complaints.length === 0, complaints);

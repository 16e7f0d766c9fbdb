// One prompt through acpx, a command line client: it starts Bob, allows what is asked, prints what came.
import { spawnSync } from "node:child_process";
import { bob, check, cwd, env } from "./checks.mjs";

const prompt = "run printf made-by-%s $((40 + 2))";
const shellWord = (word) => `'${word.replaceAll("'", `'\\''`)}'`;

function acpx(...options) {
  const words = [...options, "--agent", `${shellWord(bob)} --acp`, "--cwd", cwd, "exec", prompt];
  return spawnSync("node_modules/.bin/acpx", words, { env, encoding: "utf8", timeout: 50_000 });
}

const allowed = acpx("--approve-all", "--format", "json");
const lines = allowed.stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
const update = (line) => line.params?.update ?? {};
check("acpx starts bob and ends in order", allowed.status === 0, allowed.stderr);
check("it allows the command, which runs", lines.some((line) => update(line).status === "completed" && update(line).rawOutput.output === "made-by-42"), allowed.stdout);
check("the turn ends with end_turn", lines.at(-1)?.result?.stopReason === "end_turn", lines.at(-1));

const denied = acpx("--deny-all");
check("what it denies does not run, and the turn ends", !denied.stdout.includes("made-by-42") && denied.stdout.includes("end_turn"), denied.stdout);

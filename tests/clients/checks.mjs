// What the scripts for Node share.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

export const bob = process.env.BOB;

/// A folder of its own for the project and for Bob's files.
export const cwd = fs.mkdtempSync(path.join(os.tmpdir(), "bob-client-"));
process.on("exit", () => fs.rmSync(cwd, { recursive: true, force: true }));

export const env = { ...process.env, LLM_PROVIDER: "DEMO", BOB_HOME: path.join(cwd, ".home"), HOME: cwd };

/// Prints what holds and what doesn't; the process ends with 1 if anything did not.
export function check(name, held, got) {
  console.log(`${held ? "PASS" : "FAIL"}  ${name}`);
  if (held) return;
  process.exitCode = 1;
  if (got !== undefined) console.log(`      got ${JSON.stringify(got)}`);
}

/// A promise that is kept from outside.
export function promised() {
  let keep;
  const promise = new Promise((resolve) => (keep = resolve));
  return { promise, keep };
}

// Nothing here takes a minute: a check that waits for ever is a failure, not a job that hangs.
setTimeout(() => {
  console.log("FAIL  not done after 60 s");
  process.exit(1);
}, 60_000).unref();

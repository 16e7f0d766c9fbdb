"""What the scripts here share: Bob as a client of a few lines drives it, and how a check is told."""
import json
import os
import queue
import subprocess
import threading
from pathlib import Path

BOB = os.environ.get("BOB", str(Path(__file__).resolve().parents[2] / "target/debug/bob"))
PATIENCE = 300  # seconds: a guard against hanging, nothing is measured by it
FORMATS = ["openai-completions", "anthropic-messages", "openai-responses"]

failures = 0


def check(name, held, got=None):
    global failures
    failures += not held
    print(f"{'PASS' if held else 'FAIL'}  {name}", flush=True)
    if not held and got is not None:
        print(f"      got {str(got)[:2000]}", flush=True)


def finish(what):
    print(f"\n{what}: all passed" if not failures else f"\n{what}: {failures} failed")
    raise SystemExit(failures != 0)


def environment(folder, base_url, form, model="smollm2", **settings):
    """Bob's environment: the model behind `base_url`, and none of the settings of whoever runs this."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "LOCAL_"))}
    return kept | {
        "LLM_PROVIDER": "LOCAL", "LOCAL_BASE_URL": base_url, "LOCAL_MODEL": model, "LOCAL_API_FORMAT": form,
        "BOB_HOME": f"{folder}/home",
    } | settings


class Bob:
    """A running `bob --acp` with one session: a new one in `folder`, or the saved one that is named."""

    def __init__(self, folder, variables, *flags, load=None):
        self.process = subprocess.Popen(
            [BOB, "--acp", "-q", *flags], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.sent = 0
        self.answers = []  # kinds of options: what the next questions are answered with; all others are rejected
        self.wait_for(self.ask("initialize", protocolVersion=1, clientCapabilities={}))
        place = {"cwd": str(folder), "mcpServers": []}
        if load:
            self.replayed = self.wait_for(self.ask("session/load", sessionId=load, **place))
            self.session = load
        else:
            self.session = self.wait_for(self.ask("session/new", **place))[-1]["result"]["sessionId"]

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def _write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, **params):
        """Sends a request; its id."""
        self.sent += 1
        self._write({"id": self.sent, "method": method, "params": params})
        return self.sent

    def prompt(self, text, *blocks):
        return self.ask("session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": text}, *blocks])

    def turn(self, text, *blocks):
        """A prompt, and all that came of it."""
        return self.wait_for(self.prompt(text, *blocks))

    def cancel(self):
        self._write({"method": "session/cancel", "params": {"sessionId": self.session}})

    def wait_for(self, wanted):
        """What came up to an answer (by id) or an update (by kind), that included."""
        seen = []
        while not seen or (seen[-1].get("id") != wanted and kind(seen[-1]) != wanted):
            line = self.lines.get(timeout=PATIENCE)
            if line is None:
                raise SystemExit(f"FAIL  bob ended before `{wanted}`; it had said {seen}")
            if "id" in line and "method" in line:
                self._answer(line)
                continue
            seen.append(line)
            if "id" in line and line["id"] != wanted:
                raise SystemExit(f"FAIL  an answer before `{wanted}`: {line}")
        return seen

    def _answer(self, question):
        wanted = self.answers.pop(0) if self.answers else "reject_once"
        option = next(option for option in question["params"]["options"] if option["kind"] == wanted)
        outcome = {"outcome": "selected", "optionId": option["optionId"]}
        self._write({"id": question["id"], "result": {"outcome": outcome}})

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


def update_of(message):
    return message.get("params", {}).get("update", {})


def kind(message):
    return update_of(message).get("sessionUpdate")


def stop_reason(turn):
    return turn[-1].get("result", {}).get("stopReason")


def texts(turn, wanted="agent_message_chunk"):
    """The pieces of text of one kind of update."""
    return [update_of(message)["content"]["text"] for message in turn if kind(message) == wanted]


def text(turn):
    return "".join(texts(turn))


def thoughts(turn):
    return "".join(texts(turn, "agent_thought_chunk"))


def finished_calls(turn):
    """The last update of each call that came to an end."""
    return [update_of(message) for message in turn if update_of(message).get("status") in ("completed", "failed")]


def show(messages):
    """A turn, for people: the pieces of one kind of message in a row are joined."""
    said = None
    for message in messages:
        update, new = update_of(message), kind(message)
        if new in ("agent_message_chunk", "agent_thought_chunk"):
            if said != new:
                print("\n        bob:  " if new == "agent_message_chunk" else "\n        bob thinks:  ", end="")
            print(update["content"]["text"].replace("\n", " "), end="")
        elif new == "tool_call":
            print(f"\n        {update['title']}", end="")
        elif new == "tool_call_update" and update["status"] in ("completed", "failed"):
            print(f"\n        {update['status']}: {json.dumps(update.get('rawOutput'))[:300]}", end="")
        elif "result" in message and "stopReason" in message["result"]:
            print(f"\n        {json.dumps(message['result'])}", end="")
        elif "error" in message:
            print(f"\n        {json.dumps(message['error'])}", end="")
        said = new
    print("\n", flush=True)

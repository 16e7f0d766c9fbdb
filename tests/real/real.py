"""Checks Bob against a real model, with nothing asserted about its words: real.py MODEL.gguf

1. A prompt sent while the model still loads (503) is retried until there is an answer.
2. A heredoc prompt that needs a tool runs it and ends its turn (tool_call.sh).
3. A cancel in mid-answer frees the server's slot, and the session goes on.
"""
import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
BOB = os.environ.get("BOB", str(HERE.parents[1] / "target/debug/bob"))
PATIENCE = 300  # seconds: a guard against hanging, nothing is measured by it

failures = 0


def check(name, held):
    global failures
    failures += not held
    print(f"{'PASS' if held else 'FAIL'}  {name}", flush=True)


class ModelServer:
    """The model's server, and what it says of itself."""

    def __init__(self, model):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, HERE / "model_server.py", model, HERE / "chatml-tools.jinja", str(self.port)]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self.log, stderr=self.log)

    @property
    def base_url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def get(self, path):
        """Status (0: nobody listens yet) and JSON body."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, None

    def wait_until(self, is_so, path):
        """Asks until `is_so(status, body)`; says whether it came to be, and after how many seconds."""
        began = time.monotonic()
        while not (held := is_so(*self.get(path))) and time.monotonic() - began < PATIENCE:
            if self.process.poll() is not None:
                self.log.seek(0)
                raise SystemExit(f"FAIL  the model's server ended:\n{self.log.read().decode(errors='replace')}")
            time.sleep(0.005)
        return held, time.monotonic() - began

    def busy(self):
        return any(slot["is_processing"] for slot in self.get("/slots")[1])

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Bob:
    """A running `bob --acp` with one session."""

    def __init__(self, folder, base_url, **settings):
        environment = os.environ | settings | {
            "LLM_PROVIDER": "LOCAL", "LOCAL_BASE_URL": base_url, "LOCAL_MODEL": "smollm2",
            "LLM_TEMPERATURE": "0", "BOB_HOME": f"{folder}/home",
        }
        self.process = subprocess.Popen(
            [BOB, "--acp", "-q"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.sent = 0
        self.wait_for(self.ask("initialize", protocolVersion=1, clientCapabilities={}))
        opened = self.wait_for(self.ask("session/new", cwd=folder, mcpServers=[]))[-1]
        self.session = opened["result"]["sessionId"]

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

    def prompt(self, text):
        return self.ask("session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": text}])

    def cancel(self):
        self._write({"method": "session/cancel", "params": {"sessionId": self.session}})

    def wait_for(self, wanted):
        """What came up to an answer (by id) or an update (by kind), that included."""
        seen = []
        while not seen or (seen[-1].get("id") != wanted and kind(seen[-1]) != wanted):
            line = self.lines.get(timeout=PATIENCE)
            if line is None:
                raise SystemExit(f"FAIL  bob ended before `{wanted}`; it had said {seen}")
            seen.append(line)
            if "id" in line and "method" not in line and line["id"] != wanted:
                raise SystemExit(f"FAIL  an answer before `{wanted}`: {line}")
        return seen

    def stop(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


def update_of(message):
    return message.get("params", {}).get("update", {})


def kind(message):
    return update_of(message).get("sessionUpdate")


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
            print(f"\n        {update['status']}: {json.dumps(update.get('rawOutput'))}", end="")
        elif "result" in message and "stopReason" in message["result"]:
            print(f"\n        {json.dumps(message['result'])}", end="")
        elif "error" in message:
            print(f"\n        {json.dumps(message['error'])}", end="")
        said = new
    print("\n", flush=True)


def prompt_while_loading(model, folder):
    """The server is started when Bob is ready to ask it; it is given back loaded."""
    server = ModelServer(model)
    bob = Bob(folder, server.base_url)
    loading, _ = server.wait_until(lambda status, _: status != 0, "/health")
    check("the model still loads when the prompt is sent (503)", loading and server.get("/health")[0] == 503)
    turn = bob.wait_for(bob.prompt("Say hello."))
    bob.stop()
    show(turn)
    thoughts = [update_of(message)["content"]["text"] for message in turn if kind(message) == "agent_thought_chunk"]
    check("each retry is told, in the server's words", any("Loading model" in thought for thought in thoughts))
    check("the prompt that met a loading model succeeds", "stopReason" in turn[-1].get("result", {}))
    return server


def heredoc_with_a_tool(server):
    ran = subprocess.run(
        ["sh", HERE / "tool_call.sh"], env=os.environ | {"LOCAL_BASE_URL": server.base_url, "BOB": BOB},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=PATIENCE,
    )
    turn = [json.loads(line) for line in ran.stdout.splitlines()]
    show(turn)
    done = [update_of(message) for message in turn if update_of(message).get("status") == "completed"]
    check("the model's call is a real one: it ran, with exit code 0",
          any((call.get("rawOutput") or {}).get("exitCode") == 0 for call in done))
    check("the turn ends with end_turn", turn[-1].get("result", {}).get("stopReason") == "end_turn")


def cancel_in_mid_answer(server, folder):
    # ignore_eos, a parameter of llama.cpp's own: the answer goes on until somebody stops it.
    bob = Bob(folder, server.base_url, LLM_EXTRA_BODY='{"ignore_eos": true}', LLM_MAX_TOKENS="4000")
    check("before the prompt the server's slot is free", not server.busy())
    prompt = bob.prompt("Write a long story about the sea.")
    turn = bob.wait_for("agent_message_chunk")
    check("in mid-answer the slot is busy", server.busy())
    bob.cancel()
    asked = time.monotonic()
    turn += bob.wait_for(prompt)
    answered = time.monotonic() - asked
    free, _ = server.wait_until(lambda _, slots: not any(slot["is_processing"] for slot in slots), "/slots")
    freed = time.monotonic() - asked
    show(turn)
    check("the turn ends with cancelled", turn[-1].get("result", {}).get("stopReason") == "cancelled")
    check(f"the slot is free again: answered after {answered * 1000:.0f} ms, free after {freed * 1000:.0f} ms",
          free and freed < 3)
    again = bob.prompt("Go on.")
    bob.wait_for("agent_message_chunk")
    bob.cancel()
    check("the session takes the next prompt", bob.wait_for(again)[-1]["result"]["stopReason"] == "cancelled")
    check("bob leaves with exit code 0", bob.stop() == 0)


def main():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as at_the_end:
        print("# a prompt while the model loads")
        server = prompt_while_loading(sys.argv[1], folder)
        at_the_end.callback(server.stop)
        print("\n# a heredoc with a tool")
        heredoc_with_a_tool(server)
        print("\n# a cancel in mid-answer")
        cancel_in_mid_answer(server, folder)
    print("\nreal: all passed" if not failures else f"\nreal: {failures} failed")
    sys.exit(failures != 0)


main()

"""Checks Bob against a real model in all three wire formats: real_model.py MODEL.gguf. Nothing is asserted about its words.

1. A prompt sent while the model still loads (503) is retried until there is an answer.
2. A heredoc prompt that needs a tool runs it and ends its turn (tool_call.sh).
3. A killed Bob's session is loaded by the next one, tool result and all, and goes on.
4. A cancel in mid-answer frees the server's slot, and the session goes on.
5. What is too long for the model is told (one prompt), or compressed (a conversation).
6. A server that wants a key, and gets none or a wrong one: a notice.
"""
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from bob import (
    BOB, FORMATS, PATIENCE, Bob, check, environment, finish, finished_calls, kind, show, stop_reason, text,
    thoughts, update_of,
)

HERE = Path(__file__).resolve().parent
CONTEXT = 2560  # tokens; little enough for a conversation to get too long soon


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def status_of(url):
    """Status (0: nobody listens yet) and JSON body."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return 0, None


class ModelServer:
    """The model's server, and what it says of itself."""

    def __init__(self, model, *key):
        self.port = free_port()
        arguments = [model, HERE / "chatml-tools.jinja", str(self.port), str(CONTEXT), *key]
        command = [sys.executable, HERE / "model_server.py", *arguments]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self.log, stderr=self.log)

    @property
    def base_url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def get(self, path):
        return status_of(f"http://127.0.0.1:{self.port}{path}")

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


def variables(folder, server, form, **settings):
    return environment(folder, server.base_url, form, **{"LLM_TEMPERATURE": "0", "LLM_MAX_TOKENS": "60"} | settings)


def few_calls(folder):
    """A model so small may ask for the same command again and again."""
    (folder / "home").mkdir()
    (folder / "home/config.json").write_text('{"turns": {"maxModelCalls": 4}}')


def prompt_while_loading(model, folder):
    """The server is started when Bob is ready to ask it; it is given back loaded."""
    server = ModelServer(model)
    bob = Bob(folder, variables(folder, server, "openai-completions"))
    loading, _ = server.wait_until(lambda status, _: status != 0, "/health")
    check("the model still loads when the prompt is sent (503)", loading and server.get("/health")[0] == 503)
    turn = bob.turn("Say hello.")
    bob.stop()
    show(turn)
    check("each retry is told, in the server's words", "Loading model" in thoughts(turn), turn)
    check("the prompt that met a loading model succeeds", stop_reason(turn) == "end_turn", turn)
    return server


def heredoc_with_a_tool(server, form, folder):
    ran = subprocess.run(
        ["sh", HERE / "tool_call.sh", folder],
        env=environment(folder, server.base_url, form) | {"BOB": BOB},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=PATIENCE,
    )
    turn = [json.loads(line) for line in ran.stdout.splitlines()]
    show(turn)
    check("the model's call is a real one: it ran, with exit code 0", exit_codes(turn) == [0], turn)
    check("the turn ends with end_turn", stop_reason(turn) == "end_turn", turn)


def exit_codes(turn):
    return [(call.get("rawOutput") or {}).get("exitCode") for call in finished_calls(turn)]


def killed_and_loaded(server, form, folder):
    """Gives back the loaded Bob, whose answers have no end."""
    bob = Bob(folder, variables(folder, server, form))
    bob.answers = ["allow_once"]
    turn = bob.turn("Run this command with bash: cat notes.txt")
    check("a call runs, its result goes to the model",
          exit_codes(turn) == [0] and stop_reason(turn) == "end_turn", turn)
    turn = bob.turn("Say hello.")
    check("so does the next prompt", text(turn) and stop_reason(turn) in ("end_turn", "max_tokens"), turn)
    bob.prompt("Write a long story about the sea.")
    bob.wait_for("agent_message_chunk")
    bob.kill()
    # ignore_eos, a parameter of llama.cpp's own: the answer goes on until somebody stops it.
    endless = {"LLM_EXTRA_BODY": '{"ignore_eos": true}', "LLM_MAX_TOKENS": "2000"}
    loaded = Bob(folder, variables(folder, server, form, **endless), load=bob.session)
    calls = [message for message in loaded.replayed if kind(message) == "tool_call"]
    check("killed in mid-answer, the session is loaded, its call with it", calls, loaded.replayed)
    return loaded


def cancel_in_mid_answer(server, bob):
    server.wait_until(lambda _, slots: not any(slot["is_processing"] for slot in slots), "/slots")
    prompt = bob.prompt("Write a long story about the sea.")
    turn = [message for _ in range(3) for message in bob.wait_for("agent_message_chunk")]
    check("the loaded session's prompt is answered: text comes while the slot is busy", server.busy())
    bob.cancel()
    asked = time.monotonic()
    turn += bob.wait_for(prompt)
    answered = time.monotonic() - asked
    free, _ = server.wait_until(lambda _, slots: not any(slot["is_processing"] for slot in slots), "/slots")
    freed = time.monotonic() - asked
    show(turn)
    check("the turn ends with cancelled", stop_reason(turn) == "cancelled", turn)
    check(f"the slot is free again: answered after {answered * 1000:.0f} ms, free after {freed * 1000:.0f} ms",
          free and freed < 3)
    again = bob.prompt("Go on.")
    bob.wait_for("agent_message_chunk")
    bob.cancel()
    check("the session takes the next prompt", stop_reason(bob.wait_for(again)) == "cancelled")
    check("bob leaves with exit code 0", bob.stop() == 0)


def long_text(tokens):
    return "The sea is wide and the ship is small, and nobody on it knows the way home any more. " * int(tokens / 20)


def one_prompt_too_long(server, form, folder):
    bob = Bob(folder, variables(folder, server, form))
    turn = bob.turn(long_text(2 * CONTEXT))
    show(turn)
    check("a prompt that is too long is told, with what to do", "too long for this model" in text(turn), turn)
    turn = bob.turn("Say hello.")
    check("the next one is answered", text(turn) and "LLM API error" not in text(turn), turn)
    bob.stop()


def conversation_too_long(server, form, folder):
    # A model so small may talk on for ever: its first sentence will do.
    bob = Bob(folder, variables(folder, server, form, LLM_EXTRA_BODY='{"stop": ["."]}'))
    first = bob.turn(long_text(20))
    room = CONTEXT - next(update_of(message)["used"] for message in first if kind(message) == "usage_update")
    for prompt in [long_text(0.6 * room), long_text(20), long_text(20)]:
        bob.turn(prompt)
    turn = bob.turn(long_text(0.5 * room))
    show(turn)
    check("a conversation that gets too long is compressed, and goes on",
          "compressed" in thoughts(turn) and stop_reason(turn) == "end_turn", turn)
    bob.stop()


def bob_check(server, form, folder):
    ran = subprocess.run([BOB, "--check", "-C", folder], env=variables(folder, server, form), timeout=PATIENCE,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(ran.stdout.rstrip())
    check("bob --check: all works", ran.returncode == 0 and "All works." in ran.stdout)


def server_with_a_key(model, folder):
    server = ModelServer(model, "sesame")
    for form in FORMATS:
        for said, key in [("no key", {}), ("a wrong key", {"LOCAL_API_KEY": "melon"})]:
            bob = Bob(folder, variables(folder, server, form, **key))
            server.wait_until(lambda status, _: status == 200, "/health")
            turn = bob.turn("Say hello.")
            check(f"{form}, {said}: a notice that says what to do",
                  "401" in text(turn) and "check the API key" in text(turn) and "melon" not in text(turn), turn)
            bob.stop()
        bob = Bob(folder, variables(folder, server, form, LOCAL_API_KEY="sesame", LLM_MAX_TOKENS="10"))
        turn = bob.turn("Say hello.")
        check(f"{form}, the key: an answer", text(turn) and "LLM API error" not in text(turn), turn)
        bob.stop()
    server.stop()


def main():
    model = sys.argv[1]
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as at_the_end:
        folder = Path(name)  # one for all: the server keeps a prompt that begins with the same folder
        (folder / "notes.txt").write_text("remember the milk\n")
        few_calls(folder)
        print("# a prompt while the model loads")
        server = prompt_while_loading(model, folder)
        at_the_end.callback(server.stop)
        for form in FORMATS:
            print(f"\n# {form}")
            bob_check(server, form, folder)
            heredoc_with_a_tool(server, form, folder)
            cancel_in_mid_answer(server, killed_and_loaded(server, form, folder))
            one_prompt_too_long(server, form, folder)
        print("\n# a conversation that gets too long")
        conversation_too_long(server, "openai-completions", folder)
        print("\n# a server with a key")
        server_with_a_key(model, folder)
    finish("real model")


if __name__ == "__main__":
    main()

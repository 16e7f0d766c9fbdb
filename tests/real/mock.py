"""Checks Bob against a mock of the providers, with a program that others wrote: mock.py MOCK_SERVER_COMMAND...

In each wire format: errors are retried or told, what breaks off is never a whole answer, thinking and parallel calls
go back as they came, and every body that was sent is one that the provider's own client could have sent.
"""
import base64
import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import bodies
from bob import FORMATS, Bob, check, environment, finish, finished_calls, show, stop_reason, text, thoughts

DOT = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")
MODELS = {
    "openai-completions": "deepseek-reasoner", "anthropic-messages": "claude-sonnet-4-5", "openai-responses": "gpt-5",
}


class MockServer:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def ask(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def bodies(self):
        """What was sent since this was last asked."""
        return [recorded["body"] for recorded in self.ask("GET", "/bodies")]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


def open_bob(folder, mock, form, *flags, load=None):
    settings = {"LLM_THINKING": "medium", "LOCAL_API_KEY": "mock"}
    return Bob(folder, environment(folder, mock.url + "/v1", form, MODELS[form], **settings), *flags, load=load)


def retried(bob):
    for prompt, words, waits in [
        ("limited", ["429 Too Many Requests: Slow down"], ["1.0"]),
        ("overloaded", ["529: Overloaded", "500 Internal Server Error: Something broke"], None),
        ("dropped", [""], None),
        ("cut before the text", ["cut off"], None),
    ]:
        turn = bob.turn(prompt)
        told = re.findall(r"(.*?); trying again in ([\d.]+) s\.", thoughts(turn))
        as_told = len(told) == len(words) and all(word in said for word, (said, _) in zip(words, told))
        check(f"{prompt}: told, tried again, answered", as_told and stop_reason(turn) == "end_turn" and text(turn), turn)
        if waits:
            check(f"{prompt}: after as long as Retry-After says", [wait for _, wait in told] == waits, told)


def told(bob):
    for prompt, words in [
        ("no such model", "404 Not Found: There is no such model"), ("malformed", "no model reply"),
        ("cut in the text", "This will"),
    ]:
        turn = bob.turn(prompt)
        check(f"{prompt}: an error, never an end of the turn", "error" in turn[-1] and words in text(turn), turn)


def chaos(bob, mock):
    """All is refused until the first retry was told."""
    mock.ask("POST", "/__aimock/chaos", {"rateLimitRate": 1})
    prompt = bob.prompt("chaos")
    turn = bob.wait_for("agent_thought_chunk")
    mock.ask("DELETE", "/__aimock/chaos")
    turn += bob.wait_for(prompt)
    check("chaos for a while: the turn outlives it", text(turn) == "Order again.", turn)


def reply_at_its_limit(bob, folder):
    turn = bob.turn("limit of the reply")
    check("a reply that hit its limit runs none of its calls",
          stop_reason(turn) == "max_tokens" and not (folder / "never").exists(), turn)


def all_at_once(bob):
    bob.answers = ["allow_once", "allow_once", "allow_once", "reject_once"]
    turn = bob.turn("all at once")
    show(turn)
    ended = [call["status"] for call in finished_calls(turn)]
    check("calls that came together run in order: done, failed, done, refused, unknown",
          ended == ["completed", "completed", "completed", "failed", "failed"] or ended, ended)
    check("and the turn ends", stop_reason(turn) == "end_turn" and text(turn) == "All at once.Done.", turn)


def main():
    mock = MockServer(sys.argv[1:])
    for form in FORMATS:
        print(f"\n# {form}")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "notes.txt").write_text("remember the milk\n")
            (folder / "dot.png").write_bytes(base64.b64decode(DOT))
            bob = open_bob(folder, mock, form)
            retried(bob)
            told(bob)
            chaos(bob, mock)
            reply_at_its_limit(bob, folder)
            all_at_once(bob)
            bob.turn("What is on this picture?", {"type": "image", "mimeType": "image/png", "data": DOT})
            bob.kill()
            bob = open_bob(folder, mock, form, load=bob.session)
            turn = bob.turn("plain")
            check("killed and loaded, the session goes on", text(turn) == "Plain.", turn)
            bob.turn("plain")
            turn = bob.turn("/compact")
            check("/compact", "compressed" in text(turn), turn)
            bob.turn("plain")
            bob.stop()
            sent = mock.bodies()
            Path(f"/tmp/h/real/bodies-{form}.json").write_text(json.dumps(sent, indent=1))
            wrong = [f"{number}: {fault}" for number, body in enumerate(sent) for fault in bodies.faults(form, body)]
            check(f"all {len(sent)} bodies fit the types of the official client", not wrong, "\n".join(wrong[:10]))
    mock.stop()
    finish("mock")


main()

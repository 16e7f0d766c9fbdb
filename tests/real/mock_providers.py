"""Checks Bob against a mock of three providers that others wrote: mock_providers.py COMMAND... (mock_providers.mjs)

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

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"  # PNG, 1x1
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
        """The bodies that were answered with 200, as they were sent."""
        return self.ask("GET", "/bodies")

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
        ("cut before the text", [""], None),
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
          ended == ["completed", "completed", "completed", "failed", "failed"], ended)
    check("and the turn ends", stop_reason(turn) == "end_turn" and text(turn) == "All at once.Done.", turn)


def thinking_goes_back(form, sent):
    """`sent`: the body behind the results of the calls that came all at once."""
    if form == "anthropic-messages":
        reply = next(turn["content"] for turn in sent["messages"] if "tool_use" in kinds(turn["content"]))
        check("thinking goes back first, with its signature, what is hidden in it too",
              reply[:2] == [{"type": "redacted_thinking", "data": "aGlkZGVu"},
                            {"type": "thinking", "thinking": "Two files to read, two commands to run.",
                             "signature": "c2lnbmF0dXJl"}], reply)
    elif form == "openai-responses":
        thought = next(item for item in sent["input"] if item["type"] == "reasoning")
        check("reasoning goes back encrypted, nothing is stored",
              thought["encrypted_content"] and sent["store"] is False, thought)
    else:
        reply = next(message for message in sent["messages"] if message.get("tool_calls"))
        check("reasoning goes back with its calls, by the name it came with",
              reply.get("reasoning_content") == "Two files to read, two commands to run.", reply)


def kinds(items):
    return [item["type"] for item in items]


def calls_and_results(form, sent):
    """The ids of calls, then those of results, of a whole conversation."""
    if form == "openai-completions":
        calls = [call["id"] for message in sent["messages"] for call in message.get("tool_calls", [])]
        return calls, [message["tool_call_id"] for message in sent["messages"] if message["role"] == "tool"]
    if form == "openai-responses":
        ids = lambda wanted: [item["call_id"] for item in sent["input"] if item["type"] == wanted]
        return ids("function_call"), ids("function_call_output")
    blocks = [block for turn in sent["messages"] for block in turn["content"]]
    return ([block["id"] for block in blocks if block["type"] == "tool_use"],
            [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"])


def marks(sent):
    """Where `cache_control` stands in a body."""
    turns = [turn for turn in sent["messages"] if any("cache_control" in block for block in turn["content"])]
    return (len([block for block in sent["system"] if "cache_control" in block]),
            len([tool for tool in sent.get("tools", []) if "cache_control" in tool]),
            [turn["role"] for turn in turns])


def what_was_sent(form, sent):
    wrong = [f"{number}: {fault}" for number, body in enumerate(sent) for fault in bodies.faults(form, body)]
    check(f"all {len(sent)} bodies fit the types of the official client", not wrong, "\n".join(wrong[:10]))
    unpaired = [ids for ids in (calls_and_results(form, body) for body in sent) if ids[0] != ids[1]]
    check("in each of them every call has its result, in the same order", not unpaired, unpaired)
    if form == "anthropic-messages":
        marked = [marks(body) for body in sent if body.get("tools")]
        check("system, tools and the last two turns of the user's are marked for the cache",
              all(mark[:2] == (1, 1) and mark[2] in (["user"], ["user", "user"]) for mark in marked), marked)


def later_thinking(folder, mock, form):
    """A call without thinking stands in the history of a session that thinks from now on."""
    bob = Bob(folder, environment(folder, mock.url + "/v1", form, MODELS[form], LLM_THINKING="off"),
              "--mode", "full-access")
    bob.turn("from now on you think")
    bob.wait_for(bob.ask("session/set_config_option", sessionId=bob.session, configId="thought_level", value="high"))
    turn = bob.turn("plain")
    check("thinking from now on, with a call of before in the history: an answer", text(turn) == "Plain.", turn)
    bob.stop()


def talk(mock, form, folder):
    (folder / "notes.txt").write_text("remember the milk\n")
    (folder / "dot.png").write_bytes(base64.b64decode(DOT))
    bob = open_bob(folder, mock, form)
    all_at_once(bob)
    thinking_goes_back(form, mock.bodies()[-1])
    bob.turn("What is on this picture?", {"type": "image", "mimeType": "image/png", "data": DOT})
    retried(bob)
    told(bob)
    chaos(bob, mock)
    bob.kill()
    bob = open_bob(folder, mock, form, load=bob.session)
    turn = bob.turn("plain")
    check("killed and loaded, the session goes on", text(turn) == "Plain.", turn)
    thinking_goes_back(form, mock.bodies()[-1])
    reply_at_its_limit(bob, folder)
    bob.turn("plain")
    turn = bob.turn("/compact")
    check("/compact", "compressed" in text(turn), turn)
    bob.turn("plain")
    bob.stop()


def main():
    for form in FORMATS:
        print(f"\n# {form}")
        mock = MockServer(sys.argv[1:])
        with tempfile.TemporaryDirectory() as name:
            talk(mock, form, Path(name))
            if form != "openai-completions":
                later_thinking(Path(name), mock, form)
        what_was_sent(form, mock.bodies())
        mock.stop()
    finish("mock")


main()

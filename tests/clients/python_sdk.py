"""The Python client library (PyPI agent-client-protocol) drives Bob.

It checks every message against the schema, and ends an agent by closing its input, waiting 2 s, then killing it.
"""
import asyncio
import logging
import os
import sys
import tempfile
from pathlib import Path

import acp
from acp.schema import (
    AllowedOutcome, AuthCapabilities, ClientCapabilities, DeniedOutcome, RequestPermissionResponse,
)

failures = 0


def check(name, held, got=None):
    global failures
    failures += not held
    print(f"{'PASS' if held else 'FAIL'}  {name}")
    if not held and got is not None:
        print(f"      got {got!r}")


class Complaints(logging.Handler):
    """What the library tells of messages it can't take."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.records = []

    def emit(self, record):
        self.records.append(self.format(record))


class Editor:
    """The client's side: keeps what came, answers questions with options of one kind."""

    def __init__(self):
        self.begin()

    def begin(self, answer="allow_once"):
        self.answer, self.updates, self.questions = answer, [], []
        self.running = asyncio.Event()

    def states(self):
        return [update.status for update in self.updates if update.session_update.startswith("tool_call")]

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)
        if update.session_update == "tool_call_update" and update.status == "in_progress":
            self.running.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.questions.append(tool_call)
        for option in options:
            if option.kind == self.answer:
                return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option.option_id))
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))


async def drive(editor, bob, folder):
    # The library leaves out what is at its default, also `clientCapabilities` as a whole; Bob wants them told.
    capabilities = ClientCapabilities(auth=AuthCapabilities(terminal=True))
    initialized = await bob.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=capabilities)
    check("initialize", initialized.protocol_version == 1 and initialized.agent_info.name == "bob", initialized)
    session = await bob.new_session(cwd=str(folder), mcp_servers=[])
    check("session/new, in mode ask", session.modes.current_mode_id == "ask", session)

    async def prompt(text):
        return (await bob.prompt(session_id=session.session_id, prompt=[acp.text_block(text)])).stop_reason

    editor.begin()
    reason = await prompt("run printf made-by-%s $((40 + 2))")
    check("an allowed command is asked about once", len(editor.questions) == 1, editor.questions)
    check("and runs: pending, in progress, completed", editor.states()[:2] == ["pending", "in_progress"]
          and editor.states()[-1] == "completed" and reason == "end_turn", editor.states())
    check("its output arrives", "made-by-42" in repr(editor.updates))

    editor.begin(answer="reject_once")
    reason = await prompt("run touch refused")
    check("a refused command does not run", not (folder / "refused").exists() and editor.states()[-1] == "failed")
    check("and the turn goes on to its end", reason == "end_turn", reason)

    editor.begin()
    turn = asyncio.create_task(prompt("run sleep 300"))
    await editor.running.wait()
    await bob.cancel(session_id=session.session_id)
    check("cancel ends a running command", await turn == "cancelled" and editor.states()[-1] == "failed")

    try:
        await bob.prompt(session_id="none", prompt=[acp.text_block("hello")])
        check("an unknown session is an error with a code", False)
    except acp.RequestError as error:
        check("an unknown session is an error with a code", error.code == -32602, error)

    editor.begin()
    turn = asyncio.create_task(prompt("run sleep 300"))
    await editor.running.wait()
    return turn  # still running when the client goes


async def main():
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)
    editor = Editor()
    with tempfile.TemporaryDirectory() as name:
        environment = os.environ | {"LLM_PROVIDER": "DEMO", "BOB_HOME": f"{name}/.home"}
        async with acp.spawn_agent_process(
            editor, os.environ["BOB"], "--acp", env=environment, transport_kwargs={"stderr": asyncio.subprocess.DEVNULL}
        ) as (bob, process):
            turn = await drive(editor, bob, Path(name))
        # Past 2 s the library would have killed it: the code would be negative.
        check("bob is gone by itself when its input ends in the middle of a turn", process.returncode == 0,
              process.returncode)
        await asyncio.gather(turn, return_exceptions=True)
    check("the library understood every message", not complaints.records, complaints.records)
    sys.exit(failures != 0)


asyncio.run(asyncio.wait_for(main(), 60))

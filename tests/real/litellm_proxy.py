"""Checks Bob with a real model behind LiteLLM's proxy, which turns each wire format into chat completions and back:
litellm_proxy.py LITELLM MODEL.gguf
"""
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bob import FORMATS, Bob, check, environment, finish, show, stop_reason, text
from real_model import (
    CONTEXT, ModelServer, cancel_in_mid_answer, exit_codes, few_calls, free_port, long_text, status_of,
)

CONFIG = """
model_list:
  - model_name: smollm2
    litellm_params: {{model: openai/smollm2, api_base: "{base_url}", api_key: none}}
general_settings:
  master_key: sk-sesame
"""


class Proxy:
    def __init__(self, program, server, folder):
        config = folder / "litellm.yaml"
        config.write_text(CONFIG.format(base_url=server.base_url))
        self.url = f"http://127.0.0.1:{free_port()}"
        log = folder / "litellm.log"
        self.process = subprocess.Popen(
            [program, "--config", config, "--host", "127.0.0.1", "--port", self.url.rpartition(":")[2]],
            stdin=subprocess.DEVNULL, stdout=log.open("w"), stderr=subprocess.STDOUT,
        )
        while status_of(f"{self.url}/health/liveliness")[0] != 200:
            if self.process.poll() is not None:
                raise SystemExit(f"FAIL  the proxy ended:\n{log.read_text()[-3000:]}")
            time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def talk(proxy, server, form, folder):
    def variables(**settings):
        usual = {"LOCAL_API_KEY": "sk-sesame", "LLM_TEMPERATURE": "0", "LLM_MAX_TOKENS": "60"}
        return environment(folder, proxy.url + "/v1", form, **usual | settings)

    bob = Bob(folder, variables(), "--mode", "full-access")
    turn = bob.turn("Run this command with bash: cat notes.txt")
    show(turn)
    check("a call comes through, its result goes back",
          exit_codes(turn) == [0] and stop_reason(turn) == "end_turn", turn)
    turn = bob.turn("Say hello.")
    check("so does text", text(turn) and stop_reason(turn) in ("end_turn", "max_tokens"), turn)
    bob.stop()
    endless = variables(LLM_EXTRA_BODY='{"ignore_eos": true}', LLM_MAX_TOKENS="2000")
    cancel_in_mid_answer(server, Bob(folder, endless))
    bob = Bob(folder, variables())
    turn = bob.turn(long_text(2 * CONTEXT))
    show(turn)
    check("a prompt that is too long is told, with what to do", "too long for this model" in text(turn), turn)
    bob.stop()
    # What it says of a wrong key is about its database, which is not there.
    bob = Bob(folder, variables(LOCAL_API_KEY="sk-melon"))
    turn = bob.turn("Say hello.")
    show(turn)
    check("a wrong key is an error", "error" in turn[-1] and "melon" not in str(turn), turn)
    bob.stop()


def main():
    program, model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as at_the_end:
        folder = Path(name)
        (folder / "notes.txt").write_text("remember the milk\n")
        few_calls(folder)
        server = ModelServer(model)
        at_the_end.callback(server.stop)
        server.wait_until(lambda status, _: status == 200, "/health")
        proxy = Proxy(program, server, folder)
        at_the_end.callback(proxy.stop)
        for form in FORMATS:
            print(f"\n# {form}, through LiteLLM")
            talk(proxy, server, form, folder)
    finish("LiteLLM")


main()

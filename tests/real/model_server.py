"""llama.cpp's server on loopback, until standard input ends: model_server.py MODEL.gguf TEMPLATE PORT CONTEXT [KEY]"""
import sys
from pathlib import Path

import xllamacpp

model, template, port, context, *keys = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path = model
params.chat_template = Path(template).read_text(encoding="utf-8")
params.hostnames = ["127.0.0.1"]
params.port = int(port)
params.api_keys = keys
params.endpoint_slots = True
params.n_parallel = 1
params.n_ctx = int(context)
params.cpuparams.n_threads = 1  # fastest on two cores
server = xllamacpp.Server(params)  # listens at once, returns when the model is loaded
sys.stdin.read()

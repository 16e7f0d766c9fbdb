#!/bin/sh
# A prompt that needs a tool, for the real model at $LOCAL_BASE_URL. The settings keep a very small model to the point.
# Usage: tool_call.sh FOLDER, which holds notes.txt
set -eu
dir=$1

LLM_PROVIDER=LOCAL LOCAL_MODEL=smollm2 LLM_TEMPERATURE=0 LLM_MAX_TOKENS=200 BOB_HOME="$dir/home" \
"${BOB:-target/debug/bob}" --acp --script --mode full-access <<END
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"$dir","mcpServers":[]}}
{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"script","prompt":[{"type":"text","text":"Run this command with bash: cat notes.txt"}]}}
END

#!/bin/sh
# A prompt that reads a file. --script names the session and finishes what was asked before the input ended;
# --mode full-access asks no permission.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
echo 'remember the milk' > "$dir/notes.txt"

out=$(LLM_PROVIDER=DEMO BOB_HOME="$dir/home" "${BOB:-target/debug/bob}" --acp --script demo --mode full-access <<END
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"$dir","mcpServers":[]}}
{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"demo","prompt":[{"type":"text","text":"read notes.txt"}]}}
END
)

echo "$out"
echo "$out" | grep -q '"title":"read_file: notes.txt"'
echo "$out" | grep '"completed"' | grep -q 'remember the milk'
echo "$out" | grep '"id":3' | grep -q '"stopReason":"end_turn"'

#!/bin/sh
# A prompt that reads a file. --script names the session and finishes what was asked before the input ended;
# --mode full-access asks no permission.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
echo 'remember the milk' > "$dir/notes.txt"

LLM_PROVIDER=DEMO BOB_HOME="$dir/home" "${BOB:-target/debug/bob}" --acp --script demo --mode full-access > "$dir/out" <<END
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"$dir","mcpServers":[]}}
{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"demo","prompt":[{"type":"text","text":"read notes.txt"}]}}
END

cat "$dir/out"
grep -q '"title":"read_file: notes.txt"' "$dir/out"
grep '"completed"' "$dir/out" | grep -q 'remember the milk'
grep '"id":3' "$dir/out" | grep -q '"stopReason":"end_turn"'

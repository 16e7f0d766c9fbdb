#!/bin/sh
# Two prompts, one after the other: the second waits for the first.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

LLM_PROVIDER=DEMO BOB_HOME="$dir/home" "${BOB:-target/debug/bob}" --acp --script --mode full-access > "$dir/out" <<END
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"$dir","mcpServers":[]}}
{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"script","prompt":[{"type":"text","text":"run echo one > made; echo two"}]}}
{"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"sessionId":"script","prompt":[{"type":"text","text":"list"}]}}
END

cat "$dir/out"
grep -q one "$dir/made"
grep '"id":3' "$dir/out" | grep -q '"stopReason":"end_turn"'
grep '"id":4' "$dir/out" | grep -q '"stopReason":"end_turn"'
# The second saw what the first had made.
sed '1,/"id":3/d' "$dir/out" | grep '"completed"' | grep -q made

#!/bin/sh
# Two prompts, one after the other: the second waits for the first.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

out=$(LLM_PROVIDER=DEMO BOB_HOME="$dir/home" "${BOB:-target/debug/bob}" --acp --script --mode full-access <<END
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"$dir","mcpServers":[]}}
{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"script","prompt":[{"type":"text","text":"run echo one > made; echo two"}]}}
{"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"sessionId":"script","prompt":[{"type":"text","text":"list"}]}}
END
)

echo "$out"
grep -q one "$dir/made"
echo "$out" | grep '"id":3' | grep -q '"stopReason":"end_turn"'
echo "$out" | grep '"id":4' | grep -q '"stopReason":"end_turn"'
# The second saw what the first had made.
echo "$out" | sed '1,/"id":3/d' | grep '"completed"' | grep -q made

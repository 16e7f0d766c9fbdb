#!/bin/sh
# Nobody is there to say yes: the command does not run, the model is told, the turn ends in order.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

LLM_PROVIDER=DEMO BOB_HOME="$dir/home" "${BOB:-target/debug/bob}" --acp --script > "$dir/out" <<END
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"$dir","mcpServers":[]}}
{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"script","prompt":[{"type":"text","text":"run touch made"}]}}
END

cat "$dir/out"
grep '"tool_call_update"' "$dir/out" | grep -q '"status":"failed"'
grep '"id":3' "$dir/out" | grep -q '"stopReason":"end_turn"'
[ ! -e "$dir/made" ]

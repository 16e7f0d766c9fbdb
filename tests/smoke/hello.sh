#!/bin/sh
# The handshake and a new session.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

LLM_PROVIDER=DEMO BOB_HOME="$dir/home" "${BOB:-target/debug/bob}" --acp > "$dir/out" <<END
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"$dir","mcpServers":[]}}
END

cat "$dir/out"
grep '"id":1' "$dir/out" | grep -q '"protocolVersion":1'
grep '"id":2' "$dir/out" | grep -q '"sessionId":"'
grep -q '"available_commands_update"' "$dir/out"

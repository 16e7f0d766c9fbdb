#!/bin/sh
# The handshake and a new session.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

out=$(LLM_PROVIDER=DEMO BOB_HOME="$dir/home" "${BOB:-target/debug/bob}" --acp <<END
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"$dir","mcpServers":[]}}
END
)

echo "$out"
echo "$out" | grep '"id":1' | grep -q '"protocolVersion":1'
echo "$out" | grep '"id":2' | grep -q '"sessionId":"'
echo "$out" | grep -q '"available_commands_update"'

#!/bin/sh
# What is wrong is told by an error with a code, under the request's id, and the next line is read.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

LLM_PROVIDER=DEMO BOB_HOME="$dir/home" "${BOB:-target/debug/bob}" --acp > "$dir/out" <<END
{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"$dir","mcpServers":[]}}
this is no JSON
{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
{"jsonrpc":"2.0","id":3,"method":"session/new","params":{"cwd":"not/absolute","mcpServers":[]}}
{"jsonrpc":"2.0","id":4,"method":"no/such/method"}
END

cat "$dir/out"
grep '"id":1' "$dir/out" | grep -q -e '-32002'
grep '"id":null' "$dir/out" | grep -q -e '-32700'
grep '"id":2' "$dir/out" | grep -q '"protocolVersion":1'
grep '"id":3' "$dir/out" | grep -q -e '-32602.*absolute'
grep '"id":4' "$dir/out" | grep -q -e '-32601'

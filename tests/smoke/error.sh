#!/bin/sh
# What is wrong is told by an error with a code, under the request's id, and the next line is read.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

out=$(LLM_PROVIDER=DEMO BOB_HOME="$dir/home" "${BOB:-target/debug/bob}" --acp <<END
{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"$dir","mcpServers":[]}}
this is no JSON
{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
{"jsonrpc":"2.0","id":3,"method":"session/new","params":{"cwd":"not/absolute","mcpServers":[]}}
{"jsonrpc":"2.0","id":4,"method":"no/such/method"}
END
)

echo "$out"
echo "$out" | grep '"id":1' | grep -q -e '-32002'
echo "$out" | grep '"id":null' | grep -q -e '-32700'
echo "$out" | grep '"id":2' | grep -q '"protocolVersion":1'
echo "$out" | grep '"id":3' | grep -q -e '-32602.*absolute'
echo "$out" | grep '"id":4' | grep -q -e '-32601'

#!/bin/sh
# Lists and calls the tools with the MCP inspector, the reference client in TypeScript; Node.js is needed:
#
#     OPX_HOME=.opx examples/mcp_inspector.sh "disk full on a Linux host"
set -eu

inspector="npx --yes @modelcontextprotocol/inspector@2.12.0 --cli ${OPX:-opx} --home ${OPX_HOME:-.opx} mcp"

$inspector --method tools/list
$inspector --method tools/call --tool-name search_runbooks --tool-arg "query=$1"

"""The interfaces, made from the registry of operations: HTTP, tools, MCP, the remote client."""

"""Interfaces built from the registry of operations: HTTP, tools, MCP, the remote client, the command."""

"""Serves one installation over HTTP on this machine: REST, tools over MCP, webhooks, metrics and documentation."""

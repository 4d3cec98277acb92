"""Shared runtime: Lambda handlers, knowledge.yaml, metrics and threads."""

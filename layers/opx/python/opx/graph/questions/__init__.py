"""Queries that only the graph can answer."""

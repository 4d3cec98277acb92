"""Questions about running systems: logs, metrics and traces. Everything is bounded, and nothing is changed."""

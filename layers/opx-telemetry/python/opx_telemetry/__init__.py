"""Queries logs, metrics and traces of running systems, read-only and within limits, and keeps baselines of metrics."""

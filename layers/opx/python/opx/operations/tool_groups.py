"""The groups of tools that there are: each is served by one Lambda function."""

from __future__ import annotations

from opx.operations.registry import ToolGroup

KNOWLEDGE = ToolGroup(
    "retrieve-knowledge",
    "OPX Knowledge retrieval",
    "Runbooks, postmortems and documentation for operations agents, with their sources.",
)
OPERATIONS = ToolGroup(
    "query-operations",
    "OPX Knowledge operational queries",
    "Logs, metrics, traces and baselines of the running systems, for operations agents.",
)
LEARNING = ToolGroup(
    "learn-from-work",
    "OPX Knowledge learning",
    "What work taught: told by agents, and asked for by orchestrators.",
)
GROUPS = (KNOWLEDGE, OPERATIONS, LEARNING)

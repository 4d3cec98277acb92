"""Knowledge that the listings of the designs run on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx import Knowledge
from opx.facade.opening import of_system
from opx.settings import Settings
from opx.system import bootstrap

RUNBOOK = """# High CPU on web servers

## Symptoms

web-server-01 is slow, high CPU, load average above the number of cores.

## Steps

1. Look at `top` for the process that spins.
2. Restart the worker: `systemctl restart worker`.
"""
POSTMORTEM = """# RDS failover in January

## Summary

The RDS failover took eleven minutes, as the connection pool kept dead connections.

## Root cause

The pool had no validation query.
"""
INCIDENT = {
    "title": "High CPU on web-server-01",
    "content": "web-server-01 had high CPU after the deployment of cart 4.2; a regular expression backtracked.",
    "services": ["web"],
    "created_at": "2026-11-20T10:00:00Z",
}
CHANGE = {
    "title": "cart 4.2",
    "description": "Deployment of cart 4.2 to web-server-01: changes affecting web-server-01.",
    "affected_systems": ["web-server-01"],
    "created_at": "2026-11-20T09:00:00Z",
}


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Knowledge]:
    """Knowledge that is only read."""
    with Knowledge.open(tmp_path_factory.mktemp("designs") / "kb") as knowledge:
        knowledge.ingest_document(
            "internal", "runbooks/procedures", RUNBOOK, {"source": "high-cpu.md", "tags": ["cpu"]}
        )
        knowledge.ingest_document("internal", "postmortems", POSTMORTEM, {"source": "rds.md"})
        knowledge.ingest_document("internal", "operations/incidents", INCIDENT)
        knowledge.ingest_document("internal", "operations/changes", CHANGE)
        yield knowledge


@pytest.fixture
def knowledge(tmp_path: Path) -> Iterator[Knowledge]:
    """Empty knowledge."""
    with Knowledge(of_system(bootstrap(Settings(home=str(tmp_path / "kb"))))) as found:
        yield found

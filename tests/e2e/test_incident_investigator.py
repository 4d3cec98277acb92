"""The example of docs/incident-investigator.md does what the page says, as it stands there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from opx.domain.scopes import Identity
from opx.operations.system import System
from opx_telemetry.capability import baselines
from tests.support.agent_calls import a_system

PAGE = Path(__file__).resolve().parents[2] / "docs" / "incident-investigator.md"
DISK = "disk full on the web server"
CORPUS = {
    "documents/runbooks/disk.md": "# Disk full on the web server\n\n1. Find the biggest directories.\n"
    "2. Delete rotated logs when the disk is full on the web server.",
    "documents/runbooks/cpu.md": "# High CPU on web servers\n\nLook at top. Restart the worker that spins.",
    "documents/postmortems/disk.md": "# Disk full in March\n\nWhat caused a disk full on the web server before: "
    "log rotation had been switched off.",
}
STEADY = [40.0, 41.0, 42.0, 43.0] * 20


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    """The first block of code of the page, as a module."""
    text = PAGE.read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    code = "\n" * text[: block.start(1)].count("\n") + block[1]  # lines have the page's numbers
    module = ModuleType("incident_investigator")
    sys.modules[module.__name__] = module  # where dataclasses look for it
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    yield module
    del sys.modules[module.__name__]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home"), CORPUS) as system:
        system.part(baselines).add([{"node": "web-01", "metric": "disk", "value": value} for value in STEADY])
        yield system


def investigate(page: ModuleType, services: System, value: float = 97.0, bar: float = 0.2, **alert: Any) -> Any:
    given = {"node": "web-01", "service": "shop", "metric": "disk", "value": value, "symptom": DISK} | alert
    investigator = page.IncidentInvestigator(services, Identity(), min_confidence=bar)
    return investigator.investigate(page.Alert(**given))


def test_a_value_out_of_the_ordinary_is_looked_into(page: ModuleType, services: System) -> None:
    found = investigate(page, services)
    assert found.runbook.title == "Disk full on the web server"
    assert "Disk full in March" in [finding.title for finding in found.research.findings]


def test_an_ordinary_value_is_not(page: ModuleType, services: System) -> None:
    found = investigate(page, services, value=42.0)
    assert (found.runbook, found.research, len(found.steps)) == (None, None, 1)


def test_without_a_baseline_it_looks(page: ModuleType, services: System) -> None:
    assert investigate(page, services, node="web-02").runbook is not None


def test_every_answer_has_a_receipt(page: ModuleType, services: System) -> None:
    found = investigate(page, services)
    records = {record.receipt_id for record in services.records.audit.records()}
    assert len(found.receipts) == found.research.searches_performed + 1
    assert set(found.receipts) <= records


def test_missing_knowledge_is_reported(page: ModuleType, services: System) -> None:
    found = investigate(page, services, symptom="quantum llamas in orbit", bar=0.99)
    assert found.runbook is None
    assert "runbook: none is good enough" in found.steps
    assert any(step.startswith("nothing good enough for: quantum llamas") for step in found.steps)

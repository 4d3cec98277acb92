"""Receipts, audit log and gaps of a deployed system, through the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.remote_support import DeployedOpx, deployed
from tests.unit.edges.cli.test_cli_records import DISK, ESPRESSO, QUESTION, SURE


@pytest.fixture
def opx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeployedOpx]:
    with deployed(tmp_path, monkeypatch) as found:
        found.system.services.store.put("documents/runbooks/disk.md", DISK.encode())
        list(found.system.services.manager.work())
        yield found


def test_receipt_of_a_deployed_system_is_replayed_there(opx: DeployedOpx, tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    assert opx("search", QUESTION, "--receipt", path).exit_code == 0
    found = opx("receipt", "replay", path)
    assert (found.exit_code, found.stdout.startswith("the same answer")) == (0, True)


def test_answer_has_a_receipt_only_on_request(opx: DeployedOpx) -> None:
    answer = json.loads(opx("search", QUESTION, "--json").stdout)
    assert answer["receiptId"]
    assert "receipt" not in answer


def test_gaps_and_audit_log_are_read_over_http(opx: DeployedOpx) -> None:
    opx("search", ESPRESSO, *SURE)
    assert [gap["question"] for gap in json.loads(opx("gaps", "--all", "--json").stdout)] == [ESPRESSO]
    records = json.loads(opx("audit", "--who", "arn:", "--limit", "5", "--json").stdout)
    assert [record["documentsInAll"] for record in records] == [0]


def test_gaps_are_not_settled_from_afar(opx: DeployedOpx) -> None:
    found = opx("gaps", "check")
    assert found.exit_code == 2
    assert "check_gaps works where the stores are" in found.stderr

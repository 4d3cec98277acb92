"""A stored row that lacks an attribute is reported and left out, or a clear error: it never keeps a home from working.

`OPX_ATTACK_ROWS` sets the number of rows and attributes that are tried, of about 360.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.errors import DamagedRowError, OpxError
from opx.operations.system import System
from opx.ports.tables import ALL_TABLES, OUTCOMES, PROJECTS, TableSpec
from tests.support.archive_support import services_at
from tests.support.cli_support import Opx
from tests.support.whole_archive import SHOP, fill, work_of

CASES, SEED = int(os.environ.get("OPX_ATTACK_ROWS", "40")), int(os.environ.get("OPX_ATTACK_SEED", "0"))
ALWAYS_WORK = ("clients", "search", "projects")
"""Of these not even a clear error is accepted."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    opx = Opx(tmp_path_factory.mktemp("damaged"))
    with services_at(opx.home) as services:
        fill(services)
    return opx.folder


@pytest.fixture
def services(home: Path) -> Iterator[System]:
    with services_at(Opx(home).home) as services:
        yield services


def damages(services: System) -> list[tuple[TableSpec, dict[str, Any], str]]:
    """A row of each kind, with each attribute but those of its key."""
    kinds = {
        (spec.name, *sorted(item)): (spec, item) for spec in ALL_TABLES for item in services.tables.every_item(spec)
    }
    return [
        (spec, item, name) for spec, item in kinds.values() for name in item if name not in (spec.partition, spec.sort)
    ]


def test_no_row_without_an_attribute_keeps_a_home_from_working(services: System, home: Path) -> None:
    found = damages(services)
    assert len(found) > 300
    for spec, item, name in random.Random(SEED).sample(found, min(CASES, len(found))):
        with services_at(Opx(home).home) as damaged:
            table = damaged.tables.table(spec)
            table.put({key: value for key, value in item.items() if key != name})
            try:
                check(damaged, f"{spec.short_name} without {name}")
            finally:
                table.put(item)


def check(services: System, what: str) -> None:
    for work, run in work_of(services).items():
        try:
            run()
        except Exception as exc:
            if work in ALWAYS_WORK or not isinstance(exc, OpxError):
                raise AssertionError(f"{what}: {work} fails: {exc!r}") from exc


def without(services: System, spec: TableSpec, of: dict[str, Any], name: str) -> dict[str, Any]:
    """Damage the first row with these attributes; returns it as it was."""
    item = next(item for item in services.tables.every_item(spec) if of.items() <= item.items())
    services.tables.table(spec).put({key: value for key, value in item.items() if key != name})
    return item


@pytest.mark.parametrize("name", ["state", "since"])
def test_commands_work_with_a_client_that_lacks_a_field(services: System, home: Path, name: str) -> None:
    item = without(services, PROJECTS, {"clientId": "#clients"}, name)
    opx = Opx(home)
    for command in (["status"], ["client", "list"], ["--client", "acme", "search", "restart the heron"], ["reconcile"]):
        result = opx(*command)
        assert result.exit_code == 0, f"{command}: {result.stderr}"
    services.tables.table(PROJECTS).put(item)


def test_a_damaged_warning_is_left_out_and_reported(services: System, caplog: pytest.LogCaptureFixture) -> None:
    visible = services.corpus.projects.reader(SHOP).visible
    before = [(scope, one) for scope in visible for one in services.learning.warnings.tried(scope)]
    item = without(services, OUTCOMES, {"entryId": before[0][1].entry_id}, "effect")
    after = [(scope, one) for scope in visible for one in services.learning.warnings.tried(scope)]
    assert after == before[1:]
    assert "has no effect" in caplog.text
    services.tables.table(OUTCOMES).put(item)


def test_a_missing_attribute_is_an_error_that_names_table_key_and_attribute(services: System) -> None:
    item = without(services, PROJECTS, {"clientId": "#clients"}, "by")
    key = {"clientId": "#clients", "projectId": item["projectId"]}
    found = services.tables.table(PROJECTS).get(key)
    assert found is not None
    with pytest.raises(DamagedRowError, match=r"opx-knowledge-projects is damaged: .*#clients.* has no by"):
        found["by"]
    assert found.get("by") is None
    services.tables.table(PROJECTS).put(item)

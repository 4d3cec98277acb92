"""Answers need what isolation and policy need: what they only write to, or use for extras, may be damaged."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from opx.ports.tables import ALIASES, AUDIT, EMBEDDINGS, GAPS, GRAPH, LIFECYCLE, OUTCOMES, PROJECTS, TableSpec
from tests.damage.homes import copied, make_folder, settle, text_of, truncate
from tests.damage.test_repair import blank, pages_of
from tests.support.cli_support import Opx

NOT_RECORDED = "not recorded: this answer has no receipt, as questions.db is damaged; run `opx repair`"


def zero_beginning(path: Path) -> None:
    path.write_bytes(bytes(512) + path.read_bytes()[512:])


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Opx:
    """A knowledge base with a recorded question."""
    opx = Opx(tmp_path_factory.mktemp("answered"))
    for number in range(3):
        opx.write(f"other{number}.md", text_of(f"other{number}"))
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    assert opx("search", "procedure other1 fails").exit_code == 0
    for name in ("opx.db", "questions.db"):
        settle(opx.home / name)
    return opx


@pytest.fixture
def opx(answered: Opx, tmp_path: Path) -> Opx:
    copied(answered.home, tmp_path / ".opx")
    return Opx(tmp_path)


def notes(opx: Opx, *line: str) -> list[str]:
    """Notes of the answer of a search, which finds its procedure."""
    found = opx(*line, "search", "procedure other1 fails", "--json")
    assert found.exit_code == 0, found.output
    assert "check other1 --step 1" in found.output
    return list(json.loads(found.stdout).get("notes", []))


@pytest.mark.parametrize("damage", [zero_beginning, truncate, make_folder])
def test_damaged_log_of_questions_ends_no_search(opx: Opx, damage: Callable[[Path], None]) -> None:
    damage(opx.home / "questions.db")
    assert notes(opx) == [NOT_RECORDED]
    assert notes(opx, "--client", "acme") == [NOT_RECORDED]
    assert opx("repair").exit_code == 1, "rows are lost"
    assert notes(opx) == []
    assert list(opx.home.glob("damaged-*/questions.db")), "the damaged file is kept"


def test_logs_themselves_are_not_read_from_a_damaged_file(opx: Opx) -> None:
    zero_beginning(opx.home / "questions.db")
    for line in (("audit",), ("gaps",)):
        refused = opx(*line)
        assert refused.exit_code == 2
        assert "run `opx repair`" in refused.output


@pytest.mark.parametrize("spec", [OUTCOMES, GRAPH, ALIASES, EMBEDDINGS, AUDIT, GAPS], ids=lambda spec: spec.short_name)
def test_damaged_table_of_extras_ends_no_search(opx: Opx, spec: TableSpec) -> None:
    damage(opx, spec)
    assert isinstance(notes(opx), list)


@pytest.mark.parametrize("spec", [PROJECTS, LIFECYCLE], ids=lambda spec: spec.short_name)
def test_damaged_table_that_limits_answers_ends_each_search(opx: Opx, spec: TableSpec) -> None:
    """Clients with their projects, and holds with the edition of the index that answers."""
    damage(opx, spec)
    refused = opx("--client", "acme", "--project", "shop", "search", "procedure other1 fails")
    assert refused.exit_code == 2
    assert "run `opx repair`" in refused.output


def damage(opx: Opx, spec: TableSpec) -> None:
    """Blanks the pages of a table and its indexes."""
    file = opx.home / ("questions.db" if spec in (AUDIT, GAPS) else "opx.db")
    with closing(sqlite3.connect(file)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE tbl_name = ?", (spec.name,)).fetchall()
    for page in [page for (name,) in names for page in pages_of(file, name)]:
        blank(file, page)

"""`opx rebuild`: a lost index comes back from the corpus."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from opx.ports.tables import GRAPH
from tests.support.cli_support import Opx


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    opx.write("disk.md", "# Disk full\n\nDelete old archive logs.\n")
    opx.write("pod.md", "# Pod restarts\n\nRead the log of the pod.\n")
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    return opx


def found(opx: Opx, question: str) -> str:
    return opx("search", question, "--min-confidence", "0").stdout


def test_rebuild_brings_a_deleted_index_back(opx: Opx) -> None:
    shutil.rmtree(opx.home / "index")
    assert "Disk full" not in found(opx, "archive logs")
    result = opx("rebuild")
    assert result.exit_code == 0
    assert "2 ingested" in result.stdout
    assert "Disk full" in found(opx, "archive logs")


def test_ingest_notices_that_the_index_is_new(opx: Opx) -> None:
    shutil.rmtree(opx.home / "index")
    assert "2 ingested" in opx("ingest", opx.folder / "docs").stdout
    assert "Pod restarts" in found(opx, "log of the pod")


def test_rebuild_of_an_index_in_order_changes_nothing(opx: Opx) -> None:
    assert "nothing changed" in opx("rebuild").stdout


def things(opx: Opx) -> str:
    return opx("graph", "find", "docs").stdout


def lose_graph(opx: Opx, *, name: str) -> None:
    """Deletes rows of the graph whose partition key begins with `name`."""
    with closing(sqlite3.connect(opx.home / "opx.db")) as database, database:
        database.execute(f'DELETE FROM "{GRAPH.name}" WHERE place LIKE ?', (f"{name}%",))


def test_rebuild_brings_a_lost_graph_back(opx: Opx) -> None:
    lose_graph(opx, name="")
    assert "Disk full" not in things(opx)
    assert "2 ingested" in opx("rebuild").stdout
    assert "Disk full" in things(opx)


def test_rebuild_of_the_graph_restores_lost_rows(opx: Opx) -> None:
    lose_graph(opx, name="global")
    assert "nothing changed" in opx("rebuild").stdout
    assert "2 ingested" in opx("rebuild", "--graph").stdout
    assert "Disk full" in things(opx)
    assert "nothing changed" in opx("rebuild").stdout


def test_rebuild_without_knowledge_is_refused(tmp_path: Path) -> None:
    result = Opx(tmp_path)("rebuild")
    assert result.exit_code == 2
    assert "opx ingest" in result.stderr

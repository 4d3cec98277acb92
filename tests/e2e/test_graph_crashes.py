"""A worker that dies while the graph is written: the event comes again, and the graph is as if nothing had happened."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.object_store import FolderObjectStore
from opx.adapters.embedded.table import SqliteTable
from opx.ports.tables import GRAPH, TableSpec
from opx_testing.fake_time import FakeTime
from tests.e2e.systems import SystemUnderTest, created
from tests.e2e.test_pipeline_crashes import Mortal, Steps, a_mortal_system
from tests.support.graph_support import settled
from tests.support.lessons import Ungrouped

OLD = "# Web\n\nservice:web|DEPENDS_ON|service:db\n\nservice:web->CALLS->service:cache\n"
NEW = "# Web\n\nservice:web|DEPENDS_ON|service:db\n\nservice:db->RUNS->product:postgres\n"
MOST_STEPS = 60


def with_a_mortal_graph(
    tables: list[SqliteTable], folder: Path, session: boto3.Session, steps: Steps, time: FakeTime
) -> dict[str, Any]:
    """Only calls of the graph's table are counted."""
    database = open_database(folder / "tables.db")

    def table(spec: TableSpec) -> Any:
        made = SqliteTable(spec, database, clock=time.clock)
        tables.append(made)
        return steps.watch(made) if spec is GRAPH else made

    return {"store": FolderObjectStore(folder / "corpus"), "tables": Ungrouped(table)}


def graph_of(system: SystemUnderTest, tables: list[SqliteTable], key: str) -> list[Any]:
    """Rows of the graph by this document, without times, keys of documents and hashes."""
    graph = next(table for table in tables if table._spec is GRAPH)
    places = graph._database.connection().execute(f'SELECT DISTINCT place FROM "{GRAPH.name}"').fetchall()
    rows = settled([row for (place,) in places for row in graph.query(place)])
    document = system.document(key).document_id if list(system.versions(key)) else ""
    return [
        (row["stated"], row.get("edgeType"), row["documentId"] == document)
        if "stated" in row
        else (row.get("nodeKey"), sorted(row.get("nodes", ())), sorted(row.get("edges", ())))
        for row in rows
    ]


def change(mortal: Mortal, key: str, *, gone: bool) -> None:
    """Ingests the old version, and puts the new one, or deletes the object."""
    mortal.anew()
    mortal.system.put_silently(key, OLD)
    mortal.system.deliver(created(key, 1))
    if gone:
        mortal.system.silent.delete(key)
    else:
        mortal.system.put_silently(key, NEW)


def clear(system: SystemUnderTest, key: str) -> None:
    system.silent.delete(key)
    system.deliver(created(key, 9))


@pytest.mark.parametrize("gone", [False, True])
def test_a_graph_that_was_half_written_is_right_after_the_event_comes_again(
    tmp_path: Path, aws_session: boto3.Session, gone: bool
) -> None:
    tables: list[SqliteTable] = []
    with a_mortal_system("nextgen", tmp_path, aws_session, partial(with_a_mortal_graph, tables)) as mortal:
        system, expected = mortal.system, None
        for step in (MOST_STEPS, *range(0, MOST_STEPS, 4)):
            key = f"documents/notes/{'gone' if gone else 'new'}-{step}.md"
            change(mortal, key, gone=gone)
            died = mortal.dies(key, step)
            if expected is not None and not died:
                assert step > 8
                return
            system.lease_over()
            system.deliver(created(key, 2), receives=2)
            found = [row for row in graph_of(system, tables, key) if f"-{step}" not in str(row)]
            expected = found if expected is None else expected
            assert bool(expected) is not gone
            assert found == expected, f"died at step {step}"
            clear(system, key)
            assert graph_of(system, tables, key) == []
    pytest.fail("there are more steps than were tried")

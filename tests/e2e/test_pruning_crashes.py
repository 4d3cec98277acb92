"""A run of pruning that dies at any call: the next one goes on, and nothing is left of what was due or lost of the rest."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.object_store import FolderObjectStore
from opx.adapters.embedded.table import SqliteTable
from opx.domain.ids import iso_time
from opx.ports.tables import CALENDAR, DOCUMENTS, ENTRIES, GRAPH, KEYS, TableSpec
from opx_testing.fake_time import FakeTime
from tests.e2e.systems import chunk_key, created, deleted, key_of
from tests.e2e.test_pipeline_crashes import Died, Mortal, Steps, a_mortal_system
from tests.support.lessons import Ungrouped

DAY = 86_400
FIRST = "# Web\n\nservice:web|DEPENDS_ON|service:db\n\nRestart it.\n"
SECOND = "# Web\n\nservice:web|DEPENDS_ON|service:cache\n\nFlush it.\n"
WATCHED = (DOCUMENTS, KEYS, ENTRIES, CALENDAR, GRAPH)
MOST_STEPS = 200


def on_sqlite(
    tables: dict[str, SqliteTable], folder: Path, session: boto3.Session, steps: Steps, time: FakeTime
) -> dict[str, Any]:
    database = open_database(folder / "tables.db")

    def table(spec: TableSpec) -> Any:
        tables[spec.name] = SqliteTable(spec, database, clock=time.clock)
        return steps.watch(tables[spec.name])

    return {"store": steps.watch(FolderObjectStore(folder / "corpus")), "tables": Ungrouped(table)}


class Scene:
    """A document with a version that was replaced, both due, and another document with the same text that is not."""

    def __init__(self, mortal: Mortal, tables: dict[str, SqliteTable], number: int) -> None:
        self.system, self.steps, self.tables = mortal.system, mortal.steps, tables
        self.key, self.other = f"documents/runbooks/{number}-due.md", f"documents/runbooks/{number}-other.md"
        mortal.anew()
        expires = json.dumps({"expires": iso_time(self.system.time.now + DAY)[:10], "tags": ["gone", "web"]})
        for text, sequence in ((FIRST, 1), (SECOND, 2)):
            self.system.put_silently(self.key, text, expires)
            self.system.deliver(created(self.key, sequence))
        self.system.put_silently(self.other, SECOND)
        self.system.deliver(created(self.other, 1))
        self.first = next(v.document_id for v in self.system.versions(self.key) if v.version == 1)
        self.system.time.sleep(4 * DAY)

    def prune(self, step: int = -1) -> bool:
        """Prunes with a crash at a step; True if the run died."""
        self.steps.left = step
        try:
            self.system.services.lifecycle.pruning().run()
        except Died:
            return True
        finally:
            self.steps.left = -1
        return False

    def left(self) -> list[str]:
        """Rows, objects and entries that are left of the due document."""
        rows = [str(row) for spec in WATCHED for row in self.tables[spec.name].scan()]
        named = [row for row in rows if self.key in row or key_of(self.key).id in row]
        objects = [info.key for info in self.system.silent.list() if info.key in (self.key, self._first_chunks())]
        return [*named, *objects, *(entry.entry_id for entry in self.system.entries(self.key))]

    def _first_chunks(self) -> str:
        return chunk_key(self.key, self.first)

    def clear(self) -> None:
        self.system.silent.delete(self.other)
        self.system.deliver(deleted(self.other, 5))


@pytest.mark.parametrize(("generation", "first", "every"), [("nextgen", 4, 9), ("classic", 7, 25)])
def test_a_run_that_died_is_finished_by_the_next(
    tmp_path: Path, aws_session: boto3.Session, generation: str, first: int, every: int
) -> None:
    tables: dict[str, SqliteTable] = {}
    with a_mortal_system(generation, tmp_path, aws_session, partial(on_sqlite, tables)) as mortal:
        mortal.system.services.lifecycle.pruning().run()  # which notes the policies, so that a run is about what is due alone
        deaths = 0
        for step in (MOST_STEPS, *range(first, MOST_STEPS, every)):
            scene = Scene(mortal, tables, step)
            died = scene.prune(step)
            deaths += died
            if not scene.system.silent.head(scene.key):
                scene.system.lease_over()
                scene.system.deliver(deleted(scene.key, 3))  # which the store says by itself
            scene.system.lease_over()
            assert not scene.prune()
            assert scene.left() == [], f"after a death at call {step}"
            scene.system.assert_consistent(scene.other)
            scene.clear()
            if not died and step != MOST_STEPS:
                break
        assert deaths > 3

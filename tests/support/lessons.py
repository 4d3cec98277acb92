"""A system that learns: tables, objects and an index, an embedder that counts words, and a process that may die."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.object_store import FolderObjectStore
from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.adapters.embedded.table import SqliteTable
from opx.domain.learning import CheckpointReport, Pattern, StagingEntry
from opx.domain.scopes import Identity
from opx.learning.capture import KnowledgeCaptureService
from opx.operations.system import System
from opx.ports import Embedder
from opx.ports.tables import TableSpec
from opx.settings import Settings
from opx.system import bootstrap
from opx_aws.ports import DynamoTables
from opx_testing.fake_time import FakeTime
from tests.support.captures import capture_failure_solution
from tests.support.fakes import WordsEmbedder

PROBLEM = "The migration of orders waits for a lock that an idle session holds"
ERROR = "canceling statement due to lock timeout"
STEPS = ["Find idle sessions in pg_stat_activity", "End them with pg_terminate_backend", "Run the migration again"]
OTHER_WORDS = "The migration of invoices waits for a lock that some idle session holds"
OTHER_STEPS = ["Find the idle sessions in pg_stat_activity", "End each with pg_terminate_backend", "Run it again"]


class Died(BaseException):
    """Simulates the death of the process: no code catches it."""


class Writes:
    """Lets a process die before one of its writes; -1 for never. `count` is the number of writes."""

    def __init__(self) -> None:
        self.left = -1
        self.count = 0

    def take(self) -> None:
        if self.left == 0:
            raise Died
        self.left -= 1
        self.count += 1

    def watch(self, client: Any) -> Any:
        return _Watched(client, self)


class _Watched:
    def __init__(self, client: Any, writes: Writes) -> None:
        self._client = client
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name not in ("put", "put_many", "delete"):
            return method

        def call(*positional: Any, **named: Any) -> Any:
            self._writes.take()
            return method(*positional, **named)

        return call


@dataclass
class School:
    """System whose documents are ingested elsewhere: a checkpoint ends with the objects that it puts."""

    services: System
    time: FakeTime
    writes: Writes = field(default_factory=Writes)

    def capture(self, project: str = "one", client: str = "acme") -> KnowledgeCaptureService:
        return self.services.learning.capture(Identity(client, project))

    def checkpoint(self, project: str = "one", client: str = "acme", kind: str = "manual") -> CheckpointReport:
        return self.services.learning.checkpoints(Identity(client, project)).process_checkpoint(project, kind)

    def failure(self, project: str = "one", client: str = "acme", **given: Any) -> str:
        """Captures a verified solution of `PROBLEM`; `given` overrides its fields."""
        fields: dict[str, Any] = {
            "agent_type": "developer",
            "task_type": "migration",
            "failure_description": PROBLEM,
            "error_message": ERROR,
            "solution_steps": STEPS,
            "technology": "postgres",
            "success_verified": True,
            **given,
        }
        return capture_failure_solution(self.capture(project, client), project, **fields)

    def entry(self, entry_id: str, project: str = "one", client: str = "acme") -> StagingEntry:
        return self.capture(project, client).entry(entry_id)

    def patterns(self, scope_key: str = "client:acme") -> list[Pattern]:
        return list(self.services.learning.patterns.patterns(scope_key))

    def counts(self, scope_key: str = "client:acme") -> list[tuple[int, int, int]]:
        """Successes, failures and stored occurrences of each pattern."""
        found = [
            (
                one.success_count,
                one.failure_count,
                len(list(self.services.learning.patterns.occurrences(scope_key, one.pattern_id))),
            )
            for one in self.patterns(scope_key)
        ]
        return sorted(found)

    def documents(self, prefix: str = "clients/acme/") -> dict[str, dict[str, Any]]:
        """Records of patterns and warnings in the corpus, by key."""
        store = self.services.store
        keys = [info.key for info in store.list(f"{prefix}documents/learning/")]
        return {key.removeprefix(f"{prefix}documents/learning/"): json.loads(_read(store, key)) for key in keys}


def _read(store: Any, key: str) -> bytes:
    with store.open(key) as stream:
        data: bytes = stream.read()
    return data


def sqlite_tables(folder: Path, time: FakeTime) -> Callable[[TableSpec], Any]:
    database = open_database(folder / "tables.db")
    return lambda spec: SqliteTable(spec, database, clock=time.clock)


class Ungrouped(DynamoTables):
    """Tables by a function, each write durable by itself."""

    def __init__(self, table: Callable[[TableSpec], Any]) -> None:
        self.table = table  # type: ignore[assignment,method-assign]


def a_school(
    folder: Path,
    table: Callable[[TableSpec], Any],
    time: FakeTime,
    embedder: Embedder = WordsEmbedder(),  # noqa: B008
    **settings: Any,
) -> School:
    """A `School` in a folder, whose writes are each durable by itself."""
    writes = Writes()
    services = bootstrap(
        Settings(backend="aws", corpus_bucket="corpus", **settings),
        clock=time.clock,
        embedder=embedder,
        index=EmbeddedIndex(folder / "index", model_id=embedder.model_id, dimension=embedder.dimension),
        tables=Ungrouped(lambda spec: writes.watch(table(spec))),
        store=writes.watch(FolderObjectStore(folder / "corpus")),
    )
    return School(services, time, writes)

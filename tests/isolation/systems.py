"""Fills systems with a world, and records the rows that each operation reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

from opx.domain.documents import DocumentKey
from opx.domain.ids import stable_hash
from opx.domain.outcomes import OutcomeResult, RecordedOutcome
from opx.edges.calling import LocalClient
from opx.errors import OpxError
from opx.ingestion.events import DOCUMENTS_FOLDER
from opx.learning.rules import LearningRules, read_learning_rules
from opx.operations.context import Caller, Context
from opx.operations.search import Query, query
from opx.operations.system import System
from opx.ports import Condition, Item, ItemPage, KeyRange, Table
from opx.ports.tables import AUDIT, GAPS, TableSpec
from opx.records.audit import AuditLog, InstallationKey
from opx_telemetry.capability import baselines
from tests.e2e.systems import SystemUnderTest, a_system
from tests.isolation.worlds import ELSEWHERE, World
from tests.support.captures import capture_failure_solution
from tests.support.fakes import Measured

ORCHESTRATOR = "the orchestrator"
"""Principal that may read patterns."""

NO_HURRY = 600.0
"""Seconds for the graph, so that a busy machine doesn't cause differences by a timeout."""


@dataclass(slots=True)
class Reads:
    """Rows that were read, each with its table, and calls of tables."""

    rows: list[tuple[str, Item]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def clear(self) -> None:
        self.rows.clear()
        self.calls.clear()


class RecordedTable:
    """A `Table` that records each row it returns."""

    def __init__(self, name: str, table: Table, reads: Reads) -> None:
        self._name = name
        self._table = table
        self._reads = reads

    def get(self, key: Mapping[str, Any]) -> Item | None:
        found = self._table.get(key)
        self._note("get", [found] if found else [])
        return found

    def get_many(self, keys: Sequence[Mapping[str, Any]]) -> list[Item]:
        found = self._table.get_many(keys)
        self._note("get_many", found)
        return found

    def query(
        self,
        partition: str | int,
        *,
        index: str = "",
        where: KeyRange | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Item]:
        self._note("query", [])
        for item in self._table.query(partition, index=index, where=where, reverse=reverse, limit=limit):
            self._reads.rows.append((self._name, item))
            yield item

    def page(
        self, partition: str | int, *, index: str = "", fields: Sequence[str] = (), begin: Item | None = None
    ) -> ItemPage:
        found = self._table.page(partition, index=index, fields=fields, begin=begin)
        self._note("page", found.items)
        return found

    def count(self, partition: str | int, *, index: str = "", where: KeyRange | None = None) -> int:
        self._note("count", [])
        return self._table.count(partition, index=index, where=where)

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        self._table.put(item, condition=condition)

    def put_many(self, items: Iterable[Mapping[str, Any]]) -> None:
        self._table.put_many(items)

    def delete(self, key: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        self._table.delete(key, condition=condition)

    def _note(self, call: str, found: Iterable[Item]) -> None:
        self._reads.calls.append(f"{self._name} {call}")
        self._reads.rows.extend((self._name, item) for item in found)


@dataclass(slots=True)
class Names:
    """Generates ids of records from the request alone, so that two systems generate the same ones."""

    request: str = ""
    given: int = 0

    def begin(self, request: str) -> None:
        self.request, self.given = request, 0

    def __call__(self) -> str:
        self.given += 1
        return stable_hash("receipt", self.request, self.given)


@dataclass(slots=True)
class Observed:
    """A system with a world in it. `home` is its folder, which is no secret."""

    services: System
    home: str
    reads: Reads = field(default_factory=Reads)
    names: Names = field(default_factory=Names)
    measured: Measured = field(default_factory=Measured)


@contextmanager
def holding(world: World, backend: str, home: Path, session: boto3.Session) -> Iterator[Observed]:
    """A system of one of the backends, filled through the interfaces of callers."""
    with a_system(backend, home, session, graph_seconds=NO_HURRY) as system:
        observed = Observed(system.services, str(home))
        _make_comparable(observed)
        fill(system, world, observed.names)
        yield observed


def _make_comparable(observed: Observed) -> None:
    """Record reads, and make random keys and ids equal in all systems."""
    services, table = observed.services, observed.services.tables.table

    def recorded(spec: TableSpec) -> Table:
        return RecordedTable(spec.name, table(spec), observed.reads)

    services.tables.table = recorded  # type: ignore[method-assign]
    services.installation.declare(read_learning_rules, LearningRules(orchestrators=frozenset({ORCHESTRATOR})))
    records = services.records
    records.key = InstallationKey(services.tables.table(GAPS), new_key=bytes)
    records.key.hash("made and read before anything is compared")
    days = services.settings.audit_days
    audit = AuditLog(services.tables.table(AUDIT), records.key, days=days, clock=services.clock, new_id=observed.names)
    records.audit = audit


def fill(system: SystemUnderTest, world: World, names: Names) -> None:
    services = system.services
    for (client, project), group in world.groups.items():
        services.corpus.projects.assign(client, project, group)
    _teach(services, world)
    waiting: set[tuple[object, str]] = set()
    for piece in world.pieces:
        again = (piece.scope, piece.source) in waiting  # the earlier version has to be ingested first
        if again or piece.scope == ELSEWHERE:
            system.work()
            waiting.clear()
        waiting.add((piece.scope, piece.source))
        manager = services.ingestion.manager_of(piece.scope)
        manager.put_document(piece.category, piece.content, {**piece.metadata, "source": piece.source})
    system.work()
    _report(services, world)
    for name in world.names:
        with suppress(OpxError):  # a name of what it names itself, or that is taken
            services.graph.merging.add(name.scope, f"service:{name.alias}", f"service:{name.canonical}")
    for one in world.measurements:
        values = [{"node": one.node, "metric": one.metric, "value": value} for value in one.values]
        services.part(baselines).add(values, scope=one.scope)
    for question in world.questions:
        names.begin(question.mark)
        LocalClient(Context(services, Caller(question.identity))).call(query, Query(query=question.text))


def _report(services: System, world: World) -> None:
    """Record two outcomes per report, with their words of incidents."""
    for report in world.reports:
        piece = report.piece
        source = f"{DOCUMENTS_FOLDER}{piece.category}/{piece.source}"
        key = DocumentKey(piece.scope, source)
        for number in range(2):
            outcome = RecordedOutcome(
                stable_hash("outcome", report.word, number),
                OutcomeResult.RESOLVED,
                "",
                1,
                f"{report.word}-{number}",
                "2026-03-01T12:00:00Z",
                incident=f"INC-{number}",
            )
            services.learning.learnt.enter(report.known_in.key, outcome, key, report.word)


def _teach(services: System, world: World) -> None:
    """Capture lessons; verified ones become patterns, whose documents are ingested with the others."""
    for lesson in world.lessons:
        captured = ("", "fixer", "deploy", lesson.problem, "", [lesson.solution], "kafka")
        capture_failure_solution(services.learning.capture(lesson.identity), *captured, success_verified=lesson.worked)
    for identity in dict.fromkeys(lesson.identity for lesson in world.lessons):
        services.learning.checkpoints(identity).process_checkpoint("", "manual")

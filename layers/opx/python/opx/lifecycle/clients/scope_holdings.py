"""Counts and removes items keyed by scope or client: questions, baselines, aliases, sources, learning, corpus folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

from opx.connectors.capability import Connectors
from opx.connectors.repository import REGISTERED
from opx.connectors.streams.definitions import REGISTERED as REGISTERED_STREAMS
from opx.domain.scopes import Scope, scope_of_object
from opx.errors import InvalidInputError, InvalidScopeError, StoreUnavailableError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.events import parse_event
from opx.ingestion.indexing.capability import Indexing
from opx.ingestion.indexing.words import FOLDER as WORDS
from opx.learning.outcome_store import rows_of as outcome_rows
from opx.learning.pattern_rows import rows_of as pattern_rows
from opx.lifecycle.bulk.files import FOLDER as BULK
from opx.lifecycle.bulk.files import FOUND, REPORT
from opx.lifecycle.bulk.job import BulkJobs, BulkKind
from opx.lifecycle.clients.holdings import CountedHolding, HeldItems, Holding, delete, in_table, is_of
from opx.lifecycle.retention.holds import LIFTED
from opx.ports import Clock, Item, Storage, Table, Tables, WorkQueue
from opx.ports.objects import read_object
from opx.ports.tables import (
    ALL_TABLES,
    AUDIT,
    BASELINES,
    CALENDAR,
    GAPS,
    LIFECYCLE,
    OUTCOMES,
    PATTERNS,
    PROJECTS,
    SOURCES,
    STAGING,
    TableSpec,
)
from opx.records.audit import SCOPES as AUDIT_SCOPES
from opx.records.dismissals import dismissed_partition
from opx.records.gaps.log import DROPPED
from opx.records.gaps.log import SCOPES as GAP_SCOPES
from opx_telemetry.baselines.items import SCOPES as BASELINE_SCOPES
from opx_telemetry.baselines.items import recorded_partition, series_partition

_NAMES = {AUDIT: "audit records"}


def scope_holdings(tables: Tables) -> list[Holding]:
    rows = ScopeRows(tables)
    special = {GAPS: rows.gaps, AUDIT: rows.audit, BASELINES: rows.baselines}
    specs = (*special, *(spec for spec in ALL_TABLES if spec.partitioned_by and spec not in special))
    return [
        in_table(tables, _NAMES.get(spec, spec.short_name), spec, special.get(spec, partial(rows.of, spec)))
        for spec in specs
    ]


def registry_holdings(tables: Tables) -> list[Holding]:
    """Removed last, as the projects define the client's scopes."""
    return [in_table(tables, "projects", PROJECTS, lambda held: tables.table(PROJECTS).query(held.client_id))]


def source_holdings(sources: InstallationSources) -> list[Holding]:
    """Removed first, so that nothing more is pulled."""
    return [CountedHolding("sources and streams", sources.count, sources.remove)]


class ScopeRows:
    """Items of tables partitioned by scope or client; the items of a scope before the item that records the scope."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def gaps(self, held: HeldItems) -> Iterator[Item]:
        yield from self.of(GAPS, held)
        for scope in held.scopes:
            yield from self._tables.table(GAPS).query(dismissed_partition(scope))
        yield from self._tables.table(GAPS).get_many(
            [{"scopeKey": partition, "gapId": scope} for partition in (DROPPED, GAP_SCOPES) for scope in held.scopes]
        )

    def audit(self, held: HeldItems) -> Iterator[Item]:
        """Audit records by scope of a project or client. The principal is no key: several clients may have the same."""
        table = self._tables.table(AUDIT)
        for scope in held.scopes:
            yield from table.query(scope, index="who-askedAt-index")
        yield from table.get_many([{"receiptId": f"{AUDIT_SCOPES} {scope}"} for scope in held.scopes])

    def baselines(self, held: HeldItems) -> Iterator[Item]:
        table = self._tables.table(BASELINES)
        for scope in held.scopes:
            series = list(table.query(series_partition(scope)))
            records = list(table.query(recorded_partition(scope)))
            for key in dict.fromkeys(
                (*(f"{scope}#{note['day']}" for note in series), *(one["day"] for one in records))
            ):
                yield from table.query(key)
            yield from (*series, *records)
        yield from table.get_many([{"seriesKey": BASELINE_SCOPES, "day": scope} for scope in held.scopes])

    def of(self, spec: TableSpec, held: HeldItems) -> Iterator[Item]:
        """Items of a table that is partitioned by client or scope."""
        for partition in (held.client_id,) if spec.partitioned_by == "client" else held.scopes:
            yield from self._tables.table(spec).query(partition)


class InstallationSources:
    """Sources and streams that were registered at run time, if their documents belong to the client. The operator removes
    those that knowledge.yaml declares; the records of their documents are removed here."""

    def __init__(self, tables: Tables, connectors: Connectors, scope: Scope) -> None:
        self._table = tables.table(SOURCES)
        self._connectors = connectors
        self._scope = scope

    def count(self, held: HeldItems) -> int:
        if not self._is_own(held):
            return 0
        registered, streams = self._registered(REGISTERED), self._registered(REGISTERED_STREAMS)
        return len(registered) + len(streams) + sum(len(self._rows(source)) for source in self._sources())

    def remove(self, held: HeldItems) -> None:
        if not self._is_own(held):
            return
        for source in self._sources():
            delete(self._table, SOURCES, self._rows(source))
        for source in self._registered(REGISTERED):
            self._connectors.control.remove(source)
        for stream in self._registered(REGISTERED_STREAMS):
            self._connectors.stream_control.end(stream)

    def declared(self, held: HeldItems) -> list[str]:
        """Sources and streams that remain active until they are removed from knowledge.yaml."""
        if not self._is_own(held):
            return []
        registered = {*self._registered(REGISTERED), *self._registered(REGISTERED_STREAMS)}
        found = [one.source_id for one in self._connectors.sources.all()] + [
            one.name for one in self._connectors.streams.all()
        ]
        return sorted(set(found) - registered)

    def _is_own(self, held: HeldItems) -> bool:
        return self._scope.client_id == held.client_id

    def _registered(self, partition: str) -> list[str]:
        return [str(item["entry"]) for item in self._table.query(partition)]

    def _sources(self) -> list[str]:
        declared = [definition.source_id for definition in self._connectors.sources.all()]
        return list(dict.fromkeys([*declared, *self._registered(REGISTERED)]))

    def _rows(self, source: str) -> list[Item]:
        return list(self._table.query(source))


# -- corpus holdings


_FOLDERS = ("objects of the corpus, with versions", "copies for a managed service, with versions")


def corpus_holdings(storage: Storage, work: WorkQueue) -> list[Holding]:
    def messages(held: HeldItems, *, dry: bool) -> int:
        found = work.discard(partial(_is_about, held.client_id), dry=dry)
        return found or 0

    waiting = CountedHolding("waiting messages", partial(messages, dry=True), partial(messages, dry=False))
    copies, objects = (_folder(storage, name, at) for at, name in ((1, _FOLDERS[1]), (0, _FOLDERS[0])))
    return [waiting, copies, objects]


def words_holdings(storage: Storage, indexing: Indexing) -> list[Holding]:
    """Segments of words with documents of the client; none where the index never sleeps. All are removed, with their earlier
    versions: the next one is made without the client."""
    if not indexing.indexes.may_sleep:
        return []
    shelf = indexing.words_shelf(storage.objects)

    def count(held: HeldItems) -> int:
        return sum(held.client_id in clients for clients in shelf.clients())

    def remove(_: HeldItems) -> None:
        storage.history.erase(WORDS)

    return [CountedHolding("segments of words", count, remove)]


def bulk_holdings(tables: Tables, storage: Storage, clock: Clock) -> list[Holding]:
    """Files of bulk jobs that name documents of the client. Those of all jobs are removed, once none is running."""
    jobs = BulkJobs(tables.table(LIFECYCLE), clock)

    def count(held: HeldItems) -> int:
        own = Scope(held.client_id).prefix.encode()
        named = (info.key for info in storage.objects.list(BULK) if _may_name(info.key))
        return sum(own in (read_object(storage.objects, key) or b"") for key in named)

    def remove(_: HeldItems) -> None:
        for kind in BulkKind:
            if job := jobs.unfinished(kind):
                raise StoreUnavailableError(f"the bulk job {job.job_id} is not ended: wait for its end, or cancel it")
        storage.history.erase(BULK)

    return [CountedHolding("files of bulk jobs", count, remove)]


def _may_name(key: str) -> bool:
    """True for a file of a bulk job that may name documents."""
    return key.endswith((".jsonl", REPORT)) or f"/{FOUND}/" in key


def _folder(storage: Storage, name: str, at: int) -> Holding:
    history = storage.history
    return CountedHolding(
        name,
        lambda held: sum(1 for _ in history.held(held.folders[at])),
        lambda held: history.erase(held.folders[at]),
    )


def _is_about(client_id: str, body: str) -> bool:
    try:
        return scope_of_object(parse_event(body).key)[0].client_id == client_id
    except (InvalidInputError, InvalidScopeError):
        return False


# -- learned holdings


def learned_holdings(tables: Tables, corpus: Corpus) -> list[Holding]:
    """Items of learning and lifecycle tables whose partition keys contain scopes."""
    staging, patterns, outcomes = (tables.table(spec) for spec in (STAGING, PATTERNS, OUTCOMES))
    return [
        in_table(
            tables,
            "captured entries",
            STAGING,
            _of_scopes(lambda scope: staging.query(scope, index="scope-index")),
        ),
        in_table(tables, "patterns and their occurrences", PATTERNS, _of_scopes(partial(pattern_rows, patterns))),
        in_table(tables, "outcomes and warnings", OUTCOMES, _of_scopes(partial(outcome_rows, outcomes))),
        in_table(tables, "calendar entries", CALENDAR, _of_scopes(corpus.calendar.rows_of)),
        in_table(tables, "records of lifted holds", LIFECYCLE, partial(_lifted_holds, tables.table(LIFECYCLE))),
    ]


def _of_scopes(rows: Callable[[str], Iterable[Item]]) -> Callable[[HeldItems], Iterator[Item]]:
    """The items that `rows` finds of each scope."""
    return lambda held: chain.from_iterable(map(rows, held.scopes))


def _lifted_holds(table: Table, held: HeldItems) -> Iterator[Item]:
    """Records of lifted holds on the client's own documents; a hold in force prevents the removal."""
    for item in table.query(LIFTED):
        if item["within"] and is_of(held.client_id, str(item["within"])):
            yield item

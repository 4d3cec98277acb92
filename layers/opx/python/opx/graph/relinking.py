"""Adds mentions of names that were declared after the documents that use them.

Ingestion finds mentions of the names that are known at that time. When a document declares a new name, earlier documents
that use it are found by the text index, and the mention is added to their statements, so that the order of ingestion makes
no difference in the end. New names wait in a queue in the graph's table, from which they are removed once their documents
have the mention; the next run of any process goes on where one was killed, failed or ran out of time. The work is bounded;
documents that are left out are reported, and done by the next full run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import islice
from math import inf
from secrets import randbelow
from typing import Any, Protocol

from opx.domain.documents import DocumentChunk, DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.graph import Origin, Relinked, Statements, node_type
from opx.domain.ids import batched
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.domain.scopes import Scope, scope_of_key
from opx.errors import OpxError, StoreUnavailableError
from opx.graph.capability import Graph
from opx.graph.extraction.material import Findings, Gathered, whole_lines
from opx.graph.extraction.mentions import (
    MAX_NAMES,
    NAMED_TYPES,
    Dictionary,
    NodesOfType,
    mentioned,
    spellings,
    without_redundant,
)
from opx.graph.extraction.own_node import own_reference
from opx.graph.naming import ScopeDirectory
from opx.graph.relink_queue import RelinkQueue, WaitingNames
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.catalog import BusyError, Catalog, Claim, StaleEventError
from opx.ingestion.events import ObjectEvent
from opx.ports import Clock, SearchEngine, Tables, WorkQueue
from opx.ports.search import SearchFilter, SearchRequest
from opx.retrieval.question import required_groups

log = logging.getLogger(__name__)

BATCH_SECONDS = 45.0
"""Time limit for new names after a batch of documents: a function that ingests has five minutes. Names beyond it stay in
the queue; a local process has no daily run, and therefore no limit."""

NAMES_A_BATCH = 100
"""Names that are searched together, or the first row of more; after a batch of documents, classes come last: code has
thousands of them."""

OTHERS_SECONDS = 600.0
"""Age of queued names by which the function that queued them has relinked them, or failed: it has five minutes."""

HITS_A_NAME = 1_000
DOCUMENTS_A_RUN = 2_000
DOCUMENTS_AT_ONCE = 20
"""Documents in one unit of work, which other writers wait for."""

SCOPES_A_SEARCH = 50


class RelinkingStore(NodesOfType, Protocol):
    """The methods of the graph's store that relinking needs."""

    def statements_of(self, key_id: str) -> Statements:
        """Statements of a document with their evidence."""

    def add(self, origin: Origin, statements: Statements) -> bool:
        """Add statements to those of a document version. False if another version is in the graph, or none."""


@dataclass(slots=True)
class _Run:
    """Counts of a run in progress."""

    names: int = 0
    documents: int = 0
    mentions: int = 0
    busy: int = 0
    left_out: list[str] = field(default_factory=list)

    def relinked(self) -> Relinked:
        return Relinked(self.names, self.documents, self.mentions, self.busy, tuple(self.left_out))


class Scopes(Protocol):
    """Lists scopes; see `ScopeDirectory`."""

    def all(self) -> Iterable[Scope]: ...

    def naming(self, scope: Scope) -> Iterable[str]:
        """Keys of the scopes whose documents may name nodes that a document of this scope declares."""


@dataclass(frozen=True, slots=True)
class DeclaredName:
    """A reference with the scope of the document that declares it."""

    scope_key: str
    key: str


ChunkReader = Callable[[DocumentKey, str], Iterator[DocumentChunk]]


@dataclass(eq=False, kw_only=True)
class Relinker:
    """Adds mentions to ingested documents, one at a time, each under the catalog's claim and in a `unit_of_work`.

    `seconds` limits the time for new names after a batch of documents, and their number to `NAMES_A_BATCH`.
    """

    store: RelinkingStore
    queue: RelinkQueue
    index: SearchEngine
    catalog: Catalog
    chunks: ChunkReader
    scopes: Scopes
    clock: Clock = time.monotonic
    unit_of_work: Callable[[], AbstractContextManager[Any]] = nullcontext
    seconds: float = 0.0

    def relink(self, rows: Sequence[WaitingNames]) -> Relinked:
        """Add mentions to the documents that use the names of these rows, within the time limit, and remove those that are
        done from the queue. Raises `StoreUnavailableError`; earlier changes stay, and repeating is idempotent."""
        done, count = _Run(), sum(len(row.names) for row in rows)
        ends = self.clock() + (self.seconds or inf)
        for some in islice(_together(rows), 1 if self.seconds else None):
            names = [DeclaredName(row.scope_key, key) for row in some for key in row.names]
            self.queue.take(some, self._relink(names, done, ends))
        if done.names < count:
            done.left_out.append(f"{count - done.names:,} of {count:,} new names")
        return done.relinked()

    def relink_or_leave(self, rows: Sequence[WaitingNames]) -> Relinked:
        """As `relink`, but logs errors; what isn't done stays in the queue."""
        try:
            done = self.relink(rows)
        except OpxError as exc:
            log.warning("%d rows of new names stay queued, to be searched by a later run: %s", len(rows), exc)
            return Relinked()
        if done.left_out or done.busy:
            left = (*done.left_out, f"{done.busy} documents that others are working on")
            log.warning("left to a later run, of mentions of new names: %s", ", ".join(left))
        return done

    def relink_all(self, *, seconds: float = 0.0) -> Relinked:
        """Relink every declared name; with `seconds`, those reached in that time, from a random start, so that repeated runs
        reach all. Raises `StoreUnavailableError`."""
        done = _Run()
        ends = self.clock() + (seconds or inf)
        names = [name for scope in self.scopes.all() for name in self._declared(scope)]
        first = randbelow(len(names)) if names else 0
        for some in batched(names[first:] + names[:first], NAMES_A_BATCH):
            self._relink(some, done, ends)
        if done.names < len(names):
            done.left_out.append(f"{len(names) - done.names:,} of {len(names):,} names")
        return done.relinked()

    def _declared(self, scope: Scope) -> Iterator[DeclaredName]:
        for kind in NAMED_TYPES:
            nodes = self.store.of_type([scope.key], kind, limit=MAX_NAMES, declared=True)
            yield from (DeclaredName(scope.key, node.key) for node in nodes)

    def _relink(self, names: Sequence[DeclaredName], done: _Run, ends: float) -> int:
        """Returns the number of names that are done: the first ones, as far as there was time. None is if another worker had
        one of the documents."""
        found: dict[tuple[str, str], set[str]] = {}
        before, busy = done.names, done.busy
        for name in names:
            if self.clock() >= ends:
                break
            for chunk in self._passages_with(name, done):
                found.setdefault((chunk.key_id, chunk.chunk.document_id), set()).add(name.key)
            done.names += 1
        looked_at = 0
        for some in batched(list(found.items())[:DOCUMENTS_A_RUN], DOCUMENTS_AT_ONCE):
            if looked_at and self.clock() >= ends:
                break
            looked_at += len(some)
            with self.unit_of_work():
                for name_of_document, keys in some:
                    self._add(self._current(*name_of_document), sorted(keys), done)
        if looked_at < len(found):
            done.left_out.append(f"{len(found) - looked_at:,} of {len(found):,} documents")
        return done.names - before if done.busy == busy else 0

    def _passages_with(self, name: DeclaredName, done: _Run) -> Iterator[IndexedChunk]:
        """Passages that may contain the name, of documents that may use it."""
        scope = scope_of_key(name.scope_key)
        texts = [" ".join(words) for words in spellings(name.key)]
        for some in batched(list(dict.fromkeys(self.scopes.naming(scope))), SCOPES_A_SEARCH):
            for text in texts:
                yield from self._search(text, some, name, done)

    def _search(self, text: str, scopes: Sequence[str], name: DeclaredName, done: _Run) -> Iterator[IndexedChunk]:
        groups = required_groups(text)
        if not groups:
            return
        where = SearchFilter(scopes=tuple(scopes), required_terms=groups)
        response = self.index.search(SearchRequest(where, text=text, depth=HITS_A_NAME))
        if response.lexical.error:
            raise StoreUnavailableError(f"documents that mention a name can't be found: {response.lexical.error}")
        if len(response.lexical.hits) >= HITS_A_NAME:
            kind = node_type(name.key)  # without the name: operators of other clients may read the log
            done.left_out.append(f"passages beyond the first {HITS_A_NAME:,} with a {kind} of {name.scope_key}")
        yield from (chunk for chunk in response.chunks.values() if chunk.scope_key in scopes)

    def _current(self, key_id: str, document_id: str) -> KnowledgeDocument | None:
        found = (one for one in self.catalog.find(document_id) if one.key.id == key_id)
        return next((one for one in found if one.state is DocumentState.CURRENT), None)

    def _add(self, document: KnowledgeDocument | None, keys: Sequence[str], done: _Run) -> None:
        statements = self._missing(document, keys) if document else Statements()
        if document is None or not statements.edges:
            return
        event = ObjectEvent(f"{document.key.scope.prefix}{document.key.source}", deleted=False, sequencer="")
        try:
            claim = self.catalog.claim(document.key, event)
        except (
            BusyError,
            StaleEventError,
        ):  # the process with the claim knows the name, or fails: then the name is still in the queue
            done.busy += 1
            return
        written = False
        try:
            if claim.current_id == document.document_id and not claim.interrupted:
                written = self.store.add(Origin.of(document), statements)
        finally:
            self._release(claim, document, written=written)
        done.documents += written
        done.mentions += len(statements.edges) * written

    def _release(self, claim: Claim, document: KnowledgeDocument, *, written: bool) -> None:
        held = self.catalog.claims.release(claim, applied=True)
        if written and not held:
            log.warning("lost the claim on %s while adding mentions", document.key.source)
            self.catalog.claims.note_unfinished(document.key, document.document_id)

    def _missing(self, document: KnowledgeDocument, keys: Sequence[str]) -> Statements:
        """Statements that ingesting the document now would add for these names."""
        stated = self.store.statements_of(document.key.id)
        own = stated.own or own_reference(document, {})
        dictionary = Dictionary()
        dictionary.add(keys)
        gathered, findings = Gathered(), Findings()
        for chunk in whole_lines(self.chunks(document.key, document.document_id)):
            findings.add(*mentioned(own, chunk, dictionary))
            gathered.take(findings)
        known = {edge.name for edge in stated.edges}
        edges = tuple(
            edge
            for edge in without_redundant([*stated.edges, *gathered.edges.values()])
            if edge.rule and edge.name not in known
        )
        ends = {key for edge in edges for key in (edge.source, edge.target)}
        return Statements(own, tuple(node for key, node in gathered.with_ends().items() if key in ends), edges)


def _together(rows: Sequence[WaitingNames]) -> Iterator[list[WaitingNames]]:
    """Rows of up to `NAMES_A_BATCH` names, at least one, by the type of their first name."""
    some: list[WaitingNames] = []
    for row in sorted(rows, key=lambda row: NAMED_TYPES.index(node_type(row.names[0]))):
        if some and sum(len(one.names) for one in (*some, row)) > NAMES_A_BATCH:
            yield some
            some = []
        some.append(row)
    if some:
        yield some


# -- composition


@dataclass(eq=False)
class Relinking:
    """Composes the relinker of an installation, and runs it after batches of documents and daily for all names."""

    graph: Graph
    corpus: Corpus
    tables: Tables
    work: WorkQueue
    _: KW_ONLY
    index: SearchEngine
    chunks: ChunkReader

    @cached_property
    def relinker(self) -> Relinker:
        corpus = self.corpus
        return Relinker(
            store=self.graph.store,
            queue=self.graph.relink_queue,
            index=self.index,
            catalog=corpus.catalog,
            chunks=self.chunks,
            scopes=ScopeDirectory(corpus.clients, corpus.projects),
            unit_of_work=self.tables.unit_of_work,
            seconds=0.0 if self.work.in_process else BATCH_SECONDS,
        )

    def relink(self, *, seconds: float = 0.0) -> Relinked:
        """Relink queued names, then all that are declared, within `seconds` if given. Raises `StoreUnavailableError`."""
        with self.work.exclusive():
            new = self.relink_new()
            done = self.relinker.relink_all(seconds=seconds)
        return replace(done, documents=new.documents + done.documents, mentions=new.mentions + done.mentions)

    def relink_new(self) -> Relinked:
        """Relink names that this process queued, and those that others left. Raises nothing: what fails stays queued."""
        rows = {row.entry: row for row in self.graph.writer.drain()}
        try:
            left = self.graph.relink_queue.waiting(seconds=0.0 if self.work.in_process else OTHERS_SECONDS)
        except StoreUnavailableError as exc:
            log.warning("new names that others left can't be read: %s", exc)
            left = []
        rows |= {row.entry: row for row in left}
        return self.relinker.relink_or_leave(list(rows.values())) if rows else Relinked()

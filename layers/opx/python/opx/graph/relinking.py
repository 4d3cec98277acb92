"""Mentions of names that were declared after the documents that give them.

A document says what it mentions by the names that are known when it is taken in. When a document declares a new one, those
that were there before are found by the text index, and the mention is added to what they say: in the end it makes no
difference which of them came first. The work is bounded; what it leaves out is told, and done by the next full run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from secrets import randbelow
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from opx.domain.documents import DocumentChunk, DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.graph import Origin, Relinked, Statements, node_type
from opx.domain.results import IndexedChunk
from opx.domain.scopes import Scope, scope_of_key
from opx.errors import OpxError, StoreUnavailableError
from opx.graph.extraction.material import Findings, Gathered, whole_lines
from opx.graph.extraction.mentions import (
    MAX_NAMES,
    NAMED_TYPES,
    Dictionary,
    NodesOfType,
    mentioned,
    spellings,
    without_needless,
)
from opx.graph.extraction.own_node import own_reference
from opx.graph.naming import DeclaredName, ScopeDirectory
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.catalog import BusyError, Catalog, Claim, StaleEventError
from opx.ingestion.events import ObjectEvent
from opx.ports import Clock, SearchEngine, Tables, WorkQueue
from opx.ports.search import SearchFilter, SearchRequest
from opx.retrieval.question import required_groups

if TYPE_CHECKING:
    from opx.graph.capability import Graph

log = logging.getLogger(__name__)

BATCH_SECONDS = 45.0
"""For mentions of new names after a batch of documents: a function that ingests has five minutes. The rest is left to a daily
run; a machine's own process has none, and goes on until it is done."""

NAMES_A_BATCH = 100
"""Names that are looked for together; after a batch of documents, classes, of which code has thousands, come last."""

HITS_A_NAME = 1_000
DOCUMENTS_A_RUN = 2_000
DOCUMENTS_AT_ONCE = 20
"""In one unit of work, which others wait for."""

SCOPES_A_SEARCH = 50

_T = TypeVar("_T")


class StatementStore(NodesOfType, Protocol):
    """What is asked of the graph's store."""

    def statements_of(self, key_id: str) -> Statements:
        """What a document states, by what it gives as evidence."""

    def add(self, origin: Origin, statements: Statements) -> bool:
        """Have a document version say this, too. False if another version is in the graph, or none."""


@dataclass(slots=True)
class _Run:
    """Counts of a run that goes on."""

    names: int = 0
    documents: int = 0
    mentions: int = 0
    busy: int = 0
    left_out: list[str] = field(default_factory=list)

    def relinked(self) -> Relinked:
        return Relinked(self.names, self.documents, self.mentions, self.busy, tuple(self.left_out))


class Scopes(Protocol):
    """Which scopes there are; see `ScopeDirectory`."""

    def all(self) -> Iterable[Scope]: ...

    def naming(self, scope: Scope) -> Iterable[str]:
        """Keys of the scopes whose documents may name what a document of this scope declares."""


ChunkReader = Callable[[DocumentKey, str], Iterator[DocumentChunk]]


class Relinker:
    """Adds mentions to documents that are there, one at a time, each under the catalog's claim, and in a `unit_of_work`.

    With `seconds`, so much is done about new names after a batch of documents, and about `NAMES_A_BATCH` of them.
    """

    def __init__(
        self,
        *,
        store: StatementStore,
        index: SearchEngine,
        catalog: Catalog,
        chunks: ChunkReader,
        scopes: Scopes,
        clock: Clock = time.monotonic,
        unit_of_work: Callable[[], AbstractContextManager[Any]] = nullcontext,
        seconds: float = 0.0,
    ) -> None:
        self._store = store
        self._index = index
        self._catalog = catalog
        self._chunks = chunks
        self._scopes = scopes
        self._clock = clock
        self._unit_of_work = unit_of_work
        self._seconds = seconds

    def relink(self, names: Sequence[DeclaredName]) -> Relinked:
        """Have the documents that mention these names say so, as far as there is time. Raises `StoreUnavailableError`;
        what was done until then stays, and doing it again does no harm."""
        done = _Run()
        ordered = sorted(names, key=lambda one: NAMED_TYPES.index(node_type(one.key)))
        ends = self._clock() + (self._seconds or inf)
        for some in _batches(ordered if not self._seconds else ordered[:NAMES_A_BATCH], NAMES_A_BATCH):
            self._relink(some, done, ends)
        if done.names < len(ordered):
            done.left_out.append(f"{len(ordered) - done.names:,} of {len(ordered):,} new names")
        return done.relinked()

    def relink_or_leave(self, names: Sequence[DeclaredName]) -> None:
        """The same, and what can't be done is logged and left to the next full run."""
        try:
            done = self.relink(names)
        except OpxError as exc:
            log.warning("mentions of %d new names are left to the next full run: %s", len(names), exc)
            return
        if done.left_out or done.busy:
            left = (*done.left_out, f"{done.busy} documents that others are working on")
            log.warning("left to the next full run, of mentions of new names: %s", ", ".join(left))

    def relink_all(self, *, seconds: float = 0.0) -> Relinked:
        """The same for every name that a document declares; with `seconds`, for those that are reached until then,
        beginning anywhere among them, so that each has its turn. Raises `StoreUnavailableError`."""
        done = _Run()
        ends = self._clock() + (seconds or inf)
        names = [name for scope in self._scopes.all() for name in self._declared(scope)]
        first = randbelow(len(names)) if names else 0
        for some in _batches(names[first:] + names[:first], NAMES_A_BATCH):
            self._relink(some, done, ends)
        if done.names < len(names):
            done.left_out.append(f"{len(names) - done.names:,} of {len(names):,} names")
        return done.relinked()

    def _declared(self, scope: Scope) -> Iterator[DeclaredName]:
        for kind in NAMED_TYPES:
            nodes = self._store.of_type([scope.key], kind, limit=MAX_NAMES, declared=True)
            yield from (DeclaredName(scope.key, node.key) for node in nodes)

    def _relink(self, names: Sequence[DeclaredName], done: _Run, ends: float) -> None:
        found: dict[tuple[str, str], set[str]] = {}
        for name in names:
            if self._clock() >= ends:
                break
            for chunk in self._naming(name, done):
                found.setdefault((chunk.key_id, chunk.chunk.document_id), set()).add(name.key)
            done.names += 1
        looked_at = 0
        for some in _batches(list(found.items())[:DOCUMENTS_A_RUN], DOCUMENTS_AT_ONCE):
            if looked_at and self._clock() >= ends:
                break
            looked_at += len(some)
            with self._unit_of_work():
                for name_of_document, keys in some:
                    self._add(self._current(*name_of_document), sorted(keys), done)
        if looked_at < len(found):
            done.left_out.append(f"{len(found) - looked_at:,} of {len(found):,} documents")

    def _naming(self, name: DeclaredName, done: _Run) -> Iterator[IndexedChunk]:
        """Passages that may give the name, of documents that may know it."""
        scope = scope_of_key(name.scope_key)
        texts = [" ".join(words) for words in spellings(name.key)]
        for some in _batches(list(dict.fromkeys(self._scopes.naming(scope))), SCOPES_A_SEARCH):
            for text in texts:
                yield from self._search(text, some, name, done)

    def _search(self, text: str, scopes: Sequence[str], name: DeclaredName, done: _Run) -> Iterator[IndexedChunk]:
        groups = required_groups(text)
        if not groups:
            return
        where = SearchFilter(scopes=tuple(scopes), required_terms=groups)
        response = self._index.search(SearchRequest(where, text=text, depth=HITS_A_NAME))
        if response.lexical.error:
            raise StoreUnavailableError(f"documents that mention a name can't be found: {response.lexical.error}")
        if len(response.lexical.hits) >= HITS_A_NAME:
            kind = node_type(name.key)  # the name itself is nothing for a log that other clients' operators may read
            done.left_out.append(f"passages beyond the first {HITS_A_NAME:,} with a {kind} of {name.scope_key}")
        yield from (chunk for chunk in response.chunks.values() if chunk.scope_key in scopes)

    def _current(self, key_id: str, document_id: str) -> KnowledgeDocument | None:
        found = (one for one in self._catalog.find(document_id) if one.key.id == key_id)
        return next((one for one in found if one.state is DocumentState.CURRENT), None)

    def _add(self, document: KnowledgeDocument | None, keys: Sequence[str], done: _Run) -> None:
        statements = self._missing(document, keys) if document else Statements()
        if document is None or not statements.edges:
            return
        event = ObjectEvent(f"{document.key.scope.prefix}{document.key.source}", deleted=False, sequencer="")
        try:
            claim = self._catalog.claim(document.key, event)
        except (BusyError, StaleEventError):  # whoever has it knows the name, or leaves it to the next full run
            done.busy += 1
            return
        written = False
        try:
            if claim.current_id == document.document_id and not claim.interrupted:
                written = self._store.add(Origin.of(document), statements)
        finally:
            self._give_back(claim, document, written=written)
        done.documents += written
        done.mentions += len(statements.edges) * written

    def _give_back(self, claim: Claim, document: KnowledgeDocument, *, written: bool) -> None:
        held = self._catalog.release(claim, applied=True)
        if written and not held:
            log.warning("lost the claim on %s while adding mentions", document.key.source)
            self._catalog.note_unfinished(document.key, document.document_id)

    def _missing(self, document: KnowledgeDocument, keys: Sequence[str]) -> Statements:
        """What the document would say of these names if it were taken in now, and doesn't say yet."""
        said = self._store.statements_of(document.key.id)
        own = said.own or own_reference(document, {})
        dictionary = Dictionary()
        dictionary.add(keys)
        gathered, findings = Gathered(), Findings()
        for chunk in whole_lines(self._chunks(document.key, document.document_id)):
            findings.add(*mentioned(own, chunk, dictionary))
            gathered.take(findings)
        known = {edge.name for edge in said.edges}
        edges = tuple(
            edge
            for edge in without_needless([*said.edges, *gathered.edges.values()])
            if edge.rule and edge.name not in known
        )
        ends = {key for edge in edges for key in (edge.source, edge.target)}
        return Statements(own, tuple(node for key, node in gathered.with_ends().items() if key in ends), edges)


def _batches(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    return (items[at : at + size] for at in range(0, len(items), size))


# -- composition


class Relinking:
    """Composes the relinker of an installation, and runs it after batches of documents and for all of them."""

    def __init__(
        self, graph: Graph, corpus: Corpus, tables: Tables, work: WorkQueue, *, index: SearchEngine, chunks: ChunkReader
    ) -> None:
        self._graph = graph
        self._corpus = corpus
        self._tables = tables
        self._work = work
        self._index = index
        self._chunks = chunks

    @cached_property
    def relinker(self) -> Relinker:
        corpus = self._corpus
        return Relinker(
            store=self._graph.store,
            index=self._index,
            catalog=corpus.catalog,
            chunks=self._chunks,
            scopes=ScopeDirectory(corpus.clients, corpus.projects),
            unit_of_work=self._tables.unit_of_work,
            seconds=0.0 if self._work.in_process else BATCH_SECONDS,
        )

    def relink(self, *, seconds: float = 0.0) -> Relinked:
        """Have all documents mention what is declared, within `seconds` if they are given. Raises
        `StoreUnavailableError`."""
        with self._work.exclusive():
            return self.relinker.relink_all(seconds=seconds)

    def relink_new(self) -> None:
        """Relink after documents were ingested. The next full run does what can't be done now."""
        names = self._graph.writer.drain()
        if names:
            self.relinker.relink_or_leave(names)

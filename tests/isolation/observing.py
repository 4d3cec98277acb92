"""Everything that a reader can get of a system, as plain data that two systems can be compared by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import asdict

from opx.domain import record
from opx.domain.requests import Request
from opx.domain.scopes import Identity, Scope
from opx.edges.calling import LocalClient
from opx.graph.knowledge_graph import KnowledgeGraph
from opx.operations.context import Caller, Context
from opx.operations.documents import ListDocuments, list_documents
from opx.operations.registry import Run
from opx.ports.tables import STAGING
from opx.records.audit import MAX_RECORDS
from tests.isolation.systems import ORCHESTRATOR, Observed
from tests.isolation.worlds import World

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")

VOLATILE = frozenset(
    {"tookMs", "took_ms", "milliseconds", "corpusVersion", "corpus_version", "sha256", "receipt_id", "merge_id", "mark"}
)
"""Fields that differ between equal systems: durations, states of the whole corpus and hashes of them, and random names, or
those that concurrent searches get in any order."""

ALL_RECORDS = MAX_RECORDS
"""Records of one moment have no order, so that any fewer of them could be others."""

PROMISED = ("timings_ms", "timingsMs")
"""Of times, only which there are is kept."""


@dataclass(frozen=True, slots=True)
class ReaderAccess:
    """A reader's access to a system."""

    observed: Observed
    identity: Identity
    token_scopes: frozenset[str] | None = None

    def call(self, run: Run[Q, R], request: Q) -> R:
        """The reply of an operation."""
        caller = Caller(self.identity, token_scopes=self.token_scopes)
        return LocalClient(Context(self.observed.services, caller, self.observed.measured)).call(run, request)

    @property
    def orchestrator(self) -> ReaderAccess:
        """The same reader in the role that may read patterns."""
        return replace(self, identity=record.replace(self.identity, principal=ORCHESTRATOR))

    @property
    def of_a_client(self) -> ReaderAccess:
        """The same reader, who is no operator without a client: operators see the records of all tenants."""
        return self if self.identity.client_id else replace(self, token_scopes=frozenset({"opx/write"}))

    @property
    def graph(self) -> KnowledgeGraph:
        return self.observed.services.graph.seen_by(self.identity)

    @property
    def scope(self) -> Scope:
        """The scope of the reader's own documents."""
        return Scope(self.identity.client_id, project_id=self.identity.project_id)


Call = Callable[[ReaderAccess], Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a reader. `given` are its arguments, which the reader knows, so that they may be in the reply."""

    name: str
    given: str
    run: Call

    def __str__(self) -> str:
        return f"{self.name}({self.given})"


@dataclass(frozen=True, slots=True)
class Known:
    """Names and ids of all scopes of a system, which an attacker could have obtained or guessed."""

    documents: tuple[str, ...]
    chunks: tuple[str, ...]
    passages: tuple[tuple[str, str], ...]
    objects: tuple[str, ...]
    receipts: tuple[str, ...]
    gaps: tuple[str, ...]
    failures: tuple[str, ...]
    tokens: tuple[str, ...]
    entries: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


def known_of(observed: Observed, world: World) -> Known:
    services = observed.services
    paths = sorted({piece.category for piece in world.pieces})
    everything = [one for path in paths for one in services.corpus.catalog.in_category(path, current_only=False)]
    pages = [
        ReaderAccess(observed, identity).call(list_documents, ListDocuments(category=path, limit=1))
        for path in paths
        for identity in world.identities[:4]
    ]
    chunks = [
        (one.key.id, chunk)
        for one in everything
        for chunk in services.ingestion.pipeline.read_chunks(one.key, one.document_id)
    ]
    gaps = services.records.gaps
    scopes = sorted({lesson.known_in.key for lesson in world.lessons})
    return Known(
        documents=tuple(sorted({one.document_id for one in everything})),
        chunks=tuple(sorted({chunk.chunk_id for _, chunk in chunks})),
        passages=tuple(sorted({(key, chunk.chunk_id) for key, chunk in chunks})),
        objects=tuple(sorted({one.key.scope.prefix + one.key.source for one in everything})),
        receipts=tuple(sorted(record.receipt_id for record in services.records.audit.records())),
        gaps=tuple(sorted(gap.gap_id for scope in gaps.scopes() for gap in gaps.gaps(scope))),
        failures=tuple(sorted(item.failure_id for item in services.corpus.failures.items())),
        tokens=tuple(sorted({page.next for page in pages if page.next})),
        entries=tuple(sorted(str(item["id"]) for item in services.tables.every_item(STAGING))),
        patterns=tuple(sorted({one.pattern_id for key in scopes for one in services.learning.patterns.patterns(key)})),
    )


def without(value: Any, home: str) -> Any:
    """The value with the system's folder, which is no secret, replaced by a constant."""
    if isinstance(value, dict):
        return {name: without(each, home) for name, each in value.items()}
    if isinstance(value, list):
        return [without(each, home) for each in value]
    return value.replace(home, "HOME") if isinstance(value, str) else value


def plain(value: Any) -> Any:
    """JSON-like data without what differs each time: of times it is kept which there are."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain({one.name: getattr(value, one.name) for one in fields(value)})
    if isinstance(value, Struct):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {
            str(name): _named(str(name), each) for name, each in sorted(value.items(), key=lambda pair: str(pair[0]))
        }
    if value is UNSET:
        return None
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str | bytes | int | float | bool | None):
        return value
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    raise TypeError(f"{type(value).__name__} can't be compared")


def _named(name: str, value: Any) -> Any:
    if name in VOLATILE:
        return None
    return sorted(value) if name in PROMISED else plain(value)

"""Everything that a reader can get of a system, as plain data that two systems can be compared by."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.knowledge_base import every_document
from opx.local_knowledge_base import LocalKnowledgeBase
from opx.retrieval.query import KnowledgeQuery
from tests.isolation.systems import Observed
from tests.isolation.worlds import CATEGORIES, COMMON, World

VOLATILE = frozenset({"tookMs", "took_ms", "milliseconds", "corpusVersion", "corpus_version", "sha256", "receipt_id", "mark"})
"""How long something took, which state of the whole corpus an answer is of, what is computed from that, and names that
are made up, or that searches at the same time get in any order."""

PROMISED = ("timings_ms", "timingsMs")
"""Of times, only which there are is kept."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A reader's place at a system."""

    observed: Observed
    identity: Identity

    @property
    def base(self) -> LocalKnowledgeBase:
        return base_of(self.observed, self.identity)

    @property
    def query(self) -> KnowledgeQuery:
        return self.observed.services.query_service(self.identity, self.observed.told)


Ask = Callable[[Seat], Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that a reader asks. `given` is what the reader has to know for it, so that it may be in the reply."""

    name: str
    given: str
    ask: Ask

    def __str__(self) -> str:
        return f"{self.name}({self.given})"


@dataclass(frozen=True, slots=True)
class Known:
    """Names of what a system holds, of all scopes: what somebody could have got hold of, or guessed."""

    documents: tuple[str, ...]
    chunks: tuple[str, ...]
    objects: tuple[str, ...]
    receipts: tuple[str, ...]
    gaps: tuple[str, ...]
    failures: tuple[str, ...]
    tokens: tuple[str, ...]


def known_of(observed: Observed, world: World) -> Known:
    services = observed.services
    everything = [one for path in services.knowledge.categories for one in services.catalog.in_category(path, current_only=False)]
    documents = sorted({one.document_id for one in everything})
    bases = [base_of(observed, identity) for identity in world.identities]
    pages = [base.documents(limit=1) for base in bases]
    gaps = services.records.gaps
    return Known(
        documents=tuple(documents),
        chunks=tuple(sorted(chunk.chunk_id for base in bases for one in every_document(base) for chunk in base.chunks(one.document_id))),
        objects=tuple(sorted(one.key.scope.prefix + one.key.source for one in everything)),
        receipts=tuple(sorted(record.receipt_id for record in services.records.audit.records())),
        gaps=tuple(sorted(gap.gap_id for scope in gaps.scopes() for gap in gaps.gaps(scope))),
        failures=tuple(sorted(item.failure_id for item in services.failures.items())),
        tokens=tuple(sorted({page.next for page in pages if page.next})),
    )


def base_of(observed: Observed, identity: Identity) -> LocalKnowledgeBase:
    return LocalKnowledgeBase(observed.services, identity)


def operations(world: World, known: Known, chance: random.Random) -> Iterator[Operation]:
    """Operations without end, whose arguments are of all scopes."""
    makers = (_asked, _asked, _asked, _document, _chunks, _page, _listed, _measured, _record, _gap, _state, _deleted, _researched)
    while True:
        yield chance.choice(makers)(world, known, chance)


def without(value: Any, home: str) -> Any:
    """Where the system is, which is no secret, is the same everywhere."""
    if isinstance(value, dict):
        return {name: without(each, home) for name, each in value.items()}
    if isinstance(value, list):
        return [without(each, home) for each in value]
    return value.replace(home, "HOME") if isinstance(value, str) else value


def plain(value: Any) -> Any:
    """JSON-like data without what differs each time: of times it is kept which there are."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain({one.name: getattr(value, one.name) for one in fields(value)})
    if isinstance(value, Mapping):
        return {str(name): _named(str(name), each) for name, each in sorted(value.items(), key=lambda pair: str(pair[0]))}
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


def some_word(world: World, chance: random.Random) -> str:
    """What everybody says, or what somebody guessed of others."""
    return chance.choice(COMMON if chance.random() < 0.5 else world.guesses)


def _asked(world: World, known: Known, chance: random.Random) -> Operation:
    words = [some_word(world, chance) for _ in range(chance.randint(1, 4))]
    text = chance.choice(("{}", "{}", '"{}"', "title:{}", "{} -disk", "tag:{}", "service:{}")).format(" ".join(words))
    piece = chance.choice(world.given_away)
    config: dict[str, Any] = {"min_confidence": chance.choice((0.0, 0.0, 0.7))}
    for name, value in (
        ("mode", chance.choice(("fast", "balanced", "thorough"))),
        ("categories", (chance.choice(CATEGORIES),)),
        ("tags", tuple(piece.metadata.get("tags", ())[:1])),
        ("services", tuple(piece.metadata.get("services", ()))),
        ("document_id", chance.choice(known.documents)),
        ("expand", chance.choice(("section", "document"))),
        ("fusion", chance.choice(("rrf", "min_max"))),
        ("max_chunks_per_document", 1),
        ("plain", True),
    ):
        if chance.random() < 0.15:
            config[name] = value
    asked = QueryConfig(**config)
    return Operation("search", f"{text} {config}", lambda seat: _answer(seat, text, asked))


def _answer(seat: Seat, text: str, config: QueryConfig) -> Any:
    answer = seat.query.answer(text, config)
    return {**answer.to_json(), "receipt": answer.receipt}


def _researched(world: World, known: Known, chance: random.Random) -> Operation:  # noqa: ARG001
    topic = f"{some_word(world, chance)} {some_word(world, chance)}"
    return Operation("research", topic, lambda seat: seat.base.research_topic(topic, 1, QueryConfig(min_confidence=0.0)))


def _document(world: World, known: Known, chance: random.Random) -> Operation:  # noqa: ARG001
    wanted = _guessed(known.documents, chance)
    wanted = wanted[: chance.choice((32, 32, 3, 1))]
    return Operation("show", wanted, lambda seat: seat.base.document(wanted))


def _chunks(world: World, known: Known, chance: random.Random) -> Operation:  # noqa: ARG001
    wanted = _guessed((*known.documents, *known.chunks), chance)
    return Operation("chunks", wanted, lambda seat: seat.base.chunks(wanted))


def _page(world: World, known: Known, chance: random.Random) -> Operation:  # noqa: ARG001
    token = chance.choice((*known.tokens, ""))
    category, limit = chance.choice((*CATEGORIES, "")), chance.randint(1, 3)
    every = chance.random() < 0.5
    return Operation(
        "page",
        f"{category} {limit} {token}",
        lambda seat: seat.base.documents(category=category, all_versions=every, limit=limit, after=token),
    )


def _listed(world: World, known: Known, chance: random.Random) -> Operation:  # noqa: ARG001
    name = chance.choice(("documents", "status", "failures", "gaps", "dropped_gaps", "audit_records", "baseline_series"))
    if name == "audit_records":
        return Operation(name, "", lambda seat: _in_any_order(seat.base.audit_records()))
    return Operation(name, "", lambda seat: getattr(seat.base, name)())


def _in_any_order(found: Iterable[Any]) -> list[Any]:
    """Records of one moment have no order."""
    return sorted(map(plain, found), key=str)


def _measured(world: World, known: Known, chance: random.Random) -> Operation:  # noqa: ARG001
    one = chance.choice(world.measured)
    return Operation("baseline", f"{one.node} {one.metric}", lambda seat: seat.base.baseline(one.node, one.metric))


def _record(world: World, known: Known, chance: random.Random) -> Operation:
    if chance.random() < 0.5:
        receipt = _guessed(known.receipts, chance)
        return Operation("audit_record", receipt, lambda seat: seat.base.audit_record(receipt))
    who, document = some_word(world, chance), chance.choice(known.documents)
    return Operation(
        "audit_records",
        f"{who} {document}",
        lambda seat: [_in_any_order(seat.base.audit_records(**named)) for named in ({"who": who}, {"document": document})],
    )


def _gap(world: World, known: Known, chance: random.Random) -> Operation:  # noqa: ARG001
    wanted = _guessed(known.gaps, chance)[: chance.choice((32, 6))]
    service = some_word(world, chance)
    if chance.random() < 0.3:
        return Operation("settle_gap", wanted, lambda seat: seat.base.settle_gap(wanted, "", ignore=False))
    return Operation("gaps", service, lambda seat: seat.base.gaps(service=service, settled=True))


def _state(world: World, known: Known, chance: random.Random) -> Operation:  # noqa: ARG001
    key = chance.choice(known.objects)
    failure = _guessed(known.failures, chance)
    if chance.random() < 0.5:
        return Operation("object_states", key, lambda seat: seat.base.object_states([key]))
    return Operation("retry", failure, lambda seat: seat.base.retry([failure]))


def _deleted(world: World, known: Known, chance: random.Random) -> Operation:
    """Of nothing that is the reader's own: then the worlds would no longer be the same."""
    key = chance.choice(known.objects)
    return Operation("delete_objects", key, lambda seat: None if seat.base._is_own(key) else seat.base.delete_objects([key]))


def _guessed(names: tuple[str, ...], chance: random.Random) -> str:
    """A name of anybody's, or one that nobody has."""
    invented = f"{chance.getrandbits(128):032x}"
    return chance.choice((*chance.sample(names, k=min(3, len(names))), invented))

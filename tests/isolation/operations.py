"""What readers ask: operations whose arguments are of all scopes, and of none."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from opx.domain.graph import Direction, Walk
from opx.domain.queries import QueryConfig
from opx.learning.asked import TaskQuestion
from opx.operations.lifecycle import ListHolds, ListReviews, list_holds, list_reviews
from tests.isolation.observing import ALL_RECORDS, Known, Operation, Seat, plain
from tests.isolation.worlds import CATEGORIES, COMMON, World

ALL_ENTRIES = 1000


def operations(world: World, known: Known, chance: random.Random) -> Iterator[Operation]:
    """Operations without end, whose arguments are of all scopes."""
    while True:
        (maker,) = chance.choices(list(MAKERS), weights=list(MAKERS.values()))
        yield maker(world, known, chance)


def some_word(world: World, chance: random.Random) -> str:
    """What everybody says, or what somebody guessed of others."""
    return chance.choice(COMMON if chance.random() < 0.5 else world.guesses)


def _asked(world: World, known: Known, chance: random.Random) -> Operation:
    words = [some_word(world, chance) for _ in range(chance.randint(1, 4))]
    text = chance.choice(("{}", "{}", '"{}"', "title:{}", "{} -disk", "tag:{}", "service:{}")).format(" ".join(words))
    piece = chance.choice(world.given_away)
    choices: dict[str, Any] = {
        "mode": chance.choice(("fast", "balanced", "thorough")),
        "categories": (chance.choice(CATEGORIES),),
        "tags": tuple(piece.metadata.get("tags", ())[:1]),
        "services": tuple(piece.metadata.get("services", ())),
        "document_id": chance.choice(known.documents),
        "expand": chance.choice(("section", "document")),
        "fusion": chance.choice(("rrf", "min_max")),
        "max_chunks_per_document": 1,
        "plain": True,
        "expand_graph": True,
    }
    config = {name: value for name, value in choices.items() if chance.random() < 0.15}
    config["min_confidence"] = chance.choice((0.0, 0.0, 0.7))
    asked = QueryConfig(**config)
    return Operation("search", f"{text} {config}", lambda seat: _answer(seat, text, asked))


def _answer(seat: Seat, text: str, config: QueryConfig) -> Any:
    answer = seat.query.answer(text, config)
    return {**answer.to_json(), "receipt": answer.receipt}


def _researched(world: World, known: Known, chance: random.Random) -> Operation:
    topic = f"{some_word(world, chance)} {some_word(world, chance)}"
    return Operation(
        "research", topic, lambda seat: seat.base.research_topic(topic, 1, QueryConfig(min_confidence=0.0))
    )


def _document(world: World, known: Known, chance: random.Random) -> Operation:
    wanted = _guessed(known.documents, chance)
    wanted = wanted[: chance.choice((32, 32, 3, 1))]
    return Operation("show", wanted, lambda seat: seat.base.document(wanted))


def _chunks(world: World, known: Known, chance: random.Random) -> Operation:
    wanted = _guessed((*known.documents, *known.chunks), chance)
    return Operation("chunks", wanted, lambda seat: seat.base.chunks(wanted))


def _page(world: World, known: Known, chance: random.Random) -> Operation:
    token = chance.choice((*known.tokens, ""))
    category, limit = chance.choice((*CATEGORIES, "")), chance.randint(1, 3)
    every = chance.random() < 0.5
    return Operation(
        "page",
        f"{category} {limit} {token}",
        lambda seat: seat.base.documents(category=category, all_versions=every, limit=limit, after=token),
    )


def _listed(world: World, known: Known, chance: random.Random) -> Operation:
    name = chance.choice(
        ("documents", "status", "failures", "gaps", "dropped_gaps", "audit_records", "baseline_series")
    )
    if name == "audit_records":
        return Operation(name, "", lambda seat: _in_any_order(seat.base.audit_records(limit=ALL_RECORDS)))
    return Operation(name, "", lambda seat: getattr(seat.base, name)())


def _in_any_order(found: Iterable[Any]) -> list[Any]:
    """Records of one moment have no order."""
    return sorted(map(plain, found), key=str)


def _measured(world: World, known: Known, chance: random.Random) -> Operation:
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
        lambda seat: [
            _in_any_order(seat.base.audit_records(who=who, limit=ALL_RECORDS)),
            _in_any_order(seat.base.audit_records(document=document, limit=ALL_RECORDS)),
        ],
    )


def _gap(world: World, known: Known, chance: random.Random) -> Operation:
    wanted = _guessed(known.gaps, chance)[: chance.choice((32, 6))]
    service = some_word(world, chance)
    if chance.random() < 0.3:
        return Operation("settle_gap", wanted, lambda seat: seat.base.settle_gap(wanted, "", ignore=False))
    return Operation("gaps", service, lambda seat: seat.base.gaps(service=service, settled=True))


def _state(world: World, known: Known, chance: random.Random) -> Operation:
    key = chance.choice(known.objects)
    failure = _guessed(known.failures, chance)
    if chance.random() < 0.5:
        return Operation("object_states", key, lambda seat: seat.base.object_states([key]))
    return Operation("retry", failure, lambda seat: seat.base.retry([failure]))


def _deleted(world: World, known: Known, chance: random.Random) -> Operation:
    """Of nothing that is the reader's own: then the worlds would no longer be the same."""
    key = chance.choice(known.objects)
    return Operation(
        "delete_objects", key, lambda seat: None if seat.base._is_own(key) else seat.base.delete_objects([key])
    )


def _thing(world: World, chance: random.Random) -> str:
    """A service that everybody knows, one that is named or guessed, or one that isn't there."""
    name = chance.choice((*world.hubs, some_word(world, chance), some_word(world, chance), "nothing"))
    return f"service:{name[: chance.choice((99, 99, 99, 3))]}"


def _node(world: World, known: Known, chance: random.Random) -> Operation:
    thing = _thing(world, chance)
    return Operation("graph_node", thing, lambda seat: seat.base.graph_node(thing))


def _walked(world: World, known: Known, chance: random.Random) -> Operation:
    thing, hops = _thing(world, chance), chance.randint(1, 3)
    direction = chance.choice(list(Direction))
    walk = Walk(hops, direction, fan_out=chance.choice((1, 50)), most_nodes=chance.choice((3, 500)))
    return Operation("graph_neighbours", f"{thing} {walk}", lambda seat: seat.base.graph_neighbours(thing, walk))


def _path(world: World, known: Known, chance: random.Random) -> Operation:
    one, other = _thing(world, chance), _thing(world, chance)
    return Operation("graph_path", f"{one} {other}", lambda seat: seat.base.graph_path(one, other, Walk()))


def _named_things(world: World, known: Known, chance: random.Random) -> Operation:
    text = _thing(world, chance)[: chance.choice((99, 10, 8))]
    return Operation("graph_find", text, lambda seat: seat.base.graph_find(text))


def _whole_graph(world: World, known: Known, chance: random.Random) -> Operation:
    name = chance.choice(("graph_coverage", "aliases", "merges"))
    if name == "merges":
        return Operation(name, "", lambda seat: _in_any_order(seat.base.merges()))
    return Operation(name, "", lambda seat: getattr(seat.base, name)())


def _changed_around(world: World, known: Known, chance: random.Random) -> Operation:
    thing = _thing(world, chance)
    return Operation("graph_changes", thing, lambda seat: seat.base.graph_changes(thing))


def _passages(world: World, known: Known, chance: random.Random) -> Operation:
    wanted = chance.sample(known.passages, k=min(3, len(known.passages)))
    return Operation("chunk_things", str(wanted), lambda seat: seat.graph.related_to_chunks(wanted))


def _learned(world: World, known: Known, chance: random.Random) -> Operation:
    entry, pattern = _guessed(known.entries, chance), _guessed(known.patterns, chance)
    lesson = chance.choice(world.lessons)
    task = f"{some_word(world, chance)} {lesson.problem if chance.random() < 0.5 else some_word(world, chance)}"
    choices: tuple[Operation, ...] = (
        Operation("learning_entries", "", lambda seat: seat.base.learning_entries()),
        Operation("learning_entries", entry, lambda seat: seat.base.learning_entries(after=entry)),
        Operation("verify_entry", entry, lambda seat: _verified(seat, entry)),
        Operation("patterns", "", lambda seat: seat.orchestrator.patterns()),
        Operation("pattern", pattern, lambda seat: seat.orchestrator.pattern(pattern)),
        Operation("patterns", pattern, lambda seat: seat.base.pattern(pattern)),
        Operation(
            "patterns_for_task",
            task,
            lambda seat: seat.orchestrator.patterns_for_task(TaskQuestion(task, max_results=9)),
        ),
        Operation("task_context", task, lambda seat: seat.orchestrator.task_context(TaskQuestion(task))),
    )
    return chance.choice(choices)


def _verified(seat: Seat, entry: str) -> Any:
    """Nothing that is the reader's own: then the worlds would no longer be the same."""
    own = any(one.id == entry for one in seat.base.learning_entries(limit=ALL_ENTRIES))
    return None if own else seat.base.verify_entry(entry, worked=True)


def _kept(world: World, known: Known, chance: random.Random) -> Operation:
    """What came of documents, what they were before, and which are to be looked at again."""
    document = _guessed(known.documents, chance)
    choices: tuple[Operation, ...] = (
        Operation("document_outcomes", document, lambda seat: seat.base.document_outcomes(document)),
        Operation("version_diff", document, lambda seat: seat.base.version_diff(document)),
        Operation("list_reviews", "", lambda seat: seat.call(list_reviews, ListReviews(days=3650))),
        Operation("list_holds", "", lambda seat: seat.call(list_holds, ListHolds())),
    )
    return chance.choice(choices)


MAKERS = {
    _asked: 5,
    _researched: 0.5,
    _document: 2,
    _chunks: 2,
    _page: 2,
    _listed: 2,
    _measured: 2,
    _record: 2,
    _gap: 2,
    _state: 2,
    _deleted: 1,
    _node: 2,
    _walked: 2,
    _path: 2,
    _named_things: 2,
    _whole_graph: 1,
    _changed_around: 1,
    _passages: 2,
    _learned: 3,
    _kept: 1.5,
}
"""How often each kind of operation is asked for, against the others."""


def _guessed(names: tuple[str, ...], chance: random.Random) -> str:
    """A name of anybody's, or one that nobody has."""
    invented = f"{chance.getrandbits(128):032x}"
    return chance.choice((*chance.sample(names, k=min(3, len(names))), invented))

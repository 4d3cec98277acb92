"""Generates random operations of readers, with arguments of all scopes and invented ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from opx.domain.graph import Direction, Walk
from opx.domain.queries import QueryConfig
from opx.domain.scopes import scope_of_object
from opx.operations.corpus import (
    DeleteObjects,
    GetObjectStates,
    GetStatus,
    ListFailures,
    ListObjects,
    RetryFailures,
    delete_objects,
    get_object_states,
    get_status,
    list_failures,
    list_objects,
    retry_failures,
)
from opx.operations.documents import (
    DiffDocument,
    GetDocument,
    ListCategories,
    ListDocuments,
    ReadChunks,
    diff_document,
    get_document,
    list_categories,
    list_documents,
    read_chunks,
)
from opx.operations.graph import (
    ExplainRelation,
    FindNodes,
    FindPath,
    FindRelated,
    GetGraphCoverage,
    GetNode,
    ListAliases,
    ListChanges,
    ListMerges,
    ListNeighbours,
    explain_relation,
    find_nodes,
    find_path,
    find_related,
    get_graph_coverage,
    get_node,
    list_aliases,
    list_changes,
    list_merges,
    list_neighbours,
)
from opx.operations.learning import MAX_ENTRIES, ListEntries, VerifyEntry, list_entries, verify_entry
from opx.operations.lifecycle import ListHolds, ListReviews, list_holds, list_reviews
from opx.operations.outcomes import GetDocumentOutcomes, get_document_outcomes
from opx.operations.patterns import (
    FindPatternsForTask,
    GetPattern,
    GetTaskContext,
    ListPatterns,
    find_patterns_for_task,
    get_pattern,
    get_task_context,
    list_patterns,
)
from opx.operations.provenance import ExplainProvenance, explain_provenance
from opx.operations.questions import (
    GetAuditRecord,
    ListAuditRecords,
    ListGaps,
    SettleGap,
    get_audit_record,
    list_audit_records,
    list_gaps,
    settle_gap,
)
from opx.operations.reading import GetDocumentDetails, get_document_details
from opx.operations.search import Query, query
from opx_telemetry.operations import GetBaselineStats, ListBaselineSeries, get_baseline_stats, list_baseline_series
from opx_web.operations import Research, research
from tests.isolation.observing import ALL_RECORDS, Known, Operation, ReaderAccess, plain
from tests.isolation.worlds import CATEGORIES, COMMON, World


def operations(world: World, known: Known, chance: random.Random) -> Iterator[Operation]:
    """Operations without end, whose arguments are of all scopes."""
    while True:
        (maker,) = chance.choices(list(MAKERS), weights=list(MAKERS.values()))
        yield maker(world, known, chance)


def some_word(world: World, chance: random.Random) -> str:
    """A common word, or one of another tenant that the reader has guessed."""
    return chance.choice(COMMON if chance.random() < 0.5 else world.guesses)


def _searched(world: World, known: Known, chance: random.Random) -> Operation:
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
    settings = QueryConfig(**config)
    return Operation("search", f"{text} {config}", lambda access: _answer(access, text, settings))


def _answer(access: ReaderAccess, text: str, config: QueryConfig) -> Any:
    answer = access.call(query, Query(query=text, config=config, receipt=True))
    return {**answer.to_json(), "receipt": answer.receipt}


def _researched(world: World, known: Known, chance: random.Random) -> Operation:
    topic = f"{some_word(world, chance)} {some_word(world, chance)}"
    request = Research(topic=topic, max_iterations=1, config=QueryConfig(min_confidence=0.0))
    return Operation("research", topic, lambda access: access.call(research, request))


def _document(world: World, known: Known, chance: random.Random) -> Operation:
    wanted = _guessed(known.documents, chance)
    wanted = wanted[: chance.choice((32, 32, 3, 1))]
    if chance.random() < 0.3:
        request = GetDocumentDetails(document_id=wanted)
        return Operation("get_document_details", wanted, lambda access: access.call(get_document_details, request))
    return Operation("show", wanted, lambda access: access.call(get_document, GetDocument(document_id=wanted)))


def _chunks(world: World, known: Known, chance: random.Random) -> Operation:
    wanted = _guessed((*known.documents, *known.chunks), chance)
    return Operation("chunks", wanted, lambda access: access.call(read_chunks, ReadChunks(document_id=wanted)))


def _page(world: World, known: Known, chance: random.Random) -> Operation:
    token = chance.choice((*known.tokens, ""))
    category, limit = chance.choice((*CATEGORIES, "")), chance.randint(1, 3)
    every = chance.random() < 0.5
    request = ListDocuments(category=category, all_versions=every, limit=limit, after=token)
    return Operation("page", f"{category} {limit} {token}", lambda access: access.call(list_documents, request))


LISTS: Mapping[str, Callable[[ReaderAccess], Any]] = {
    "documents": lambda access: access.call(list_documents, ListDocuments()),
    "status": lambda access: access.call(get_status, GetStatus()),
    "failures": lambda access: access.call(list_failures, ListFailures()),
    "gaps": lambda access: access.call(list_gaps, ListGaps()),
    "baseline_series": lambda access: access.call(list_baseline_series, ListBaselineSeries()),
    "categories": lambda access: access.call(list_categories, ListCategories()),
    "objects": lambda access: access.call(list_objects, ListObjects(under="/")),
}


def _listed(world: World, known: Known, chance: random.Random) -> Operation:
    name = chance.choice((*LISTS, "audit_records"))
    return Operation(name, "", LISTS.get(name, _records))


def _records(access: ReaderAccess, who: str = "", document: str = "") -> list[Any]:
    request = ListAuditRecords(who=who, document_id=document, limit=ALL_RECORDS)
    return _in_any_order(access.of_a_client.call(list_audit_records, request).records)


def _in_any_order(found: Iterable[Any]) -> list[Any]:
    """Records of one moment have no order."""
    return sorted(map(plain, found), key=str)


def _measured(world: World, known: Known, chance: random.Random) -> Operation:
    one = chance.choice(world.measured)
    request = GetBaselineStats(node=one.node, metric=one.metric)
    return Operation("baseline", f"{one.node} {one.metric}", lambda access: access.call(get_baseline_stats, request))


def _record(world: World, known: Known, chance: random.Random) -> Operation:
    if chance.random() < 0.5:
        receipt = _guessed(known.receipts, chance)
        request = GetAuditRecord(receipt_id=receipt)
        return Operation("audit_record", receipt, lambda access: access.call(get_audit_record, request))
    who, document = some_word(world, chance), chance.choice(known.documents)
    return Operation(
        "audit_records",
        f"{who} {document}",
        lambda access: [_records(access, who=who), _records(access, document=document)],
    )


def _gap(world: World, known: Known, chance: random.Random) -> Operation:
    wanted = _guessed(known.gaps, chance)[: chance.choice((32, 6))]
    service = some_word(world, chance)
    if chance.random() < 0.3:
        settled = SettleGap(gap_id=wanted, because="it is known")
        return Operation("settle_gap", wanted, lambda access: access.call(settle_gap, settled))
    return Operation("gaps", service, lambda access: access.call(list_gaps, ListGaps(service=service, settled=True)))


def _state(world: World, known: Known, chance: random.Random) -> Operation:
    key = chance.choice(known.objects)
    failure = _guessed(known.failures, chance)
    if chance.random() < 0.5:
        request = GetObjectStates(object_keys=(key,))
        return Operation("object_states", key, lambda access: access.call(get_object_states, request))
    again = RetryFailures(failure_ids=(failure,))
    return Operation("retry", failure, lambda access: access.call(retry_failures, again))


def _deleted(world: World, known: Known, chance: random.Random) -> Operation:
    """Of nothing that is the reader's own: then the worlds would no longer be the same."""
    key = chance.choice(known.objects)
    scope, _ = scope_of_object(key)
    request = DeleteObjects(object_keys=(key,))
    return Operation(
        "delete_objects", key, lambda access: None if scope == access.scope else access.call(delete_objects, request)
    )


def _thing(world: World, chance: random.Random) -> str:
    """A service that everybody knows, one that is named or guessed, or one that isn't there."""
    name = chance.choice((*world.hubs, some_word(world, chance), some_word(world, chance), "nothing"))
    return f"service:{name[: chance.choice((99, 99, 99, 3))]}"


def _node(world: World, known: Known, chance: random.Random) -> Operation:
    thing = _thing(world, chance)
    return Operation("graph_node", thing, lambda access: access.call(get_node, GetNode(reference=thing)))


def _walked(world: World, known: Known, chance: random.Random) -> Operation:
    thing, hops = _thing(world, chance), chance.randint(1, 3)
    direction = chance.choice(list(Direction))
    if chance.random() < 0.5:
        walk = Walk(hops, direction, fan_out=chance.choice((1, 50)), most_nodes=chance.choice((3, 500)))
        return Operation(
            "walk", f"{thing} {walk}", lambda access: access.graph.neighbours(access.graph.resolve(thing), walk)
        )
    if chance.random() < 0.3:
        related = FindRelated(reference=thing, hops=hops, direction=direction)
        return Operation("find_related", f"{related}", lambda access: access.call(find_related, related).record())
    request = ListNeighbours(reference=thing, hops=hops, direction=direction, limit=chance.choice((1, 2, 100)))
    return Operation("graph_neighbours", f"{request}", lambda access: access.call(list_neighbours, request))


def _path(world: World, known: Known, chance: random.Random) -> Operation:
    one, other = _thing(world, chance), _thing(world, chance)
    if chance.random() < 0.3:
        relation = ExplainRelation(from_reference=one, to_reference=other)
        return Operation("explain", f"{one} {other}", lambda access: access.call(explain_relation, relation).record())
    return Operation(
        "graph_path", f"{one} {other}", lambda access: access.call(find_path, FindPath(source=one, target=other))
    )


def _named_things(world: World, known: Known, chance: random.Random) -> Operation:
    text = _thing(world, chance)[: chance.choice((99, 10, 8))]
    return Operation("graph_find", text, lambda access: access.call(find_nodes, FindNodes(text=text)))


def _whole_graph(world: World, known: Known, chance: random.Random) -> Operation:
    choices: tuple[Operation, ...] = (
        Operation("graph_coverage", "", lambda access: access.call(get_graph_coverage, GetGraphCoverage())),
        Operation("aliases", "", lambda access: access.call(list_aliases, ListAliases())),
        Operation("merges", "", lambda access: _in_any_order(access.call(list_merges, ListMerges()).merges)),
    )
    return chance.choice(choices)


def _changed_around(world: World, known: Known, chance: random.Random) -> Operation:
    thing = _thing(world, chance)
    return Operation("graph_changes", thing, lambda access: access.call(list_changes, ListChanges(reference=thing)))


def _passages(world: World, known: Known, chance: random.Random) -> Operation:
    wanted = chance.sample(known.passages, k=min(3, len(known.passages)))
    return Operation("chunk_things", str(wanted), lambda access: access.graph.related_to_chunks(wanted))


def _learned(world: World, known: Known, chance: random.Random) -> Operation:
    entry, pattern = _guessed(known.entries, chance), _guessed(known.patterns, chance)
    lesson = chance.choice(world.lessons)
    task = f"{some_word(world, chance)} {lesson.problem if chance.random() < 0.5 else some_word(world, chance)}"
    for_task = FindPatternsForTask(task_description=task, max_results=9)
    of_task = GetTaskContext(task_description=task)
    choices: tuple[Operation, ...] = (
        Operation("learning_entries", "", lambda access: access.call(list_entries, ListEntries())),
        Operation("learning_entries", entry, lambda access: access.call(list_entries, ListEntries(after=entry))),
        Operation("verify_entry", entry, lambda access: _verified(access, entry)),
        Operation("patterns", "", lambda access: access.orchestrator.call(list_patterns, ListPatterns())),
        Operation(
            "pattern", pattern, lambda access: access.orchestrator.call(get_pattern, GetPattern(pattern_id=pattern))
        ),
        Operation("patterns", pattern, lambda access: access.call(get_pattern, GetPattern(pattern_id=pattern))),
        Operation("patterns_for_task", task, lambda access: access.orchestrator.call(find_patterns_for_task, for_task)),
        Operation("task_context", task, lambda access: access.orchestrator.call(get_task_context, of_task)),
    )
    return chance.choice(choices)


def _verified(access: ReaderAccess, entry: str) -> Any:
    """Verify an entry unless it is the reader's own, as the two systems would differ afterwards."""
    own = any(one.id == entry for one in access.call(list_entries, ListEntries(limit=MAX_ENTRIES)).entries)
    return None if own else access.call(verify_entry, VerifyEntry(entry_id=entry, worked=True))


def _kept(world: World, known: Known, chance: random.Random) -> Operation:
    """An operation on outcomes, versions, reviews or holds."""
    document = _guessed(known.documents, chance)
    provenance = ExplainProvenance(document_id=document)
    outcomes, versions = GetDocumentOutcomes(document_id=document), DiffDocument(document_id=document)
    choices: tuple[Operation, ...] = (
        Operation("document_outcomes", document, lambda access: access.call(get_document_outcomes, outcomes)),
        Operation("provenance", document, lambda access: access.call(explain_provenance, provenance)),
        Operation("version_diff", document, lambda access: access.call(diff_document, versions)),
        Operation("reviews", "", lambda access: access.call(list_reviews, ListReviews(days=3650))),
        Operation("holds", "", lambda access: access.call(list_holds, ListHolds())),
    )
    return chance.choice(choices)


MAKERS = {
    _searched: 5,
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
"""Relative frequency of each kind of operation."""


def _guessed(names: tuple[str, ...], chance: random.Random) -> str:
    """One of the names of all tenants, or an invented one."""
    invented = f"{chance.getrandbits(128):032x}"
    return chance.choice((*chance.sample(names, k=min(3, len(names))), invented))

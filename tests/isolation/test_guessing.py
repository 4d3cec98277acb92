"""Obtained or invented names: data of other tenants behaves as if it didn't exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from opx.domain.documents import KnowledgeDocument
from opx.domain.ids import stable_hash
from opx.domain.queries import QueryConfig
from opx.domain.results import RetrievalResult
from opx.domain.scopes import Identity
from opx.errors import InvalidScopeError, OpxError
from opx.operations.alert_bindings import BindAlert, bind_alert
from opx.operations.corpus import (
    DeleteDocument,
    DeleteObjects,
    RestoreDocument,
    RetryFailures,
    delete_document,
    delete_objects,
    restore_document,
    retry_failures,
)
from opx.operations.documents import (
    DiffDocument,
    GetDocument,
    ListDocuments,
    ReadChunks,
    diff_document,
    get_document,
    list_documents,
    read_chunks,
)
from opx.operations.graph import (
    ExplainRelation,
    FindNodes,
    FindPath,
    FindRelated,
    GetNode,
    ListChanges,
    ListNeighbours,
    explain_relation,
    find_nodes,
    find_path,
    find_related,
    get_node,
    list_changes,
    list_neighbours,
)
from opx.operations.learning import VerifyEntry, verify_entry
from opx.operations.lifecycle import AddHold, MarkReviewed, add_hold, mark_reviewed
from opx.operations.outcomes import GetDocumentOutcomes, get_document_outcomes
from opx.operations.pattern_changes import (
    MergePatterns,
    RetirePattern,
    SplitPattern,
    merge_patterns,
    retire_pattern,
    split_pattern,
)
from opx.operations.patterns import GetPattern, ListPatterns, get_pattern, list_patterns
from opx.operations.questions import (
    AssignGap,
    GetAuditRecord,
    ListAuditRecords,
    SettleGap,
    assign_gap,
    get_audit_record,
    list_audit_records,
    settle_gap,
)
from opx.operations.reading import GetDocumentDetails, ReadDocument, get_document_details, read_document
from opx.operations.search import Query, query
from tests.isolation.making import any_world
from tests.isolation.observing import Known, ReaderAccess, known_of, plain
from tests.isolation.systems import Observed, holding
from tests.isolation.worlds import World

STRANGER = Identity("stranger", "shop")
EVERYTHING = QueryConfig(min_confidence=0.0)
INVENTED = stable_hash("nobody has it")

ById = Callable[[ReaderAccess, str], Any]


@pytest.fixture(scope="module")
def world() -> World:
    return any_world(11, pieces=8)


@pytest.fixture(scope="module")
def held(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    session: Any = nullcontext()
    with holding(world, "embedded", tmp_path_factory.mktemp("home"), session) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def known(held: Observed, world: World) -> Known:
    """Names known before the first request of any test here: later there are receipts and gaps of the stranger's own."""
    return known_of(held, world)


def reply(operation: ById, access: ReaderAccess, name: str) -> str:
    """The reply, without the name, which the caller knows."""
    try:
        text = str(plain(operation(access, name)))
    except OpxError as exc:
        text = f"{type(exc).__name__}: {exc}"
    return text.replace(name, "NAME")


def found(access: ReaderAccess, config: QueryConfig) -> Sequence[RetrievalResult]:
    return access.call(query, Query(query="disk", config=config)).results


def listed(access: ReaderAccess, after: str = "") -> tuple[KnowledgeDocument, ...]:
    return access.call(list_documents, ListDocuments(after=after)).documents


@pytest.mark.parametrize(
    ("kind", "operation"),
    [
        ("documents", lambda access, name: access.call(get_document, GetDocument(document_id=name))),
        ("documents", lambda access, name: access.call(get_document, GetDocument(document_id=name[:12]))),
        ("documents", lambda access, name: access.call(get_document_details, GetDocumentDetails(document_id=name))),
        ("documents", lambda access, name: access.call(diff_document, DiffDocument(document_id=name))),
        ("documents", lambda access, name: access.call(restore_document, RestoreDocument(document_id=name))),
        ("documents", lambda access, name: access.call(mark_reviewed, MarkReviewed(document_id=name))),
        ("documents", lambda access, name: access.call(get_document_outcomes, GetDocumentOutcomes(document_id=name))),
        ("documents", lambda access, name: access.call(add_hold, AddHold(reason="a matter", document=name))),
        ("documents", lambda access, name: access.call(read_chunks, ReadChunks(document_id=name))),
        ("documents", lambda access, name: access.call(read_document, ReadDocument(document=name, part="outline"))),
        ("documents", lambda access, name: access.call(delete_document, DeleteDocument(document_id=name))),
        ("documents", lambda access, name: access.call(list_audit_records, ListAuditRecords(document_id=name))),
        ("documents", lambda access, name: found(access, QueryConfig(document_id=name))),
        ("documents", lambda access, name: access.call(bind_alert, BindAlert(alert="Guessed", document_id=name))),
        ("chunks", lambda access, name: access.call(read_chunks, ReadChunks(document_id=name))),
        ("receipts", lambda access, name: access.call(get_audit_record, GetAuditRecord(receipt_id=name))),
        ("gaps", lambda access, name: access.call(settle_gap, SettleGap(gap_id=name, ignore=True))),
        ("gaps", lambda access, name: access.call(assign_gap, AssignGap(gap_id=name, owner="platform"))),
        ("failures", lambda access, name: access.call(retry_failures, RetryFailures(failure_ids=(name,)))),
        ("entries", lambda access, name: access.call(verify_entry, VerifyEntry(entry_id=name, worked=True))),
        ("patterns", lambda access, name: access.orchestrator.call(get_pattern, GetPattern(pattern_id=name))),
        ("patterns", lambda access, name: access.orchestrator.call(split_pattern, SplitPattern(name, (name,)))),
        ("patterns", lambda access, name: access.orchestrator.call(retire_pattern, RetirePattern(name, "wrong"))),
        ("patterns", lambda access, name: access.orchestrator.call(merge_patterns, MergePatterns(name, "0" * 32))),
    ],
)
def test_an_id_of_others_gives_what_an_id_of_nobody_gives(
    held: Observed, known: Known, kind: str, operation: ById
) -> None:
    access = ReaderAccess(held, STRANGER)
    seen_by_all = {one.document_id for one in listed(access)}
    seen_by_all |= {one.pattern_id for one in access.orchestrator.call(list_patterns, ListPatterns()).patterns}
    names = [name for name in getattr(known, kind) if name not in seen_by_all]
    assert names or kind == "failures"
    expected = reply(operation, access, INVENTED).replace(INVENTED[:12], "BEGINNING")
    assert {reply(operation, access, name).replace(name[:12], "BEGINNING") for name in names} <= {expected}


@pytest.mark.parametrize(
    "operation",
    [
        lambda access, name: access.call(get_node, GetNode(reference=name)),
        lambda access, name: access.call(list_neighbours, ListNeighbours(reference=name, hops=3)),
        lambda access, name: access.call(find_path, FindPath(source=name, target="service:nobody")),
        lambda access, name: access.call(find_nodes, FindNodes(text=name)),
        lambda access, name: access.call(list_changes, ListChanges(reference=name)),
        lambda access, name: access.call(find_related, FindRelated(reference=name)).record(),
        lambda access, name: access.call(
            explain_relation, ExplainRelation(from_reference=name, to_reference=name)
        ).record(),
    ],
)
def test_a_thing_of_others_is_as_unknown_as_one_of_nobody(held: Observed, world: World, operation: ById) -> None:
    access = ReaderAccess(held, STRANGER)
    own = {name for piece in world.pieces if not piece.scope.client_id for name in piece.metadata.get("services", ())}
    services = {name for piece in world.pieces for name in piece.metadata.get("services", ())} - own
    aliases = {name.alias for name in world.names if name.scope.client_id}
    expected = reply(operation, access, "service:inventedx")
    assert {reply(operation, access, f"service:{name}") for name in (*services, *aliases)} == {expected}


def test_page_token_of_another_reader_reveals_none_of_its_documents(held: Observed, known: Known) -> None:
    access = ReaderAccess(held, STRANGER)
    own = {one.document_id for one in listed(access)}
    tokens = known.tokens
    assert tokens
    for token in tokens:
        assert {one.document_id for one in listed(access, after=token)} <= own


def test_a_word_of_others_is_no_correction_of_a_misspelt_one(held: Observed, world: World) -> None:
    def corrections(identity: Identity, content: str, word: str) -> list[str]:
        words = re.findall("[a-z]+", content)
        around = words[max(0, words.index(word) - 6) : words.index(word) + 7]
        question = " ".join(around).replace(word, word[:3] + word[4:])
        answer = ReaderAccess(held, identity).call(query, Query(query=question, config=EVERYTHING))
        return [change["to"] for change in answer.understood.get("reworded", ())]

    theirs = [
        (Identity(piece.scope.client_id, piece.scope.project_id), str(piece.content), word)
        for piece in world.pieces
        for word in sorted(piece.marks)
        if piece.scope.client_id and not piece.broken and word in re.findall("[a-z]+", str(piece.content))
    ]
    known = [one for one in theirs if one[2] in corrections(*one)]
    assert known
    for _, content, word in known:
        assert word not in corrections(STRANGER, content, word)


@pytest.mark.parametrize("client", ["*", "%", "_", "a*", "..", "a/b", "", "A\n", "client:a", "(a|b)", "a,b", "global"])
@pytest.mark.parametrize("project", ["*", "shop", ""])
def test_a_scope_with_wild_characters_sees_what_nobody_in_particular_sees_or_nothing(
    held: Observed, client: str, project: str
) -> None:
    expected = found(ReaderAccess(held, Identity()), EVERYTHING)
    try:
        access = ReaderAccess(held, Identity(client, project))
        results = found(access, EVERYTHING)
        documents = listed(access)
    except InvalidScopeError:
        return
    assert [one.document_id for one in results] == [one.document_id for one in expected]
    assert documents == listed(ReaderAccess(held, Identity()))


def test_nothing_is_written_or_removed_where_a_scope_is_not_its_own(held: Observed, known: Known) -> None:
    access = ReaderAccess(held, STRANGER)
    for key in known.objects:
        with pytest.raises(InvalidScopeError, match="does not belong to client:stranger/project:shop"):
            access.call(delete_objects, DeleteObjects(object_keys=(key,)))


def test_words_of_incidents_lead_those_to_a_page_who_may_see_both(held: Observed, world: World) -> None:
    """No other reader is led to the page by these words."""
    found = dict.fromkeys((True, False), 0)
    for report in world.reports:
        for identity in (*world.identities, STRANGER):
            reader = world.reader(identity)
            answer = ReaderAccess(held, identity).call(query, Query(query=report.word, config=EVERYTHING))
            changes = [change for change in answer.understood.get("reworded", ()) if change["why"] == "learnt"]
            may = reader.may_see(report.known_in)
            assert bool(changes) == may, (report, identity)
            found[may] += 1
    assert all(found.values())

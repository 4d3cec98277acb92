"""Names that somebody got hold of or made up: what belongs to others is as if it weren't there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from opx.domain.graph import Walk
from opx.domain.ids import stable_hash
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.errors import InvalidScopeError, OpxError
from opx.knowledge_base import KnowledgeBase
from opx.local_knowledge_base import LocalKnowledgeBase
from opx.operations.context import Caller, Context
from opx.operations.questions import (
    GetAuditRecord,
    ListAuditRecords,
    SettleGap,
    get_audit_record,
    list_audit_records,
    settle_gap,
)
from tests.isolation.making import any_world
from tests.isolation.observing import Known, base_of, known_of, plain
from tests.isolation.systems import Observed, holding
from tests.isolation.worlds import World

STRANGER = Identity("stranger", "shop")
EVERYTHING = QueryConfig(min_confidence=0.0)
INVENTED = stable_hash("nobody has it")

Asked = Callable[[LocalKnowledgeBase, str], Any]


@pytest.fixture(scope="module")
def world() -> World:
    return any_world(11, pieces=8)


@pytest.fixture(scope="module")
def held(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    session: Any = nullcontext()
    with holding(world, "embedded", tmp_path_factory.mktemp("home"), session) as made:
        yield made


@pytest.fixture(scope="module")
def known(held: Observed, world: World) -> Known:
    """Before anything is asked."""
    return known_of(held, world)


def context_of(base: LocalKnowledgeBase) -> Context:
    return Context(base._services, Caller(base._identity))


def reply(ask: Asked, base: LocalKnowledgeBase, name: str) -> str:
    """What comes back, with the name left out, which the asker knows."""
    try:
        found = str(plain(ask(base, name)))
    except OpxError as exc:
        found = f"{type(exc).__name__}: {exc}"
    return found.replace(name, "NAME")


@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        ("documents", lambda base, name: base.document(name)),
        ("documents", lambda base, name: base.document(name[:12])),
        ("documents", lambda base, name: list(base.chunks(name))),
        ("documents", lambda base, name: base.delete(name)),
        ("documents", lambda base, name: list_audit_records(context_of(base), ListAuditRecords(document_id=name))),
        ("documents", lambda base, name: base.search("disk", QueryConfig(document_id=name)).results),
        ("chunks", lambda base, name: list(base.chunks(name))),
        ("receipts", lambda base, name: get_audit_record(context_of(base), GetAuditRecord(receipt_id=name))),
        ("gaps", lambda base, name: settle_gap(context_of(base), SettleGap(gap_id=name, ignore=True))),
        ("failures", lambda base, name: base.retry([name])),
    ],
)
def test_an_id_of_others_gives_what_an_id_of_nobody_gives(held: Observed, known: Known, kind: str, ask: Asked) -> None:
    base = base_of(held, STRANGER)
    seen_by_all = {one.document_id for one in base.documents().items}
    names = [name for name in getattr(known, kind) if name not in seen_by_all]
    assert names or kind == "failures"
    expected = reply(ask, base, INVENTED).replace(INVENTED[:12], "BEGINNING")
    assert {reply(ask, base, name).replace(name[:12], "BEGINNING") for name in names} <= {expected}


@pytest.mark.parametrize(
    "ask",
    [
        lambda base, name: base.graph_node(name),
        lambda base, name: base.graph_neighbours(name, Walk(3)),
        lambda base, name: base.graph_path(name, "service:nobody", Walk()),
        lambda base, name: base.graph_find(name),
        lambda base, name: base.graph_changes(name),
    ],
)
def test_a_thing_of_others_is_as_unknown_as_one_of_nobody(held: Observed, world: World, ask: Asked) -> None:
    base = base_of(held, STRANGER)
    own = {name for piece in world.pieces if not piece.scope.client_id for name in piece.metadata.get("services", ())}
    services = {name for piece in world.pieces for name in piece.metadata.get("services", ())} - own
    aliases = {name.alias for name in world.names if name.scope.client_id}
    expected = reply(ask, base, "service:inventedx")
    assert {reply(ask, base, f"service:{name}") for name in (*services, *aliases)} == {expected}


def test_the_end_of_a_page_of_somebody_else_shows_nothing_of_it(held: Observed, known: Known) -> None:
    base = base_of(held, STRANGER)
    own = {one.document_id for one in base.documents().items}
    tokens = known.tokens
    assert tokens
    for token in tokens:
        assert {one.document_id for one in base.documents(after=token).items} <= own


@pytest.mark.parametrize("client", ["*", "%", "_", "a*", "..", "a/b", "", "A\n", "client:a", "(a|b)", "a,b", "global"])
@pytest.mark.parametrize("project", ["*", "shop", ""])
def test_a_scope_with_wild_characters_sees_what_nobody_in_particular_sees_or_nothing(
    held: Observed, client: str, project: str
) -> None:
    expected = base_of(held, Identity()).search("disk", EVERYTHING)
    try:
        base = base_of(held, Identity(client, project))
        found = base.search("disk", EVERYTHING)
        listed = base.documents().items
    except InvalidScopeError:
        return
    assert [one.document_id for one in found.results] == [one.document_id for one in expected.results]
    assert listed == base_of(held, Identity()).documents().items


def test_nothing_is_written_or_removed_where_a_scope_is_not_its_own(held: Observed, known: Known) -> None:
    base: KnowledgeBase = base_of(held, STRANGER)
    for key in known.objects:
        with pytest.raises(InvalidScopeError, match="does not belong to client:stranger/project:shop"):
            base.delete_objects([key])

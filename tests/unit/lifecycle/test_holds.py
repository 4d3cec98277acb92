"""Legal holds: what they are on, who may end them, and what they keep from being removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.scopes import Identity, Scope
from opx.edges.calling import LocalClient
from opx.errors import (
    ForbiddenError,
    HeldError,
    HoldNotFoundError,
    InvalidInputError,
    InvalidScopeError,
    UnknownCategoryError,
)
from opx.lifecycle.retention.holds import Hold
from opx.operations.context import Caller, Context
from opx.operations.corpus import DeleteDocument, DeleteObjects, delete_document, delete_objects
from opx.operations.lifecycle import AddHold, LiftHold, ListHolds, add_hold, lift_hold, list_holds
from opx.operations.system import System
from tests.support.agent_calls import a_system, id_of

INCIDENTS = "operations/incidents"
OF_ACME = "clients/acme/documents/operations/incidents/web.md"
OF_SHOP = "clients/acme/projects/shop/documents/runbooks/web.md"
SHARED = "documents/runbooks/disk.md"
ACME, SHOP, OTHER = Scope("acme"), Scope("acme", project_id="shop"), Scope("acmeshop")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    texts = {OF_ACME: "# Web\n\nIt failed.\n", OF_SHOP: "# Web\n\nRestart.\n", SHARED: "# Disk\n\nIt is full.\n"}
    with a_system(tmp_path_factory.mktemp("home"), texts) as system:
        yield system


@pytest.fixture(autouse=True)
def lifted(services: System) -> Iterator[None]:
    yield
    for hold in services.lifecycle.holds.in_force():
        services.lifecycle.holds.lift(hold.id, "test")


def client_of(services: System, client: str = "", project: str = "") -> LocalClient:
    return LocalClient(Context(services, Caller(Identity(client, project, "ada"))))


def held_by(client: LocalClient, **parts: Any) -> Hold:
    return client.call(add_hold, AddHold(reason="case", **parts))


@pytest.mark.parametrize(
    ("parts", "scope", "category", "covered"),
    [
        ({}, ACME, INCIDENTS, True),
        ({"within": "client:acme"}, SHOP, INCIDENTS, True),
        ({"within": "client:acme"}, OTHER, INCIDENTS, False),
        ({"within": "client:acme/project:shop"}, ACME, INCIDENTS, False),
        ({"within": "global"}, ACME, INCIDENTS, False),
        ({"within": "global"}, Scope(), INCIDENTS, True),
        ({"category": "operations"}, ACME, INCIDENTS, True),
        ({"category": "operations/inc"}, ACME, INCIDENTS, False),
        ({"category": INCIDENTS, "within": "client:acme"}, OTHER, INCIDENTS, False),
        ({"source": "documents/x.md", "within": "client:acme"}, ACME, INCIDENTS, True),
        ({"source": "documents/x.md", "within": "client:acme"}, SHOP, INCIDENTS, False),
        ({"source": "documents/y.md", "within": "client:acme"}, ACME, INCIDENTS, False),
    ],
)
def test_a_hold_covers_documents_that_meet_all_its_criteria(
    parts: dict[str, str], scope: Scope, category: str, covered: bool
) -> None:
    assert Hold("case", "ada", **parts).covers(DocumentKey(scope, "documents/x.md"), category) is covered


def test_the_same_hold_again_changes_nothing(services: System) -> None:
    first = services.lifecycle.holds.add(Hold("case", "ada", category=INCIDENTS))
    assert services.lifecycle.holds.add(Hold("case", "bob", category=INCIDENTS)) == first
    assert services.lifecycle.holds.in_force() == [first]
    assert Hold.from_json(first.to_json()) == first


def test_a_hold_that_was_lifted_is_kept_as_a_record(services: System) -> None:
    hold = services.lifecycle.holds.add(Hold("case 7", "ada", within="client:acme"))
    services.lifecycle.holds.lift(hold.id, "bob")
    assert services.lifecycle.holds.in_force() == []
    (record,) = [one for one in services.lifecycle.holds.lifted() if one.reason == "case 7"]
    assert (record.id, record.by, record.lifted_by) == (hold.id, "ada", "bob")
    assert record.lifted >= record.since > ""
    with pytest.raises(HoldNotFoundError, match=hold.id):
        services.lifecycle.holds.lift(hold.id, "bob")


@pytest.mark.parametrize(
    ("hold", "error", "message"),
    [
        (Hold(" ", "ada"), InvalidInputError, "reason"),
        (Hold("x" * 1001, "ada"), InvalidInputError, "reason"),
        (Hold("case", ""), InvalidInputError, "name of the person"),
        (Hold("case", "ada", within="acme"), InvalidScopeError, "not the key of a scope"),
        (Hold("case", "ada", category="nonsense"), UnknownCategoryError, "nonsense"),
        (Hold("case", "ada", source="documents/x.md"), InvalidInputError, "scope"),
    ],
)
def test_an_incomplete_hold_is_refused(services: System, hold: Hold, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        services.lifecycle.holds.add(hold, services.installation.knowledge)
    assert services.lifecycle.holds.in_force() == []


def test_document_on_hold_can_not_be_deleted_by_request(services: System) -> None:
    document = id_of(services, SHARED)
    client = client_of(services)
    hold = held_by(client, document=document[:12])
    with pytest.raises(HeldError, match=f"documents/runbooks/disk.md can't be removed: hold {hold.id} on document"):
        client.call(delete_document, DeleteDocument(document_id=document))
    with pytest.raises(HeldError, match="case"):
        client.call(delete_objects, DeleteObjects(object_keys=(SHARED,)))
    assert id_of(services, SHARED) == document


@pytest.mark.parametrize("parts", [{}, {"within": "client:acme/project:shop"}, {"category": INCIDENTS}])
def test_a_client_of_which_something_is_held_is_not_removed(services: System, parts: dict[str, str]) -> None:
    hold = services.lifecycle.holds.add(Hold("case", "ada", **parts))
    with pytest.raises(HeldError, match=f"client acme can't be removed: hold {hold.id}"):
        services.tenants.offboarding().remove("acme")
    assert services.corpus.clients.get("acme").state == "active"  # type: ignore[union-attr]


@pytest.mark.parametrize("parts", [{"within": "client:acmeshop"}, {"category": "security/cve"}, {"within": "global"}])
def test_holds_on_others_do_not_keep_a_client(services: System, parts: dict[str, str]) -> None:
    services.lifecycle.holds.add(Hold("case", "ada", **parts))
    services.tenants.offboarding()._check_holds("acme")


class TestAccess:
    def test_a_client_holds_what_is_its_own(self, services: System) -> None:
        assert held_by(client_of(services, "acme"), everything=True).within == "client:acme"
        assert held_by(client_of(services, "acme", "shop"), category="runbooks").within == OF_SHOP_KEY

    @pytest.mark.parametrize("within", ["global", "client:other", "client:acme"])
    def test_nobody_holds_what_is_not(self, services: System, within: str) -> None:
        with pytest.raises(ForbiddenError, match="your own"):
            held_by(client_of(services, "acme", "shop"), within=within)

    def test_a_client_sees_and_ends_its_own_alone(self, services: System) -> None:
        acme = client_of(services, "acme")
        mine = held_by(acme, everything=True)
        others = services.lifecycle.holds.add(Hold("case", "ada"))
        assert acme.call(list_holds, ListHolds()).holds == (mine,)
        with pytest.raises(HoldNotFoundError):
            acme.call(lift_hold, LiftHold(hold_id=others.id))
        assert {hold.id for hold in client_of(services).call(list_holds, ListHolds()).holds} == {mine.id, others.id}

    @pytest.mark.parametrize(
        "parts", [{}, {"everything": True, "category": INCIDENTS}, {"document": "ab12", "category": INCIDENTS}]
    )
    def test_a_hold_needs_exactly_one_kind_of_criterion(self, services: System, parts: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError, match=r"nothing to hold|hold on a document"):
            held_by(client_of(services), **parts)


OF_SHOP_KEY = "client:acme/project:shop"


def test_the_knowledge_file_sets_the_limits_of_a_run(tmp_path: Path) -> None:
    from opx.errors import KnowledgeConfigError
    from opx.lifecycle.retention.pruning import GuardRules, read_guard_rules

    file = tmp_path / "knowledge.yaml"
    assert read_guard_rules() == GuardRules(0.2, 20)
    file.write_text("retention: {max_share: 0.5}\n")
    assert read_guard_rules(file) == GuardRules(0.5, 20)
    for wrong in ("{max_share: 0}", "{max_share: 1.5}", "{at_least: -1}", "{at_least: 1.5}", "{maxshare: 1}"):
        file.write_text(f"retention: {wrong}\n")
        with pytest.raises(KnowledgeConfigError, match=r"knowledge.yaml:1: "):
            read_guard_rules(file)

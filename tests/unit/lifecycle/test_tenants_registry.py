"""Registry of projects and groups, visibility after a move, and the registry of clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.database import Database, open_database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity, Scope
from opx.edges.calling import LocalClient, plain
from opx.edges.tools import call_tool
from opx.errors import ClientRemovedError, InvalidInputError, InvalidScopeError
from opx.ingestion.corpus.clients import Client, ClientRegistry, ClientState, ProjectPlace, ProjectRegistry, SightChange
from opx.operations import load
from opx.operations.context import Caller, Context
from opx.operations.corpus import GetStatus, get_status
from opx.operations.search import Query, query
from opx.operations.system import System
from opx.ports.tables import PROJECTS
from opx_testing.fake_time import FakeTime
from tests.support.tenants_support import PROCEDURES, services_at

MALFORMED = [
    "*",
    "%",
    "_",
    "a*",
    "a%",
    "?",
    "..",
    "a..b",
    "a/b",
    "/",
    "a|b",
    "a#b",
    "a:b",
    "асme",
    "ａ",
    "a\u200b",
    "a\n",
    " ",
]


class Untouchable:
    """A table that fails on any call."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError(f"the table was called: {name}")

        return refuse


@pytest.fixture
def table(tmp_path: Path) -> Iterator[SqliteTable]:
    database: Database = open_database(tmp_path / "opx.db")
    yield SqliteTable(PROJECTS, database)
    database.close()


@pytest.fixture
def projects(table: SqliteTable) -> ProjectRegistry:
    registry = ProjectRegistry(table)
    for project, group in (("web", "shops"), ("cart", "shops"), ("mail", "office"), ("lone", "")):
        registry.assign("acme", project, group)
    registry.assign("other", "theirs", "shops")
    return registry


@pytest.fixture
def clients(table: SqliteTable, time: FakeTime) -> ClientRegistry:
    return ClientRegistry(table, time.clock)


# -- projects and groups


def test_projects_of_a_client_are_listed_with_their_groups(projects: ProjectRegistry) -> None:
    assert list(projects.projects("acme")) == [
        ProjectPlace("cart", "shops"),
        ProjectPlace("lone", ""),
        ProjectPlace("mail", "office"),
        ProjectPlace("web", "shops"),
    ]


def test_members_of_a_group_are_those_of_the_client_alone(projects: ProjectRegistry) -> None:
    assert projects.members("acme", "shops") == ("cart", "web")
    assert projects.members("acme", "nothing") == projects.members("nobody", "shops") == ()


def test_removed_project_is_in_no_list_and_no_group(projects: ProjectRegistry) -> None:
    projects.remove("acme", "web")
    assert projects.members("acme", "shops") == ("cart",)
    assert projects.reader(Identity("acme", "web")).visible[-1] == "client:acme/project:web"
    assert "client:acme/project:web" not in projects.reader(Identity("acme", "cart")).visible


def test_move_is_described_for_everybody_whom_it_touches(projects: ProjectRegistry) -> None:
    assert projects.effects("acme", "web", "office") == [
        SightChange("cart", (), ("client:acme/project:web",)),
        SightChange("mail", ("client:acme/project:web",), ()),
        SightChange(
            "web",
            ("client:acme/group:office", "client:acme/project:mail"),
            ("client:acme/group:shops", "client:acme/project:cart"),
        ),
    ]


def test_move_does_what_was_described(projects: ProjectRegistry) -> None:
    def sight() -> dict[str, set[str]]:
        names = ("web", "cart", "mail", "lone")
        return {name: set(projects.reader(Identity("acme", name)).visible) for name in names}

    described, before = projects.effects("acme", "lone", "shops"), sight()
    projects.assign("acme", "lone", "shops")
    after = sight()
    for name in before:
        change = next((one for one in described if one.project_id == name), SightChange(name, (), ()))
        assert (after[name] - before[name], before[name] - after[name]) == (set(change.gained), set(change.lost))


def test_staying_where_it_is_changes_nothing(projects: ProjectRegistry) -> None:
    assert projects.effects("acme", "web", "shops") == projects.effects("acme", "unknown", "") == []


@pytest.mark.parametrize("bad", MALFORMED)
def test_malformed_ids_never_reach_the_table(bad: str) -> None:
    registry = ProjectRegistry(Untouchable())
    for call in (
        lambda: registry.assign(bad, "web", "shops"),
        lambda: registry.assign("acme", bad, "shops"),
        lambda: registry.assign("acme", "web", bad),
        lambda: registry.remove("acme", bad),
        lambda: registry.group_of("acme", bad),
        lambda: list(registry.projects(bad)),
        lambda: registry.members("acme", bad),
        lambda: registry.effects("acme", "web", bad),
        lambda: registry.reader(Identity("acme", bad)),
        lambda: ClientRegistry(Untouchable(), lambda: 0.0).get(bad),
    ):
        with pytest.raises(InvalidScopeError):
            call()


def test_empty_ids_never_reach_the_table() -> None:
    registry = ProjectRegistry(Untouchable())
    for call in (
        lambda: registry.assign("", "web", "shops"),
        lambda: registry.assign("acme", "", "shops"),
        lambda: list(registry.projects("")),
        lambda: registry.members("", "shops"),
    ):
        with pytest.raises(InvalidScopeError):
            call()


def test_underscore_is_a_letter_like_others(projects: ProjectRegistry) -> None:
    projects.assign("a_b", "web", "shops")
    projects.assign("axb", "cart", "shops")
    assert projects.reader(Identity("a_b", "web")).visible == (
        "global",
        "client:a_b",
        "client:a_b/group:shops",
        "client:a_b/project:web",
    )
    assert list(projects.projects("a_b")) == [ProjectPlace("web", "shops")]


def test_guessed_project_of_another_client_looks_like_one_that_is_not_there(projects: ProjectRegistry) -> None:
    guessed, missing = (projects.reader(Identity("acme", project)).visible for project in ("theirs", "nothing"))
    assert [key.replace("theirs", "nothing") for key in guessed] == list(missing)
    assert projects.group_of("acme", "theirs") == projects.group_of("acme", "nothing") == ""


# -- clients


def test_client_is_noted_with_its_first_document_and_its_project(
    clients: ClientRegistry, projects: ProjectRegistry
) -> None:
    assert clients.admit(Scope("new", project_id="p"))
    assert [client.client_id for client in clients.all()] == ["new"]
    assert list(projects.projects("new")) == [ProjectPlace("p", "")]


def test_noting_a_project_leaves_it_in_its_group(clients: ClientRegistry, projects: ProjectRegistry) -> None:
    assert clients.admit(Scope("acme", project_id="web"))
    assert projects.group_of("acme", "web") == "shops"


def test_everybodys_documents_are_always_admitted(clients: ClientRegistry) -> None:
    assert clients.admit(Scope())
    assert list(clients.all()) == []


def test_removed_client_is_not_admitted_and_not_answered(clients: ClientRegistry, projects: ProjectRegistry) -> None:
    clients.put(Client("acme", ClientState.REMOVED))
    assert not clients.admit(Scope("acme", project_id="web"))
    for identity in (Identity("acme"), Identity("acme", "web"), Identity("acme", "unknown")):
        with pytest.raises(ClientRemovedError, match="opx client add acme"):
            projects.reader(identity)
    assert projects.reader(Identity("other", "theirs"))
    assert clients.add("acme").state is ClientState.ACTIVE
    assert projects.reader(Identity("acme"))


def test_client_that_is_removed_while_it_is_being_noted_stays_removed(
    clients: ClientRegistry, table: SqliteTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker checks the client once more after it has claimed a document."""
    clients.put(Client("acme", ClientState.REMOVING))
    with monkeypatch.context() as patch:
        patch.setattr(table, "get_many", lambda _: [])  # as it was a moment ago
        assert clients.admit(Scope("acme"))
    assert not clients.admit(Scope("acme"))


def test_no_client_can_be_everybody(clients: ClientRegistry) -> None:
    for client_id in ("", "global"):
        with pytest.raises(InvalidInputError):
            clients.add(client_id)


# -- moves and what is kept between questions


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    services = services_at(tmp_path / "opx")
    text = '# Ledger\n\nrelationships: [ "service:ledger|DEPENDS_ON|service:vault" ]\n\nThe heron pauses.'
    services.ingestion.manager_of(Scope("acme", project_id="ledger")).ingest_document("internal", PROCEDURES, text, {})
    yield services
    services.close()


def test_a_move_takes_effect_with_the_next_query_of_the_same_caller(services: System) -> None:
    """One system, as an agent's server keeps it, and the same query each time."""
    context = Context(services, Caller(Identity("acme", "shop")))
    client = LocalClient(context)

    def seen() -> tuple[int, int, int, int | None, bool]:
        request = Query(query="heron pauses", config=QueryConfig(min_confidence=0.0))
        results = client.call(query, request).results
        status = client.call(get_status, GetStatus())
        related = services.graph.seen_by(Identity("acme", "shop")).find("service:ledger")
        reply = call_tool(load().tools()["search_docs"], context, {"query": "heron pauses"}.items())
        return len(results), len(plain(reply)["documentIds"]), status.documents, status.chunks, bool(related)

    assert seen() == (0, 0, 0, 0, False)
    services.corpus.projects.assign("acme", "shop", "bank")
    services.corpus.projects.assign("acme", "ledger", "bank")
    assert seen() == (1, 1, 1, 1, True)
    services.corpus.projects.assign("acme", "ledger", "elsewhere")
    assert seen() == (0, 0, 0, 0, False)


@pytest.mark.parametrize("damage", [{}, {"state": "x"}, {"state": None}, {"state": 7}])
def test_a_row_of_a_client_that_lacks_its_state_keeps_nobody_from_working(
    services: System, damage: dict[str, object]
) -> None:
    services.tables.table(PROJECTS).put({"clientId": "#clients", "projectId": "acme", **damage})
    assert [client.state for client in services.corpus.clients.all()] == [ClientState.ACTIVE]
    services.corpus.clients.check("acme")
    assert services.corpus.projects.reader(Identity("acme", "ledger")).visible


def test_a_row_of_a_project_without_its_group_is_in_none(services: System) -> None:
    services.tables.table(PROJECTS).put({"clientId": "acme", "projectId": "ledger"})
    assert list(services.corpus.projects.projects("acme")) == [ProjectPlace("ledger", "")]
    assert services.corpus.projects.group_of("acme", "ledger") == ""
    assert services.corpus.projects.reader(Identity("acme", "ledger")).visible

"""Scopes that readers see, the registry of their projects, and owners in object keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.scopes import Identity, Reader, Scope, reader_of, scope_of_object
from opx.errors import InvalidScopeError
from opx.ingestion.corpus.clients import ProjectRegistry
from opx.ports import Item
from opx.ports.tables import PROJECTS

calm = settings(deadline=None)  # a busy machine is no failure

IDS = st.from_regex(r"\A[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,63}\Z").filter(lambda text: text != "global")
SCOPES = st.one_of(
    st.just(Scope()),
    st.builds(Scope, IDS),
    st.builds(Scope, IDS, group_id=IDS),
    st.builds(Scope, IDS, project_id=IDS),
)
MALFORMED = [
    "*",
    "?",
    "a*",
    "..",
    ".",
    "-a",
    "_a",
    "a/b",
    "a:b",
    "a b",
    " a",
    "a\n",
    "é",
    "a" * 65,
    "\x00",
    "%2e%2e",
    "a,b",
]

GLOBAL = Scope()
ACME = Scope("acme")
ACME_GROUP = Scope("acme", group_id="payments")
SHOP = Scope("acme", project_id="shop")
SIBLING = Scope("acme", project_id="ledger")


def in_group() -> Reader:
    """Someone of the project shop, which shares the group payments with ledger."""
    return reader_of(Identity("acme", "shop"), "payments", ("shop", "ledger"))


# -- what is visible -------------------------------------------------------------------------------------------------


def test_nobody_in_particular_sees_only_what_is_global() -> None:
    assert reader_of(Identity()).visible == (GLOBAL.key,)


@pytest.mark.parametrize("identity", [Identity(), Identity("acme"), Identity("acme", "shop"), Identity("other", "x")])
def test_everyone_sees_what_is_global(identity: Identity) -> None:
    assert reader_of(identity).may_see(GLOBAL)


def test_a_client_sees_its_own_documents_and_none_of_its_groups_or_projects() -> None:
    assert reader_of(Identity("acme")).visible == ("global", "client:acme")


def test_a_project_without_a_group_sees_global_its_client_and_itself() -> None:
    assert reader_of(Identity("acme", "shop")).visible == ("global", "client:acme", "client:acme/project:shop")


@pytest.mark.parametrize("scope", [GLOBAL, ACME, ACME_GROUP, SHOP, SIBLING])
def test_a_project_in_a_group_sees_the_group_and_its_siblings(scope: Scope) -> None:
    assert in_group().may_see(scope)


@pytest.mark.parametrize(
    "scope",
    [
        Scope("other"),
        Scope("acme", group_id="logistics"),
        Scope("acme", project_id="fleet"),
        Scope("other", project_id="shop"),
        Scope("other", group_id="payments"),
    ],
)
def test_a_project_sees_nothing_of_other_clients_groups_or_projects(scope: Scope) -> None:
    assert not in_group().may_see(scope)


@calm
@given(IDS, IDS, st.lists(IDS, max_size=4), SCOPES)
def test_nobody_sees_documents_of_another_client(client: str, project: str, siblings: list[str], scope: Scope) -> None:
    reader = reader_of(Identity(client, project), "group", tuple(siblings))
    assert not reader.may_see(scope) or scope.client_id in ("", client)


def test_the_order_of_the_siblings_does_not_matter() -> None:
    assert reader_of(Identity("acme", "shop"), "payments", ("ledger", "shop")) == in_group()


@pytest.mark.parametrize("bad", MALFORMED)
def test_a_malformed_identity_never_becomes_a_filter(bad: str) -> None:
    for identity in (Identity(bad), Identity("acme", bad)):
        with pytest.raises(InvalidScopeError):
            reader_of(identity)


@pytest.mark.parametrize("bad", MALFORMED)
def test_a_malformed_group_or_sibling_never_becomes_a_filter(bad: str) -> None:
    for group, projects in ((bad, ()), ("payments", (bad,))):
        with pytest.raises(InvalidScopeError):
            reader_of(Identity("acme", "shop"), group, projects)


def test_a_project_without_its_client_is_refused() -> None:
    with pytest.raises(InvalidScopeError, match="client"):
        reader_of(Identity("", "shop"))


# -- scopes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", MALFORMED)
@pytest.mark.parametrize("make", [Scope, lambda bad: Scope("a", group_id=bad), lambda bad: Scope("a", project_id=bad)])
def test_a_malformed_id_makes_no_scope(bad: str, make: type[Scope]) -> None:
    with pytest.raises(InvalidScopeError):
        make(bad)


def test_a_group_or_project_needs_its_client() -> None:
    with pytest.raises(InvalidScopeError):
        Scope("", group_id="g")
    with pytest.raises(InvalidScopeError):
        Scope("", project_id="p")


def test_a_document_has_one_owner() -> None:
    with pytest.raises(InvalidScopeError, match="not to both"):
        Scope("a", "g", "p")


@calm
@given(SCOPES, SCOPES)
def test_different_scopes_have_different_keys_and_folders(first: Scope, second: Scope) -> None:
    assert (first.key == second.key) == (first.prefix == second.prefix) == (first == second)


# -- owners of objects -----------------------------------------------------------------------------------------------


@calm
@given(SCOPES, st.text(min_size=1))
def test_a_documents_object_key_names_its_scope(scope: Scope, name: str) -> None:
    assert scope_of_object(f"{scope.prefix}documents/{name}") == (scope, f"documents/{name}")


@pytest.mark.parametrize(
    "key",
    [
        "clients//documents/x",
        "clients//groups/g/documents/x",
        "clients//projects/p/documents/x",
        "clients/a/groups//documents/x",
        "clients/a/projects//documents/x",
        "clients/*/documents/x",
        "clients/../documents/x",
        "clients/./documents/x",
        "clients/a/projects/*/documents/x",
        "clients/a/groups/../documents/x",
        "clients/a/projects/../documents/x",
        "clients/a b/documents/x",
        f"clients/{'a' * 65}/documents/x",
    ],
)
def test_a_key_with_a_missing_or_malformed_id_is_refused(key: str) -> None:
    with pytest.raises(InvalidScopeError):
        scope_of_object(key)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "clients",
        "clients/a",
        "clients/documents/x",
        "clients/a/projects/p",
        "clients/a/../documents/x",
        "clients/a/../../documents/x",
        "clients/a/groups/documents/x",
        "clients/a/projects/p/../../documents/x",
        "clients/a/projects/p/projects/q/documents/x",
        "clients/a/clients/b/documents/x",
        "Clients/a/documents/x",
        "/clients/a/documents/x",
        "//clients/a/documents/x",
        "./clients/a/documents/x",
        "x/clients/a/documents/x",
        "chunks/0.jsonl",
    ],
)
def test_a_key_of_another_form_is_no_document(key: str) -> None:
    assert not scope_of_object(key)[1].startswith("documents/")


@calm
@given(st.lists(st.sampled_from(["clients", "a", "b", "..", ".", "", "*", "groups", "projects", "documents", "x"])))
def test_only_a_key_under_documents_itself_is_a_global_document(segments: list[str]) -> None:
    key = "/".join(segments)
    try:
        scope, source = scope_of_object(key)
    except InvalidScopeError:
        return
    if source.startswith("documents/"):
        assert key == scope.prefix + source


ACME_WEB = Identity("acme", "web")


@pytest.fixture
def projects(database: Database) -> ProjectRegistry:
    return ProjectRegistry(SqliteTable(PROJECTS, database))


class LaggingTable(SqliteTable):
    """A table whose index still shows what it held when this was made, as a DynamoDB index may."""

    def __init__(self, database: Database, group: str) -> None:
        super().__init__(PROJECTS, database)
        self._stale = list(super().query(group, index="group-index"))

    def query(self, partition: str | int, **options: Any) -> Iterator[dict[str, Any]]:
        return iter(self._stale)


def test_nobody_in_particular_sees_what_is_global(projects: ProjectRegistry) -> None:
    assert projects.reader(Identity()).visible == ("global",)


def test_client_sees_global_and_its_own(projects: ProjectRegistry) -> None:
    projects.assign("acme", "web", "shops")
    assert projects.reader(Identity("acme")).visible == ("global", "client:acme")


def test_project_without_a_group_sees_itself(projects: ProjectRegistry) -> None:
    assert projects.reader(ACME_WEB).visible == ("global", "client:acme", "client:acme/project:web")


def test_project_in_a_group_sees_the_group_and_its_projects(projects: ProjectRegistry) -> None:
    for project in ("web", "cart", "mail"):
        projects.assign("acme", project, "office" if project == "mail" else "shops")
    assert projects.reader(ACME_WEB).visible == (
        "global",
        "client:acme",
        "client:acme/group:shops",
        "client:acme/project:cart",
        "client:acme/project:web",
    )


def test_groups_of_the_same_name_at_two_clients_are_two_groups(projects: ProjectRegistry) -> None:
    projects.assign("acme", "web", "shops")
    projects.assign("other", "theirs", "shops")
    assert not any("other" in key or "theirs" in key for key in projects.reader(ACME_WEB).visible)


def test_moving_a_project_changes_what_both_groups_see_at_once(projects: ProjectRegistry) -> None:
    projects.assign("acme", "web", "shops")
    projects.assign("acme", "cart", "shops")
    projects.assign("acme", "cart", "office")
    assert "client:acme/project:cart" not in projects.reader(ACME_WEB).visible
    moved = projects.reader(Identity("acme", "cart")).visible
    assert "client:acme/group:office" in moved
    assert "client:acme/group:shops" not in moved


def test_project_taken_out_of_its_group_sees_only_itself(projects: ProjectRegistry) -> None:
    projects.assign("acme", "web", "shops")
    projects.assign("acme", "cart", "shops")
    projects.assign("acme", "web", "")
    assert projects.group_of("acme", "web") == ""
    assert projects.reader(ACME_WEB).visible == ("global", "client:acme", "client:acme/project:web")


def test_project_that_the_index_still_lists_in_its_old_group_is_not_a_member(
    projects: ProjectRegistry, database: Database
) -> None:
    for project in ("web", "cart", "mail"):
        projects.assign("acme", project, "shops")
    lagging = ProjectRegistry(LaggingTable(database, "acme#shops"))
    projects.assign("acme", "cart", "office")
    projects.assign("acme", "mail", "")
    assert lagging.reader(ACME_WEB).visible == (
        "global",
        "client:acme",
        "client:acme/group:shops",
        "client:acme/project:web",
    )


class UntouchableTable(SqliteTable):
    """A table that must not be read."""

    def get(self, key: Mapping[str, Any]) -> Item | None:
        raise AssertionError(f"{key} was looked up")


@pytest.mark.parametrize("bad", ["*", "a/b", "a#b", "../x", " ", "a" * 65])
def test_malformed_ids_are_refused_before_they_are_looked_up(database: Database, bad: str) -> None:
    projects = ProjectRegistry(UntouchableTable(PROJECTS, database))
    for identity in (Identity(bad), Identity("acme", bad), Identity(bad, "web")):
        with pytest.raises(InvalidScopeError):
            projects.reader(identity)


@pytest.mark.parametrize("ids", [("", "web", "shops"), ("acme", "we b", "shops"), ("acme", "web", "sho#ps")])
def test_malformed_assignments_are_refused(projects: ProjectRegistry, ids: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidScopeError):
        projects.assign(*ids)


def test_project_without_its_client_is_refused(projects: ProjectRegistry) -> None:
    with pytest.raises(InvalidScopeError, match="needs its client"):
        projects.reader(Identity("", "web"))

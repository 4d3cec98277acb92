"""Visible scopes of identities follow the current project registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.scopes import Identity
from opx.errors import InvalidScopeError
from opx.ingestion.corpus.clients import ProjectRegistry
from opx.ports import Item
from opx.ports.tables import PROJECTS

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

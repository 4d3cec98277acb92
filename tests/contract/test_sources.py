"""Operations on sources do the same in this process, and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.remote.connections import Connections
from opx.adapters.remote.http import bearer
from opx.domain.scopes import Identity
from opx.edges.calling import Client, LocalClient
from opx.edges.client import RemoteClient
from opx.errors import InvalidInputError
from opx.operations.context import Caller, Context
from opx.operations.sources import (
    CheckSource,
    ListSources,
    PullSource,
    RegisterSource,
    RemoveSource,
    check_source,
    list_sources,
    pull_source,
    register_source,
    remove_source,
)
from opx.services import Services
from opx.settings import Settings
from opx.sources.states import SourceView, Standing
from tests.doubles.api_gateway import DeployedSystem
from tests.unit.cli_support import word_services


class SourcesContract:
    """Subclasses give the fixture `client`, which calls operations of `services` for the installation's administrator."""

    @pytest.fixture
    def services(self, tmp_path: Path) -> Services:
        return word_services(Settings(home=str(tmp_path / "home")))

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "docs").mkdir()
        return tmp_path / "docs"

    def registered(self, client: Client, folder: Path) -> None:
        given = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": str(folder)}}
        definition = {**given, "schedule": "0 4 * * *", "time_zone": "Europe/Vienna"}
        client.call(register_source, RegisterSource(source_id="notes", definition=definition))

    def view(self, client: Client) -> SourceView:
        (found,) = [view for view in client.call(list_sources, ListSources()).sources if view.source_id == "notes"]
        return found

    def test_a_registered_source_is_listed_as_it_was_registered(self, client: Client, folder: Path) -> None:
        self.registered(client, folder)
        view = self.view(client)
        assert (view.kind, view.category, view.schedule, view.time_zone) == (
            "directory",
            "runbooks/procedures",
            "0 4 * * *",
            "Europe/Vienna",
        )
        assert (view.enabled, view.declared, view.state.last_success) == (True, False, "")

    def test_declared_sources_are_listed_too(self, client: Client) -> None:
        assert [view.source_id for view in client.call(list_sources, ListSources()).sources if view.declared]

    def test_a_pull_shows_in_the_sources_state(self, client: Client, folder: Path) -> None:
        self.registered(client, folder)
        (folder / "a.md").write_text("# A\n\ntext\n")
        (folder / "b.md").write_bytes(b"x" * 10)
        (folder / "b.md").chmod(0o644)
        client.call(pull_source, PullSource(source_id="notes"))
        view = self.view(client)
        assert (view.state.put, view.state.unchanged, view.state.withdrawn, view.state.error) == (2, 0, 0, "")
        assert view.state.last_success

    def test_a_pull_that_fails_says_why_in_the_state(self, client: Client, folder: Path) -> None:
        self.registered(client, folder)
        folder.rmdir()
        client.call(pull_source, PullSource(source_id="notes"))
        view = self.view(client)
        assert "no directory" in view.state.error

    def test_health_is_asked_for(self, client: Client, folder: Path) -> None:
        self.registered(client, folder)
        health = client.call(check_source, CheckSource(source_id="notes")).health
        assert health
        assert (health.ok, health.reason) == (True, "")

    def test_missing_documents_are_accepted_when_it_is_said(self, client: Client, folder: Path) -> None:
        self.registered(client, folder)
        for name in "ab":
            (folder / f"{name}.md").write_text(f"# {name}\n\ntext\n")
        client.call(pull_source, PullSource(source_id="notes"))
        (folder / "a.md").unlink()
        client.call(pull_source, PullSource(source_id="notes"))
        assert "misses 1 of 2" in self.state(client).flag
        client.call(pull_source, PullSource(source_id="notes", accept_missing=True))
        assert (self.state(client).withdrawn, self.state(client).flag) == (1, "")

    def state(self, client: Client) -> Standing:
        return self.view(client).state

    def test_a_removed_source_is_gone(self, client: Client, folder: Path) -> None:
        self.registered(client, folder)
        client.call(remove_source, RemoveSource(source_id="notes"))
        assert "notes" not in [view.source_id for view in client.call(list_sources, ListSources()).sources]

    @pytest.mark.parametrize("source_id", ["unknown", "nvd"])
    def test_what_can_not_be_removed_is_told(self, client: Client, source_id: str) -> None:
        with pytest.raises(InvalidInputError, match=source_id):
            client.call(remove_source, RemoveSource(source_id=source_id))

    def test_a_wrong_definition_is_refused(self, client: Client) -> None:
        definition = {"kind": "carrier-pigeon", "category": "runbooks"}
        with pytest.raises(InvalidInputError, match="unknown kind"):
            client.call(register_source, RegisterSource(source_id="x", definition=definition))


class TestLocalSources(SourcesContract):
    @pytest.fixture
    def client(self, services: Services) -> Iterator[Client]:
        with services:
            yield LocalClient(Context(services, Caller(Identity(), owns_system=True)))


class TestRemoteSources(SourcesContract):
    @pytest.fixture
    def client(self, services: Services) -> Iterator[Client]:
        with services, DeployedSystem(services, tokens={"token": {"scope": "opx/admin"}}) as system:
            client = RemoteClient(system.endpoint, bearer("token"), Connections(), pause=lambda seconds: None)
            yield client
            client.close()

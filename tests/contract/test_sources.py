"""Sources of a system in this process, and of one that is called over HTTP, are the same to their caller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.connectors.states import SourceView, Standing
from opx.domain.scopes import Identity
from opx.errors import InvalidInputError
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
from opx.operations.system import System
from opx.settings import Settings
from tests.contract.caller_access import CallerAccess, local_access, remote_access
from tests.support.cli_support import word_services


class SourcesContract:
    """Subclasses provide the fixture `access`: the installation's administrator as a caller of the system `services`."""

    @pytest.fixture
    def services(self, tmp_path: Path) -> System:
        return word_services(Settings(home=str(tmp_path / "home")))

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "docs").mkdir()
        return tmp_path / "docs"

    def registered(self, access: CallerAccess, folder: Path) -> None:
        given = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": str(folder)}}
        definition = {**given, "schedule": "0 4 * * *", "time_zone": "Europe/Vienna"}
        access.call(register_source, RegisterSource(source_id="notes", definition=definition))

    def test_a_registered_source_is_listed_as_it_was_registered(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        (view,) = [view for view in sources(access) if view.source_id == "notes"]
        assert (view.kind, view.category, view.schedule, view.time_zone) == (
            "directory",
            "runbooks/procedures",
            "0 4 * * *",
            "Europe/Vienna",
        )
        assert (view.enabled, view.declared, view.state.last_success) == (True, False, "")

    def test_declared_sources_are_listed_too(self, access: CallerAccess) -> None:
        assert [view.source_id for view in sources(access) if view.declared]

    def test_a_pull_shows_in_the_sources_state(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        (folder / "a.md").write_text("# A\n\ntext\n")
        (folder / "b.md").write_bytes(b"x" * 10)
        (folder / "b.md").chmod(0o644)
        access.call(pull_source, PullSource(source_id="notes"))
        access.work([])
        (view,) = [view for view in sources(access) if view.source_id == "notes"]
        assert (view.state.put, view.state.unchanged, view.state.withdrawn, view.state.error) == (2, 0, 0, "")
        assert view.state.last_success

    def test_a_failed_pull_has_its_error_in_the_state(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        folder.rmdir()
        access.call(pull_source, PullSource(source_id="notes"))
        (view,) = [view for view in sources(access) if view.source_id == "notes"]
        assert "not a directory" in view.state.error

    def test_health_is_checked(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        health = access.call(check_source, CheckSource(source_id="notes")).health
        assert health
        assert (health.ok, health.reason) == (True, "")

    def test_missing_documents_are_accepted_on_request(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        for name in "abc":
            (folder / f"{name}.md").write_text(f"# {name}\n\ntext\n")
        access.call(pull_source, PullSource(source_id="notes"))
        for name in "ab":
            (folder / f"{name}.md").unlink()
        access.call(pull_source, PullSource(source_id="notes"))
        assert "misses 2 of 3" in self.state(access).flag
        access.call(pull_source, PullSource(source_id="notes", accept_missing=True))
        assert (self.state(access).withdrawn, self.state(access).flag) == (2, "")

    def state(self, access: CallerAccess) -> Standing:
        (view,) = [view for view in sources(access) if view.source_id == "notes"]
        return view.state

    def test_a_removed_source_is_gone(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        access.call(remove_source, RemoveSource(source_id="notes"))
        assert "notes" not in [view.source_id for view in sources(access)]

    @pytest.mark.parametrize("source_id", ["unknown", "nvd"])
    def test_a_failed_removal_is_reported(self, access: CallerAccess, source_id: str) -> None:
        with pytest.raises(InvalidInputError, match=source_id):
            access.call(remove_source, RemoveSource(source_id=source_id))

    def test_a_wrong_definition_is_refused(self, access: CallerAccess) -> None:
        definition = {"kind": "carrier-pigeon", "category": "runbooks"}
        with pytest.raises(InvalidInputError, match="unknown kind"):
            access.call(register_source, RegisterSource(source_id="x", definition=definition))


def sources(access: CallerAccess) -> tuple[SourceView, ...]:
    return access.call(list_sources, ListSources()).sources


class TestLocalSources(SourcesContract):
    @pytest.fixture
    def access(self, services: System) -> Iterator[CallerAccess]:
        with services:
            yield local_access(services, Identity())


class TestRemoteSources(SourcesContract):
    @pytest.fixture
    def access(self, services: System) -> Iterator[CallerAccess]:
        with services, remote_access(services, {"scope": "opx/admin"}) as access:
            yield access

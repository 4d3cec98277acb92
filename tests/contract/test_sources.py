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
from tests.contract.seats import Seat, local_seat, remote_seat
from tests.support.cli_support import word_services


class SourcesContract:
    """Subclasses provide the fixture `seat`: the installation's administrator as a caller of the system `services`."""

    @pytest.fixture
    def services(self, tmp_path: Path) -> System:
        return word_services(Settings(home=str(tmp_path / "home")))

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "docs").mkdir()
        return tmp_path / "docs"

    def registered(self, seat: Seat, folder: Path) -> None:
        given = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": str(folder)}}
        definition = {**given, "schedule": "0 4 * * *", "time_zone": "Europe/Vienna"}
        seat.call(register_source, RegisterSource(source_id="notes", definition=definition))

    def test_a_registered_source_is_listed_as_it_was_registered(self, seat: Seat, folder: Path) -> None:
        self.registered(seat, folder)
        (view,) = [view for view in sources(seat) if view.source_id == "notes"]
        assert (view.kind, view.category, view.schedule, view.time_zone) == (
            "directory",
            "runbooks/procedures",
            "0 4 * * *",
            "Europe/Vienna",
        )
        assert (view.enabled, view.declared, view.state.last_success) == (True, False, "")

    def test_declared_sources_are_listed_too(self, seat: Seat) -> None:
        assert [view.source_id for view in sources(seat) if view.declared]

    def test_a_pull_shows_in_the_sources_state(self, seat: Seat, folder: Path) -> None:
        self.registered(seat, folder)
        (folder / "a.md").write_text("# A\n\ntext\n")
        (folder / "b.md").write_bytes(b"x" * 10)
        (folder / "b.md").chmod(0o644)
        seat.call(pull_source, PullSource(source_id="notes"))
        seat.work([])
        (view,) = [view for view in sources(seat) if view.source_id == "notes"]
        assert (view.state.put, view.state.unchanged, view.state.withdrawn, view.state.error) == (2, 0, 0, "")
        assert view.state.last_success

    def test_a_failed_pull_has_its_error_in_the_state(self, seat: Seat, folder: Path) -> None:
        self.registered(seat, folder)
        folder.rmdir()
        seat.call(pull_source, PullSource(source_id="notes"))
        (view,) = [view for view in sources(seat) if view.source_id == "notes"]
        assert "not a directory" in view.state.error

    def test_health_is_checked(self, seat: Seat, folder: Path) -> None:
        self.registered(seat, folder)
        health = seat.call(check_source, CheckSource(source_id="notes")).health
        assert health
        assert (health.ok, health.reason) == (True, "")

    def test_missing_documents_are_accepted_on_request(self, seat: Seat, folder: Path) -> None:
        self.registered(seat, folder)
        for name in "ab":
            (folder / f"{name}.md").write_text(f"# {name}\n\ntext\n")
        seat.call(pull_source, PullSource(source_id="notes"))
        (folder / "a.md").unlink()
        seat.call(pull_source, PullSource(source_id="notes"))
        assert "misses 1 of 2" in self.state(seat).flag
        seat.call(pull_source, PullSource(source_id="notes", accept_missing=True))
        assert (self.state(seat).withdrawn, self.state(seat).flag) == (1, "")

    def state(self, seat: Seat) -> Standing:
        (view,) = [view for view in sources(seat) if view.source_id == "notes"]
        return view.state

    def test_a_removed_source_is_gone(self, seat: Seat, folder: Path) -> None:
        self.registered(seat, folder)
        seat.call(remove_source, RemoveSource(source_id="notes"))
        assert "notes" not in [view.source_id for view in sources(seat)]

    @pytest.mark.parametrize("source_id", ["unknown", "nvd"])
    def test_a_failed_removal_is_reported(self, seat: Seat, source_id: str) -> None:
        with pytest.raises(InvalidInputError, match=source_id):
            seat.call(remove_source, RemoveSource(source_id=source_id))

    def test_a_wrong_definition_is_refused(self, seat: Seat) -> None:
        definition = {"kind": "carrier-pigeon", "category": "runbooks"}
        with pytest.raises(InvalidInputError, match="unknown kind"):
            seat.call(register_source, RegisterSource(source_id="x", definition=definition))


def sources(seat: Seat) -> tuple[SourceView, ...]:
    return seat.call(list_sources, ListSources()).sources


class TestLocalSources(SourcesContract):
    @pytest.fixture
    def seat(self, services: System) -> Iterator[Seat]:
        with services:
            yield local_seat(services, Identity())


class TestRemoteSources(SourcesContract):
    @pytest.fixture
    def seat(self, services: System) -> Iterator[Seat]:
        with services, remote_seat(services, {"scope": "opx/admin"}) as seat:
            yield seat

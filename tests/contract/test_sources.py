"""Sources of a knowledge base in this process, and of one that is asked over HTTP, are the same to their caller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.remote.connections import Connections
from opx.adapters.remote.http import bearer
from opx.adapters.remote.knowledge_base import RemoteKnowledgeBase
from opx.domain.scopes import Identity
from opx.errors import InvalidInputError
from opx.knowledge_base import KnowledgeBase, no_progress
from opx.local_knowledge_base import LocalKnowledgeBase
from opx.services import Services
from opx.settings import Settings
from opx.sources.states import Standing
from tests.doubles.api_gateway import DeployedSystem
from tests.unit.cli_support import word_services


class SourcesContract:
    """Subclasses give the fixture `base`, a knowledge base over `services` for the installation's administrator."""

    @pytest.fixture
    def services(self, tmp_path: Path) -> Services:
        return word_services(Settings(home=str(tmp_path / "home")))

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "docs").mkdir()
        return tmp_path / "docs"

    def registered(self, base: KnowledgeBase, folder: Path) -> None:
        given = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": str(folder)}}
        base.register_source("notes", {**given, "schedule": "0 4 * * *", "time_zone": "Europe/Vienna"})

    def test_a_registered_source_is_listed_as_it_was_registered(self, base: KnowledgeBase, folder: Path) -> None:
        self.registered(base, folder)
        (view,) = [view for view in base.sources() if view.source_id == "notes"]
        assert (view.kind, view.category, view.schedule, view.time_zone) == (
            "directory",
            "runbooks/procedures",
            "0 4 * * *",
            "Europe/Vienna",
        )
        assert (view.enabled, view.declared, view.state.last_success) == (True, False, "")

    def test_declared_sources_are_listed_too(self, base: KnowledgeBase) -> None:
        assert [view.source_id for view in base.sources() if view.declared]

    def test_a_pull_shows_in_the_sources_state(self, base: KnowledgeBase, folder: Path) -> None:
        self.registered(base, folder)
        (folder / "a.md").write_text("# A\n\ntext\n")
        (folder / "b.md").write_bytes(b"x" * 10)
        (folder / "b.md").chmod(0o644)
        base.pull_source("notes")
        list(base.work([], no_progress))
        (view,) = [view for view in base.sources() if view.source_id == "notes"]
        assert (view.state.put, view.state.unchanged, view.state.withdrawn, view.state.error) == (2, 0, 0, "")
        assert view.state.last_success

    def test_a_pull_that_fails_says_why_in_the_state(self, base: KnowledgeBase, folder: Path) -> None:
        self.registered(base, folder)
        folder.rmdir()
        base.pull_source("notes")
        (view,) = [view for view in base.sources() if view.source_id == "notes"]
        assert "no directory" in view.state.error

    def test_health_is_asked_for(self, base: KnowledgeBase, folder: Path) -> None:
        self.registered(base, folder)
        health = base.source_health("notes").health
        assert health
        assert (health.ok, health.reason) == (True, "")

    def test_missing_documents_are_accepted_when_it_is_said(self, base: KnowledgeBase, folder: Path) -> None:
        self.registered(base, folder)
        for name in "ab":
            (folder / f"{name}.md").write_text(f"# {name}\n\ntext\n")
        base.pull_source("notes")
        (folder / "a.md").unlink()
        base.pull_source("notes")
        assert "misses 1 of 2" in self.state(base).flag
        base.pull_source("notes", accept_missing=True)
        assert (self.state(base).withdrawn, self.state(base).flag) == (1, "")

    def state(self, base: KnowledgeBase) -> Standing:
        (view,) = [view for view in base.sources() if view.source_id == "notes"]
        return view.state

    def test_a_removed_source_is_gone(self, base: KnowledgeBase, folder: Path) -> None:
        self.registered(base, folder)
        base.remove_source("notes")
        assert "notes" not in [view.source_id for view in base.sources()]

    @pytest.mark.parametrize("source_id", ["unknown", "nvd"])
    def test_what_can_not_be_removed_is_told(self, base: KnowledgeBase, source_id: str) -> None:
        with pytest.raises(InvalidInputError, match=source_id):
            base.remove_source(source_id)

    def test_a_wrong_definition_is_refused(self, base: KnowledgeBase) -> None:
        with pytest.raises(InvalidInputError, match="unknown kind"):
            base.register_source("x", {"kind": "carrier-pigeon", "category": "runbooks"})


class TestLocalSources(SourcesContract):
    @pytest.fixture
    def base(self, services: Services) -> Iterator[LocalKnowledgeBase]:
        with services:
            yield LocalKnowledgeBase(services, Identity())


class TestRemoteSources(SourcesContract):
    @pytest.fixture
    def base(self, services: Services) -> Iterator[RemoteKnowledgeBase]:
        with services, DeployedSystem(services, tokens={"token": {"scope": "opx/admin"}}) as system:
            base = RemoteKnowledgeBase(system.endpoint, bearer("token"), Connections(), pause=lambda seconds: None)
            yield base
            base.close()

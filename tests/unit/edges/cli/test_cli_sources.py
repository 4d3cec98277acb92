"""`opx source`, `opx secret` and `opx run`, and the same through the manager."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.domain.sources import SourceDocument
from opx.errors import InvalidInputError, OpxError, SecretNotFoundError
from opx.ingestion.events import Result
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_streams import capability
from tests.support.cli_support import Opx
from tests.support.fakes import WordsEmbedder

ADD = ("source", "add", "notes", "--kind", "directory", "--category", "runbooks", "--schedule", "0 * * * *")


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    (tmp_path / "docs").mkdir()
    return Opx(tmp_path)


def added(opx: Opx) -> Opx:
    result = opx(*ADD, "--option", f"path={opx.folder / 'docs'}")
    assert result.exit_code == 0, result.output
    return opx


class TestSources:
    def test_an_added_source_is_pulled_and_what_it_brings_is_found(self, opx: Opx) -> None:
        opx.write("disk.md", "# Disk full\n\nDelete rotated logs.\n")
        result = added(opx)("source", "pull", "notes")
        assert (result.exit_code, "done: 1 put" in result.output) == (0, True)
        assert "Disk full" in opx("list").output

    def test_deleted_and_renamed_files_follow(self, opx: Opx) -> None:
        for name in "abcdef":
            opx.write(f"{name}.md", f"# Page {name}\n\nText of {name}.\n")
        added(opx)("source", "pull", "notes")
        (opx.folder / "docs" / "a.md").rename(opx.folder / "docs" / "z.md")
        assert "1 put, 5 unchanged, 1 withdrawn" in opx("source", "pull", "notes").output
        assert opx("list").output.count("Page a") == 1

    def test_a_source_that_lost_too_much_is_reported_as_failed(self, opx: Opx) -> None:
        for name in "abc":
            opx.write(f"{name}.md", f"# Page {name}\n\nText.\n")
        added(opx)("source", "pull", "notes")
        for name in "ab":
            (opx.folder / "docs" / f"{name}.md").unlink()
        result = opx("source", "pull", "notes")
        assert (result.exit_code, "misses 2 of 3 documents" in result.output) == (1, True)
        assert "misses 2 of 3" in opx("source", "list").output
        assert "2 withdrawn" in opx("source", "pull", "notes", "--accept-missing").output

    def test_health_reports_the_problem_of_a_source(self, opx: Opx) -> None:
        added(opx)
        assert opx("source", "health", "notes").output.strip() == "notes: ok"
        (opx.folder / "docs").rmdir()
        result = opx("source", "health", "notes")
        assert (result.exit_code, "not a directory" in result.output) == (1, True)

    def test_a_trial_prints_documents_and_adds_nothing(self, opx: Opx) -> None:
        opx.write("disk.md", "# Disk full\n\nDelete rotated logs.\n")
        result = opx(*ADD, "--option", f"path={opx.folder / 'docs'}", "--try")
        assert (result.exit_code, "disk.md" in result.output) == (0, True)
        failed = opx(*ADD, "--option", f"path={opx.folder / 'none'}", "--try")
        assert (failed.exit_code, "mount it, or correct the path" in failed.output) == (1, True)
        assert opx("source", "show", "notes").exit_code != 0

    def test_a_source_is_paused_and_resumed(self, opx: Opx) -> None:
        added(opx)
        assert opx("source", "pause", "notes").output.startswith("paused notes")
        assert "disabled" in opx("source", "show", "notes").output
        assert opx("source", "resume", "notes").output.startswith("resumed notes")
        assert "disabled" not in opx("source", "show", "notes").output

    def test_kinds_are_listed_with_their_options(self, opx: Opx) -> None:
        output = opx("source", "kinds").output
        assert "directory: files of a directory of this machine" in output
        assert "path*, pattern, max_bytes" in output

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (("source", "add", "x", "--kind", "y", "--category", "runbooks"), "unknown kind of source"),
            (("source", "add", "x", "--kind", "directory", "--category", "runbooks"), "'path' is needed"),
            (("source", "add", "x", "--kind", "directory", "--category", "runbooks", "--option", "p"), "NAME=VALUE"),
            (("source", "pull", "x"), "no source 'x'"),
            (("source", "remove", "nvd"), "declared in knowledge.yaml"),
            (("source", "show", "x"), "no source 'x'"),
        ],
    )
    def test_invalid_use_is_reported(self, opx: Opx, arguments: tuple[str, ...], problem: str) -> None:
        result = opx(*arguments)
        assert (result.exit_code, problem in result.output) == (2, True)

    def test_run_once_does_the_due_work_and_exits(self, opx: Opx) -> None:
        opx.write("disk.md", "# Disk full\n\nDelete rotated logs.\n")
        result = added(opx)("run", "--once")
        assert (result.exit_code, "source notes: done: 1 put" in result.output) == (0, True)
        assert "Disk full" in opx("list").output


class TestSecrets:
    def test_a_secret_is_kept_where_its_owner_alone_reads_it(self, opx: Opx) -> None:
        assert opx("secret", "set", "token", stdin="s3cret\n").exit_code == 0
        path = opx.home / "secrets.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert opx("secret", "list").output == "token\n"
        with bootstrap(Settings(home=str(opx.home))) as services:
            assert services.ports.secrets.get("token") == "s3cret"

    def test_a_removed_secret_is_gone(self, opx: Opx) -> None:
        opx("secret", "set", "token", stdin="s3cret\n")
        opx("secret", "remove", "token")
        with (
            bootstrap(Settings(home=str(opx.home))) as services,
            pytest.raises(SecretNotFoundError, match="opx secret set"),
        ):
            services.ports.secrets.get("token")

    def test_the_environment_has_those_that_the_file_lacks(self, opx: Opx, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BRAVE_KEY", "from outside")
        with bootstrap(Settings(home=str(opx.home))) as services:
            assert services.ports.secrets.get("BRAVE_KEY") == "from outside"

    def test_a_file_that_others_can_read_is_refused(self, opx: Opx) -> None:
        opx("secret", "set", "token", stdin="s3cret\n")
        (opx.home / "secrets.json").chmod(0o644)
        result = opx("secret", "list")
        assert (result.exit_code, "chmod 600" in result.output) == (2, True)

    def test_an_empty_value_is_no_secret(self, opx: Opx) -> None:
        assert opx("secret", "set", "token", stdin="\n").exit_code == 2


class Guide:
    """A source of one document, as a program around the library brings it."""

    name = "guide"
    tier = Tier.SPECIALIZED

    def fetch(self, since: datetime | None = None) -> Iterator[SourceDocument]:
        yield SourceDocument("one", "# Guide\n\ntext\n")

    def health_check(self) -> bool:
        return True


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with bootstrap(Settings(home=str(tmp_path / "home")), embedder=WordsEmbedder()) as made:
        yield made


class TestManager:
    def test_a_source_that_fetches_by_itself_is_pulled(self, services: System) -> None:
        source_id = services.manager.register_source(Guide(), "0 4 * * *", "specialized", "vendor/linux")
        result = services.manager.pull_now(source_id)
        assert (source_id, result.count(Result.INGESTED), result.chunks) == ("guide", 1, 1)

    def test_a_source_that_is_described_is_kept(self, services: System, tmp_path: Path) -> None:
        (tmp_path / "a.md").write_text("# A\n\ntext\n")
        given = {"name": "files", "kind": "directory", "options": {"path": str(tmp_path)}}
        source_id = services.manager.register_source(given, "0 4 * * *", "internal", "runbooks/procedures")
        assert services.connectors.sources.get(source_id).schedule == "0 4 * * *"
        assert services.manager.pull_now(source_id).count(Result.INGESTED) == 1

    def test_a_category_of_another_tier_is_refused(self, services: System) -> None:
        with pytest.raises(InvalidInputError, match="is of tier specialized"):
            services.manager.register_source(Guide(), "0 4 * * *", "internal", "vendor/linux")

    def test_a_source_that_fails_is_raised(self, services: System, tmp_path: Path) -> None:
        given = {"name": "files", "kind": "directory", "options": {"path": str(tmp_path / "gone")}}
        source_id = services.manager.register_source(given, "", "internal", "runbooks/procedures")
        with pytest.raises(OpxError, match="not a directory"):
            services.manager.pull_now(source_id)

    def test_watched_directory_is_ingested_and_followed(self, services: System, tmp_path: Path) -> None:
        folder = tmp_path / "runbooks"
        folder.mkdir()
        (folder / "a.md").write_text("# A\n\ntext\n")
        (folder / "a.bin").write_text("not wanted")
        watch_id = services.manager.watch_directory(str(folder), "internal", "runbooks/procedures")
        list(services.manager.work())
        (folder / "b.md").write_text("# B\n\ntext\n")
        services.manager.pull_now(watch_id)
        titles = sorted(document.title for document in services.corpus.catalog.in_category("runbooks/procedures"))
        assert titles == ["A", "B"]

    def test_webhooks_of_a_category_have_an_address(self, services: System) -> None:
        endpoint = services.manager.get_webhook_endpoint("internal", "operations/alerts")
        assert endpoint == "http://127.0.0.1:8321/ingest/internal/operations/alerts"
        services.installation.settings = replace(services.settings, webhook_url="https://hooks.example.org/")
        manager = services.ingestion.manager_of(services.installation.scope, services.connectors.ways_in)
        endpoint = manager.get_webhook_endpoint("internal", "operations/alerts")
        assert endpoint == "https://hooks.example.org/ingest/internal/operations/alerts"

    def test_a_webhook_of_another_tier_is_refused(self, services: System) -> None:
        with pytest.raises(InvalidInputError, match="is of tier internal"):
            services.manager.get_webhook_endpoint("internet", "operations/alerts")

    def test_a_stream_is_subscribed_to_once(self, services: System) -> None:
        subscribe = services.manager.subscribe_stream
        stream = "redis://127.0.0.1:6379/0#incidents"
        wanted = {"severity": ["critical"]}
        first = subscribe(stream, "internal", "operations/incidents", wanted)
        assert subscribe(stream, "internal", "operations/incidents", wanted) == first
        (known,) = [one for one in services.part(capability.StreamIngestion).repository.all() if one.name == first]
        assert (known.topic, known.pattern) == ("incidents", wanted)

    def test_a_scope_of_a_client_has_no_sources_of_its_own(self, services: System) -> None:
        from opx.domain.scopes import Scope

        manager = services.ingestion.manager_of(Scope("acme"))
        with pytest.raises(InvalidInputError, match="whole installation"):
            manager.pull_now("nvd")

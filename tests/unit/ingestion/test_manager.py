"""The ways in, on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from opx.domain.ids import document_id
from opx.domain.scopes import Scope
from opx.errors import DocumentNotFoundError, InvalidInputError, UnknownCategoryError, UnparsableDocumentError
from opx.ingestion import reading
from opx.ingestion.events import EventOutcome, Result
from opx.ingestion.files import FileToIngest, plan_files
from opx.ingestion.manager import IngestionManager
from opx.lifecycle.versions.differences import Restorer
from opx.operations.system import System
from opx.ports import SearchFilter
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.archive_support import tagged
from tests.support.fakes import WordsEmbedder

EVERYONE = SearchFilter(scopes=("global",))
INCIDENT = {"title": "Outage", "content": "The database was down."}


def opened(home: Path, **settings: Any) -> System:
    return bootstrap(Settings(home=str(home), retry_base_seconds=0.0, **settings), embedder=WordsEmbedder())


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with opened(tmp_path / "home") as made:
        yield made


@pytest.fixture
def manager(services: System) -> IngestionManager:
    return services.manager


class TestIngestDocument:
    def test_text_gives_the_id_of_a_searchable_document(self, services: System, manager: IngestionManager) -> None:
        document_id = manager.ingest_document("internal", "runbooks/procedures", "# Disk\n\ntext\n", {"tags": ["a"]})
        (document,) = services.corpus.catalog.find(document_id)
        assert (document.title, document.tags, document.state) == ("Disk", ("a",), "current")
        assert services.index.count(EVERYONE) == 1

    @pytest.mark.parametrize(
        ("text", "facts", "title"),
        [
            ("The replica lags behind.\nRestart it. Then wait.\n", {}, "The replica lags behind"),
            ("## Symptoms\n\n- **Disk** is\n  full on `db-1`.\n", {}, "Disk is full on db-1"),
            ("word " * 100, {}, "word " * 23 + "word…"),
            ("```\n---\n```\n", {}, "Without a title"),
            ("Text.", {"source": "sources/kev/cve-50~"}, "cve 50"),
            ("All is well.", {"source": "sources/feed/https:/host/04919336e3d4a1b2c3d4e5f6~"}, "All is well"),
            ("Text.", {"source": "sources/pages/disk-full.md"}, "disk full"),
        ],
    )
    def test_a_text_without_a_title_has_that_of_its_name_or_its_first_sentence(
        self, services: System, manager: IngestionManager, text: str, facts: dict[str, Any], title: str
    ) -> None:
        (document,) = services.corpus.catalog.find(
            manager.ingest_document("internal", "runbooks/procedures", text, facts)
        )
        assert document.title == title

    def test_the_id_of_a_text_without_a_title_is_as_before(self, services: System, manager: IngestionManager) -> None:
        """Made from the name of its object, which was its title."""
        found = manager.ingest_document("internal", "runbooks/procedures", "The replica lags.\n")
        (document,) = services.corpus.catalog.find(found)
        name = PurePosixPath(document.source).stem
        assert found == document_id(name, "runbooks/procedures", document.content_hash)

    def test_a_title_of_an_earlier_version_is_replaced_when_the_document_comes_again(
        self, services: System, manager: IngestionManager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(reading, "readable", lambda title, _: title)
            first = manager.ingest_document("internal", "runbooks/procedures", "The replica lags.\n")
        (before,) = services.corpus.catalog.find(first)
        assert before.title in before.source
        assert manager.ingest_document("internal", "runbooks/procedures", "The replica lags.\n") == first
        (document,) = services.corpus.catalog.find(first)
        assert (document.title, document.version) == ("The replica lags", 1)

    def test_a_restored_version_has_its_id_and_its_title_again(
        self, services: System, manager: IngestionManager
    ) -> None:
        first, second = (
            manager.ingest_document("internal", "runbooks/procedures", text, {"source": "x/0123456789abcdef0123"})
            for text in ("The replica lags.\n", "The replica is gone.\n")
        )
        (old,) = services.corpus.catalog.find(first)
        Restorer(store=services.store, writer=manager, past=None).restore(old)
        list(manager.work())
        current = [one for one in services.corpus.catalog.find(first) if one.state == "current"]
        assert [(one.title, one.document_id != second) for one in current] == [("The replica lags", True)]

    def test_mapping_is_read_as_a_record_of_its_category(self, services: System, manager: IngestionManager) -> None:
        document_id = manager.ingest_document("internal", "operations/incidents", INCIDENT)
        (document,) = services.corpus.catalog.find(document_id)
        assert (document.title, document.category) == ("Outage", "operations/incidents")

    def test_same_document_again_has_the_same_id_and_version(self, services: System, manager: IngestionManager) -> None:
        ids = {manager.ingest_document("internal", "runbooks/procedures", "# Disk\n\ntext\n") for _ in range(2)}
        (document,) = services.corpus.catalog.find(ids.pop())
        assert (ids, document.version) == (set(), 1)

    def test_source_stays_when_the_document_changes(self, services: System, manager: IngestionManager) -> None:
        for text in ("one", "two"):
            manager.ingest_document("internal", "runbooks/procedures", f"# Disk\n\n{text}\n", {"source": "disk"})
        (document,) = services.corpus.catalog.in_category("runbooks/procedures")
        assert (document.version, document.key.source) == (2, "documents/runbooks/procedures/disk.md")

    def test_document_that_comes_back_after_its_deletion_has_an_id(
        self, services: System, manager: IngestionManager
    ) -> None:
        document_id = manager.ingest_document("internal", "runbooks/procedures", "# Disk\n\ntext\n")
        manager.delete(document_id)
        list(manager.work())
        assert manager.ingest_document("internal", "runbooks/procedures", "# Disk\n\ntext\n") == document_id

    def test_category_of_another_tier_is_refused(self, manager: IngestionManager) -> None:
        with pytest.raises(InvalidInputError, match="is of tier internal, not 'internet'"):
            manager.ingest_document("internet", "runbooks/procedures", "text")

    def test_unknown_category_is_refused(self, manager: IngestionManager) -> None:
        with pytest.raises(UnknownCategoryError):
            manager.ingest_document("internal", "nope", "text")

    def test_unreadable_document_is_raised_after_the_rest_is_done(
        self, services: System, manager: IngestionManager
    ) -> None:
        manager.put_document("runbooks/procedures", "---\ncreated: never\n---\n# Bad\n\ntext\n", {})
        manager.put_document("runbooks/procedures", "# Good\n\ntext\n", {})
        with pytest.raises(UnparsableDocumentError, match="nothing but white space"):
            manager.ingest_document("internal", "runbooks/procedures", "   ")
        assert services.queue.waiting() == 0
        assert services.index.count(EVERYONE) == 1

    @pytest.mark.parametrize("document", [{"at": object()}, {"a": {1, 2}}, "\ud800", {"a": "\ud800"}])
    def test_document_that_cannot_be_serialised_is_refused(
        self, services: System, manager: IngestionManager, document: Any
    ) -> None:
        with pytest.raises(InvalidInputError):
            manager.ingest_document("internal", "operations/incidents", document)
        assert list(services.store.list()) == []

    @pytest.mark.parametrize("name", ["a.md.metadata.json", "../../other", "a//b"])
    def test_name_that_no_document_can_have_is_refused(self, manager: IngestionManager, name: str) -> None:
        with pytest.raises(InvalidInputError):
            manager.ingest_document("internal", "runbooks/procedures", "text", {"source": name})

    def test_record_with_another_suffix_is_still_a_record(self, services: System, manager: IngestionManager) -> None:
        document_id = manager.ingest_document("internal", "operations/incidents", INCIDENT, {"source": "outage.md"})
        (document,) = services.corpus.catalog.find(document_id)
        assert document.title == "Outage"

    def test_without_a_worker_the_object_key_is_returned(self, services: System) -> None:
        manager = IngestionManager(
            store=services.store,
            catalog=services.corpus.catalog,
            knowledge=services.installation.knowledge,
            drain=None,
            fingerprint=services.ingestion.pipeline.fingerprint,
            evidence_rules=lambda: services.ingestion.evidence_rules,
        )
        key = manager.ingest_document("internal", "runbooks/procedures", "# Disk\n\ntext\n", {"source": "disk"})
        assert key == "documents/runbooks/procedures/disk.md"
        assert services.queue.waiting() == 1


class TestIngestBatch:
    def test_equal_documents_are_ingested_once(self, services: System, manager: IngestionManager) -> None:
        result = manager.ingest_batch("internal", "runbooks/procedures", ["# A\n\na\n", "# B\n\nb\n", "# A\n\na\n"])
        assert (result.count(Result.INGESTED), len(result.document_ids), result.chunks) == (2, 2, 2)
        assert services.index.count(EVERYONE) == 2

    def test_without_dedupe_every_copy_is_a_document(self, services: System, manager: IngestionManager) -> None:
        documents = ["# A\n\na\n"] * 3 + ["# B\n\nb\n"]
        for _ in range(2):
            manager.ingest_batch("internal", "runbooks/procedures", documents, dedupe=False)
            assert services.index.count(EVERYONE) == 4

    def test_bad_documents_are_failures_and_the_others_are_ingested(
        self, services: System, manager: IngestionManager
    ) -> None:
        result = manager.ingest_batch("internal", "operations/incidents", [INCIDENT, {"a": object()}, " "])
        assert (result.count(Result.INGESTED), len(result.failures)) == (1, 2)
        assert all(outcome.reason for outcome in result.failures)

    def test_other_waiting_documents_are_not_in_the_result(self, manager: IngestionManager) -> None:
        manager.put_document("runbooks/procedures", "# Other\n\ntext\n", {})
        assert len(manager.ingest_batch("internal", "runbooks/procedures", ["# A\n\na\n"]).outcomes) == 1

    def test_empty_batch_has_no_outcomes(self, manager: IngestionManager) -> None:
        assert manager.ingest_batch("internal", "runbooks/procedures", []).outcomes == ()

    def test_wrong_tier_is_refused_before_anything_is_stored(self, services: System, manager: IngestionManager) -> None:
        with pytest.raises(InvalidInputError):
            manager.ingest_batch("internet", "runbooks/procedures", ["a"])
        assert list(services.store.list()) == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    for name in ("b.md", "a.md", "sub/c.txt", ".hidden.md", "a.md.metadata.json"):
        (folder / name).write_text("# T\n\ntext\n")
    (folder / "a.md.metadata.json").write_text('{"metadataAttributes": {"tags": ["x"]}}')
    return folder


class TestPlan:
    def test_files_come_in_a_stable_order_without_hidden_ones_and_sidecars(self, folder: Path) -> None:
        planned = list(plan_files([folder], folder.parent))
        assert [step.source for step in planned if isinstance(step, FileToIngest)] == [
            "docs/a.md",
            "docs/b.md",
            "docs/sub/c.txt",
        ]

    def test_missing_path_is_a_failed_outcome(self, tmp_path: Path) -> None:
        (step,) = plan_files([tmp_path / "nope"], tmp_path)
        assert isinstance(step, EventOutcome)
        assert (step.result, "no such file" in step.reason) == (Result.FAILED, True)

    def test_file_elsewhere_keeps_its_absolute_path(self, folder: Path) -> None:
        (step,) = plan_files([folder / "b.md"], folder / "sub")
        assert isinstance(step, FileToIngest)
        assert step.source == (folder / "b.md").as_posix()


class TestPutFile:
    @pytest.fixture
    def file(self, folder: Path) -> FileToIngest:
        return FileToIngest(folder / "a.md", "docs/a.md")

    def test_new_file_is_stored_with_its_sidecar(
        self, services: System, manager: IngestionManager, file: FileToIngest
    ) -> None:
        assert manager.put_file(file, {}) is None
        list(manager.work())
        (document,) = tagged(services.corpus.catalog, "x")
        assert (document.key.source, document.source_uri) == ("documents/docs/a.md", "docs/a.md")

    def test_same_file_is_unchanged_once_it_is_indexed(self, manager: IngestionManager, file: FileToIngest) -> None:
        assert manager.put_file(file, {}) is None
        assert manager.put_file(file, {}) is None  # stored, but not worked on yet
        list(manager.work())
        outcome = manager.put_file(file, {})
        assert outcome is not None
        assert outcome.result is Result.UNCHANGED
        assert outcome.document_id

    @pytest.mark.parametrize("what", ["text", "sidecar", "no sidecar", "metadata"])
    def test_changed_file_is_stored_again(self, manager: IngestionManager, file: FileToIngest, what: str) -> None:
        sidecar = file.path.with_name("a.md.metadata.json")
        manager.put_file(file, {})
        list(manager.work())
        if what == "text":
            file.path.write_text("# T\n\nother\n")
        elif what == "sidecar":
            sidecar.write_text('{"metadataAttributes": {"tags": ["y"]}}')
        elif what == "no sidecar":
            sidecar.unlink()
        assert manager.put_file(file, {"author": "Ada"} if what == "metadata" else {}) is None

    def test_removed_sidecar_takes_its_tags_along(
        self, services: System, manager: IngestionManager, file: FileToIngest
    ) -> None:
        manager.put_file(file, {})
        list(manager.work())
        file.path.with_name("a.md.metadata.json").unlink()
        manager.put_file(file, {})
        list(manager.work())
        assert list(tagged(services.corpus.catalog, "x")) == []

    def test_object_that_was_stored_without_an_event_is_stored_again(
        self, services: System, manager: IngestionManager, file: FileToIngest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        manager.put_file(file, {})
        list(manager.work())
        file.path.write_text("# T\n\nnew text\n")
        with monkeypatch.context() as crash:
            crash.setattr(services.store, "_enqueue", lambda key, *, deleted: None)
            manager.put_file(file, {})
        assert manager.put_file(file, {}) is None
        list(manager.work())
        assert len(list(services.corpus.catalog.in_category("runbooks/procedures", current_only=False))) == 2

    def test_unchanged_file_is_stored_again_when_the_rules_changed(self, tmp_path: Path, file: FileToIngest) -> None:
        with opened(tmp_path / "home") as services:
            services.manager.put_file(file, {})
            list(services.manager.work())
        with opened(tmp_path / "home", chunk_tokens=100) as services:
            assert services.manager.put_file(file, {}) is None

    def test_unreadable_file_is_a_failed_outcome(self, manager: IngestionManager, folder: Path) -> None:
        outcome = manager.put_file(FileToIngest(folder / "gone.md", "docs/gone.md"), {})
        assert outcome is not None
        assert (outcome.result, "can't read" in outcome.reason) == (Result.FAILED, True)


class TestDelete:
    def test_document_leaves_the_index_with_its_sidecar(
        self, services: System, manager: IngestionManager, folder: Path
    ) -> None:
        manager.put_file(FileToIngest(folder / "a.md", "docs/a.md"), {})
        (outcome,) = [outcome for outcome in manager.work() if outcome.result is Result.INGESTED]
        (document,) = manager.delete(outcome.document_id)
        list(manager.work())
        assert document.key.source == "documents/docs/a.md"
        assert list(services.store.list("documents/")) == []
        assert services.index.count(EVERYONE) == 0

    def test_unknown_document_is_an_error(self, manager: IngestionManager) -> None:
        with pytest.raises(DocumentNotFoundError):
            manager.delete("nope")

    def test_deleted_document_is_not_found_again(self, manager: IngestionManager) -> None:
        document_id = manager.ingest_document("internal", "runbooks/procedures", "# Disk\n\ntext\n")
        manager.delete(document_id)
        list(manager.work())
        with pytest.raises(DocumentNotFoundError):
            manager.delete(document_id)

    def test_same_document_of_another_scope_stays(self, tmp_path: Path) -> None:
        ids = []
        for client in ("acme", "other"):
            with opened(tmp_path / "home", client_id=client) as services:
                ids.append(services.manager.ingest_document("internal", "runbooks/procedures", "# Disk\n\ntext\n"))
        assert ids[0] == ids[1]
        with opened(tmp_path / "home", client_id="acme") as services:
            services.manager.delete(ids[0])
            list(services.manager.work())
            states = {document.key.scope: document.state for document in services.corpus.catalog.find(ids[0])}
            assert states == {Scope("acme"): "deleted", Scope("other"): "current"}
            assert services.index.count(SearchFilter(scopes=("client:other",))) == 1

    def test_document_of_another_scope_cannot_be_deleted(self, tmp_path: Path) -> None:
        with opened(tmp_path / "home", client_id="other") as services:
            document_id = services.manager.ingest_document("internal", "runbooks/procedures", "# Disk\n\ntext\n")
        with opened(tmp_path / "home", client_id="acme") as services, pytest.raises(DocumentNotFoundError):
            services.manager.delete(document_id)

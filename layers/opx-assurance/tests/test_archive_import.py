"""Imports are complete or refused, for any archive and after any interruption."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.adapters.embedded.table import SqliteQueue, SqliteTable
from opx.domain.documents import DocumentKey
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError
from opx.operations.system import System
from opx.ports.tables import LIFECYCLE, TableSpec
from opx_assurance.archive.report import Fate, ImportReport
from opx_assurance.capability import assurance
from opx_testing.fake_time import FakeTime
from tests.support.archive_support import (
    an_archive,
    entries_of,
    everything_in,
    put,
    refused,
    services_at,
)
from tests.support.whole_archive import a_whole_archive, evaluated

PACK = "objects/00001"
ALIASES = "tables/opx-knowledge-aliases.jsonl"
HOLDS = "tables/opx-knowledge-lifecycle.jsonl"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return an_archive(tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """For what changes nothing."""
    with services_at(tmp_path_factory.mktemp("empty")) as services:
        yield services


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with services_at(tmp_path / "to") as services:
        yield services


def versions_of(services: System, source: str, scope: Scope) -> list[tuple[int, str, str]]:
    key = DocumentKey(scope, f"documents/runbooks/procedures/{source}.md")
    found = services.corpus.catalog.versions(key)
    return [
        (one.version, one.state.value, next(services.ingestion.pipeline.read_chunks(key, one.document_id)).content)
        for one in found
    ]


# -- what is there already


def test_system_with_knowledge_is_left_alone_unless_it_is_to_be_merged(services: System, good: Path) -> None:
    put(services, "own", "The auk.")
    assert "--merge" in refused(services, good)
    assert services.part(assurance).importer().run(good, merge=True).documents == {Fate.RESTORED: 2}
    assert versions_of(services, "own", Scope()) == [(1, "current", "# own\n\nThe auk.")]


def test_merge_takes_what_is_newer_and_keeps_what_is_newer_here(tmp_path: Path) -> None:
    """Each document was changed on one side only, or on both, after the archive was made."""
    early, late = FakeTime(), FakeTime()
    late.sleep(5000)
    with services_at(tmp_path / "here", early) as here, services_at(tmp_path / "there", late) as there:
        for services in (here, there):
            put(services, "same", "Of both.")
        put(here, "older", "Of here.")
        put(there, "older", "Of there, later.")
        put(there, "newer", "Of there.")
        there.part(assurance).exporter().write(tmp_path / "x")
        early.sleep(9000)
        put(here, "newer", "Of here, latest.")
        dry = here.part(assurance).importer().run(tmp_path / "x", merge=True, dry_run=True)
        report = here.part(assurance).importer().run(tmp_path / "x", merge=True)
        expected = {Fate.SAME: 1, Fate.REPLACED: 1, Fate.KEPT: 1}
        assert dry.documents == report.documents == expected
        older = versions_of(here, "older", Scope())
        assert [one[:2] for one in older] == [(2, "current"), (1, "superseded")]
        assert "Of there, later." in older[0][2]
        assert [one[:2] for one in versions_of(here, "newer", Scope())] == [(1, "current")]
        again = here.part(assurance).importer().run(tmp_path / "x", merge=True)
        assert again.documents == {Fate.SAME: 2, Fate.KEPT: 1}
        assert here.part(assurance).reconciler().run().differences == []


def test_dry_run_verifies_and_changes_nothing(empty: System, good: Path) -> None:
    before = everything_in(empty)
    report = empty.part(assurance).importer().run(good, dry_run=True)
    assert report.documents == {Fate.RESTORED: 2}
    assert report.contents["versions"] == 3
    assert everything_in(empty) == before


def test_knowledge_of_a_client_that_was_removed_here_does_not_come_back(services: System, good: Path) -> None:
    put(services, "old", "The puffin.", Scope("acme"))
    services.tenants.offboarding().remove("acme")
    assert "opx client add acme" in refused(services, good, merge=True)
    services.corpus.clients.add("acme")
    assert services.part(assurance).importer().run(good, merge=True).documents == {Fate.RESTORED: 2}


def test_export_never_replaces_a_file(services: System, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(InvalidInputError, match="exists"):
        services.part(assurance).exporter().write(tmp_path / "x")
    with pytest.raises(InvalidInputError, match="can't be written"):
        services.part(assurance).exporter().write(tmp_path / "nowhere" / "x")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["x"]


def test_archive_is_its_owners_alone_and_has_no_secrets(services: System, tmp_path: Path) -> None:
    services.ports.secrets.put("token", "hunter2")  # type: ignore[attr-defined]
    put(services, "one", "The heron.")
    services.questions.for_reader().query("heron")
    services.part(assurance).exporter().write(tmp_path / "x")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600
    found = entries_of(tmp_path / "x")
    assert not [name for name, data in found.items() if b"hunter2" in data or b"#installation" in data]
    services.part(assurance).exporter().write(tmp_path / "y", audit=True)
    assert b"#installation" in entries_of(tmp_path / "y")["tables/installation-key.jsonl"]


def test_objects_that_were_not_ingested_yet_are_restored_too(tmp_path: Path, services: System) -> None:
    with services_at(tmp_path / "from") as source:
        source.manager.put_document("runbooks/procedures", "# Waiting\n\nThe ibis.", {"source": "waiting"})
        source.part(assurance).exporter().write(tmp_path / "x")
    assert services.part(assurance).importer().run(tmp_path / "x").documents == {Fate.RESTORED: 1}
    assert versions_of(services, "waiting", Scope()) == [(1, "current", "# Waiting\n\nThe ibis.")]


# -- interrupted


class EndedHereError(BaseException):
    """The process ends here."""


def ends_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[str]:
    """Let every write count, and the one with this number never come."""
    writes: list[str] = []

    def counted(kind: Any, name: str) -> None:
        original = getattr(kind, name)

        def write(self: Any, *given: Any, **named: Any) -> Any:
            writes.append(f"{kind.__name__}.{name}")
            if len(writes) == number:
                raise EndedHereError
            return original(self, *given, **named)

        monkeypatch.setattr(kind, name, write)

    for kind, names in (
        (SqliteTable, ("put", "put_many", "delete")),
        (FolderObjectStore, ("put",)),
        (SqliteQueue, ("send",)),
    ):
        for name in names:
            counted(kind, name)
    return writes


def test_import_that_ends_at_any_write_is_completed_by_the_next(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(home: Path, ends: int) -> tuple[int, ImportReport | None]:
        with services_at(home) as services, monkeypatch.context() as patch:
            writes = ends_at(patch, ends)
            try:
                return len(writes), services.part(assurance).importer().run(good)
            except EndedHereError:
                return len(writes), None
            finally:
                whole[home] = len(writes)

    whole: dict[Path, int] = {}
    _, report = run(tmp_path / "whole", 0)
    assert report
    with services_at(tmp_path / "whole") as services:
        expected = [versions_of(services, "two", Scope("acme")), versions_of(services, "one", Scope())]
    total = whole[tmp_path / "whole"]
    for ends in range(1, total + 1, max(1, total // 4)):
        home = tmp_path / f"to{ends}"
        assert run(home, ends)[1] is None
        with services_at(home) as services:
            assert services.part(assurance).importer().run(good).failed == 0
            assert [versions_of(services, "two", Scope("acme")), versions_of(services, "one", Scope())] == expected
            assert services.part(assurance).reconciler().run().differences == []
            assert [item["state"] for item in services.tables.table(LIFECYCLE).query("import")] == ["done"]
        shutil.rmtree(home)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another archive."""
    with services_at(tmp_path / "from") as source:
        put(source, "x", "The ibis.")
        source.part(assurance).exporter().write(tmp_path / "other")
    return tmp_path / "other"


@pytest.fixture
def cut_short(services: System, good: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    """A system in which the import of `good` was interrupted."""
    with monkeypatch.context() as patch:
        ends_at(patch, 12)
        with pytest.raises(EndedHereError):
            services.part(assurance).importer().run(good)
    return services


def test_another_archive_waits_until_an_import_is_finished(good: Path, other: Path, cut_short: System) -> None:
    assert "is not finished" in refused(cut_short, other, merge=True)
    cut_short.part(assurance).importer().run(good)
    assert cut_short.part(assurance).importer().run(other, merge=True).documents == {Fate.RESTORED: 1}


def test_an_import_whose_archive_is_lost_is_given_up_once_the_stores_agree(other: Path, cut_short: System) -> None:
    assert cut_short.part(assurance).reconciler().run(repair=True).given_up == 1
    assert cut_short.part(assurance).importer().run(other, merge=True).documents == {Fate.RESTORED: 1}
    assert cut_short.part(assurance).reconciler().run().differences == []


def test_every_table_is_kept_or_known_to_be_made_anew() -> None:
    """A new table is to be decided on."""
    from opx.ports.tables import (
        ALL_TABLES,
        ANNOUNCEMENTS,
        CALENDAR,
        DELIVERIES,
        DOCUMENTS,
        EMBEDDINGS,
        ENTRIES,
        FAILURES,
        GRAPH,
        IDEMPOTENCY,
        KEYS,
        WEB_CACHE,
    )
    from opx_assurance.archive.exporting import ARCHIVED

    # Announcements are of events that another installation's bucket sent; importing sends its own.
    made_anew: list[TableSpec] = [
        ANNOUNCEMENTS,
        CALENDAR,
        EMBEDDINGS,
        ENTRIES,
        FAILURES,
        GRAPH,
        IDEMPOTENCY,
        DELIVERIES,
        WEB_CACHE,
    ]
    with_documents = [DOCUMENTS, KEYS]
    kept = [table.spec for table in ARCHIVED]
    assert {spec.name for spec in ALL_TABLES} == {spec.name for spec in (*made_anew, *with_documents, *kept)}


def test_evaluations_canaries_and_marks_of_contradictions_come_back(services: System, tmp_path: Path) -> None:
    archive = a_whole_archive(tmp_path)
    services.part(assurance).importer().run(archive)
    found = evaluated(services)
    with services_at(tmp_path / "from") as before:
        assert found == evaluated(before)
    assert [len(found[name]) for name in ("questions", "runs", "marks")] == [2, 1, 1]
    assert found["runs"][0][0].state == "done"
    assert all(one.results for one in found["canaries"].canaries)


def test_a_missing_chunk_file_is_noted_in_the_report(services: System, tmp_path: Path) -> None:
    put(services, "one", "The heron.")
    put(services, "one", "The egret.")
    key = DocumentKey(Scope(), "documents/runbooks/procedures/one.md")
    old = list(services.corpus.catalog.versions(key))[-1]
    services.store.delete(f"chunks/{old.document_id}.jsonl")
    assert "chunk files of 1 versions are missing" in str(
        services.part(assurance).exporter().write(tmp_path / "x").notes
    )

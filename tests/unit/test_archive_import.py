"""Archives are taken in whole or not at all, whatever is in them and whenever it ends."""

from __future__ import annotations

import json
import random
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.adapters.embedded.queue import SqliteQueue
from opx.adapters.embedded.table import SqliteTable
from opx.domain.documents import DocumentKey
from opx.domain.scopes import Scope
from opx.errors import ArchiveError, InvalidInputError
from opx.lifecycle.archive import ENTRIES, MANIFEST, ArchiveReader
from opx.lifecycle.archive_contents import ArchiveContents
from opx.lifecycle.exporting import DOCUMENT_LINES, FILE_LINES, VERSION_LINES, Exporter
from opx.lifecycle.importing import Fate, Importer, ImportReport
from opx.lifecycle.reconcile import Reconciler
from opx.services import Services
from opx.tables import LIFECYCLE, TableSpec
from opx.tenants.offboarding import Offboarding
from tests.doubles.fake_time import FakeTime
from tests.unit.archive_support import (
    Entries,
    an_archive,
    changed_line,
    entries_of,
    everything_in,
    put,
    resealed,
    services_at,
    write,
)

PACK = "objects/00001"
ALIASES = "tables/opx-knowledge-aliases.jsonl"
HOLDS = "tables/opx-knowledge-lifecycle.jsonl"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return an_archive(tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="module")
def entries(good: Path) -> Entries:
    return entries_of(good)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """For what changes nothing."""
    with services_at(tmp_path_factory.mktemp("empty")) as services:
        yield services


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    with services_at(tmp_path / "to") as services:
        yield services


def versions_of(services: Services, source: str, scope: Scope) -> list[tuple[int, str, str]]:
    key = DocumentKey(scope, f"documents/runbooks/procedures/{source}.md")
    found = services.catalog.versions(key)
    return [
        (one.version, one.state.value, next(services.pipeline.read_chunks(key, one.document_id)).content)
        for one in found
    ]


# -- what is refused


def refused(services: Services, path: Path, **options: Any) -> str:
    """Why, and that nothing was changed."""
    before = everything_in(services)
    with pytest.raises(ArchiveError) as caught:
        Importer(services).run(path, **options)
    assert everything_in(services) == before
    return str(caught.value)


def test_byte_that_was_changed_is_refused_naming_the_object(empty: Services, entries: Entries, tmp_path: Path) -> None:
    damaged = entries[PACK].replace(b"zebrafish", b"zebraFish")
    reason = refused(empty, write(tmp_path / "x", {**entries, PACK: damaged}))
    assert "checksum" in reason
    assert "clients/acme/" in reason


@pytest.mark.parametrize(
    ("name", "word"),
    [(ALIASES, b"payments"), (VERSION_LINES, b"runbooks"), (DOCUMENT_LINES, b"current"), (ENTRIES, b"a")],
)
def test_entry_with_a_wrong_checksum_is_refused_naming_it(
    empty: Services, entries: Entries, tmp_path: Path, name: str, word: bytes
) -> None:
    changed = entries[name].replace(word, word[:-1] + b"d", 1)
    assert changed != entries[name]
    reason = refused(empty, write(tmp_path / "x", {**entries, name: changed}))
    assert name in reason


def test_archive_of_a_newer_format_is_refused(empty: Services, entries: Entries, tmp_path: Path) -> None:
    newer = json.loads(entries[MANIFEST]) | {"format": 2, "version": "9.0"}
    reason = refused(empty, write(tmp_path / "x", {**entries, MANIFEST: json.dumps(newer).encode()}))
    assert "format 2" in reason
    assert "9.0" in reason


@pytest.mark.parametrize("data", [b"", b"no archive", b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 18])
def test_file_that_is_no_archive_is_refused(empty: Services, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    assert refused(empty, tmp_path / "x")


def test_archive_that_was_cut_is_refused(empty: Services, good: Path, tmp_path: Path) -> None:
    whole = good.read_bytes()
    for share in (0.1, 0.5, 0.99):
        (tmp_path / "x").write_bytes(whole[: int(len(whole) * share)])
        assert refused(empty, tmp_path / "x")


def test_missing_and_unlisted_entries_are_refused(empty: Services, entries: Entries, tmp_path: Path) -> None:
    without = {name: data for name, data in entries.items() if name != VERSION_LINES}
    assert VERSION_LINES in refused(empty, write(tmp_path / "x", without))
    assert "objects/00002" in refused(empty, write(tmp_path / "y", {**entries, "objects/00002": b"more"}))
    unfinished = {name: data for name, data in entries.items() if name != MANIFEST}
    assert "never finished" in refused(empty, write(tmp_path / "z", unfinished))


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "objects/../x", "a\\b", "objects/", "C:x"])
def test_names_that_could_be_paths_are_refused(empty: Services, entries: Entries, tmp_path: Path, name: str) -> None:
    assert "none that" in refused(empty, write(tmp_path / "x", resealed({**entries, name: b"x"})))


def test_links_and_encrypted_entries_are_refused(empty: Services, entries: Entries, tmp_path: Path) -> None:
    def link(info: zipfile.ZipInfo) -> None:
        info.external_attr = (stat.S_IFLNK | 0o777) << 16

    assert "none that" in refused(empty, write(tmp_path / "x", entries, change_info=link))
    data = bytearray(write(tmp_path / "y", entries).read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "y").write_bytes(data)
    assert refused(empty, tmp_path / "y")


def test_two_entries_of_one_name_are_refused(empty: Services, entries: Entries, tmp_path: Path) -> None:
    path = write(tmp_path / "x", entries)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(ALIASES, b"")
    assert "two entries" in refused(empty, path)


def test_archive_that_grows_beyond_measure_is_refused(
    empty: Services, entries: Entries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opx.lifecycle.archive.SMALL_BYTES", 1000)
    path = write(tmp_path / "x", resealed({**entries, "objects/00002": b"\0" * 20_000_000}))
    assert "would grow" in refused(empty, path)


def change(name: str, **facts: Any) -> tuple[str, Callable[[dict[str, Any]], object]]:
    return name, lambda line: line.update(facts)


def change_head(**facts: Any) -> tuple[str, Callable[[dict[str, Any]], object]]:
    return DOCUMENT_LINES, lambda line: line["head"].update(facts)


def change_object(**facts: Any) -> tuple[str, Callable[[dict[str, Any]], object]]:
    return DOCUMENT_LINES, lambda line: line["object"].update(facts)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        change(DOCUMENT_LINES, key="documents/../../../etc/passwd"),
        change(DOCUMENT_LINES, key="/documents/x.md"),
        change(DOCUMENT_LINES, key="chunks/x.jsonl"),
        change(DOCUMENT_LINES, key="clients//documents/x.md"),
        change(DOCUMENT_LINES, key="documents/another.md"),
        change(DOCUMENT_LINES, key="documents/x.md.metadata.json"),
        change(DOCUMENT_LINES, head=[]),
        change_head(scope="client:other"),
        change_head(source="documents/other.md"),
        change_head(state="wrong"),
        change_head(version=0),
        change_head(leaseUntil=9e9),
        change_object(key="documents/other.md"),
        change_object(size=-1),
        change_object(size=10**12),
        change_object(start=10**9),
        change_object(pack="objects/00009"),
        change_object(pack="../x"),
        change_object(metadata={"a": 1}),
        change_object(metadata={"a": "x" * 5000}),
        change(FILE_LINES, key="documents/x.md"),
        change(FILE_LINES, key="chunks/../documents/x.md"),
        change(VERSION_LINES, documentKey="0" * 32),
        change(VERSION_LINES, clientId="other"),
        change(VERSION_LINES, source="documents/../x.md"),
        change(VERSION_LINES, version="one"),
        change(VERSION_LINES, tier="none"),
        change(ALIASES, clientId=7),
        change(ALIASES, aliasArea=""),
        change(ALIASES, note="x" * 500_000),
    ],
)
def test_lines_that_no_export_writes_are_refused(
    empty: Services, entries: Entries, tmp_path: Path, name: str, changes: Callable[[dict[str, Any]], object]
) -> None:
    made = resealed({**entries, name: changed_line(entries[name], changes)})
    assert refused(empty, write(tmp_path / "x", made))


@pytest.mark.parametrize("line", [b"[]", b"nothing", b'{"a":' * 100_000, b'"' + b"x" * 3_000_000 + b'"', b"\xff\xfe"])
def test_lines_that_are_no_items_are_refused(empty: Services, entries: Entries, tmp_path: Path, line: bytes) -> None:
    for name in (ALIASES, DOCUMENT_LINES):
        assert name in refused(empty, write(tmp_path / "x", resealed({**entries, name: line + b"\n"})))


def test_rows_that_are_kept_by_no_archive_are_refused(empty: Services, entries: Entries, tmp_path: Path) -> None:
    row = json.dumps({"subject": "index", "entry": "current"}).encode() + b"\n"
    assert HOLDS in refused(empty, write(tmp_path / "x", resealed({**entries, HOLDS: row})))


def test_damage_anywhere_is_an_error_that_says_so_or_no_damage(empty: Services, good: Path, tmp_path: Path) -> None:
    whole, chance = good.read_bytes(), random.Random(7)
    for _ in range(120):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(whole))] = chance.randrange(256)
        (tmp_path / "x").write_bytes(damaged)
        try:
            with ArchiveReader(tmp_path / "x") as archive:
                ArchiveContents(archive, empty).check()
        except ArchiveError:
            continue


# -- what is there already


def test_system_with_knowledge_is_left_alone_unless_it_is_to_be_merged(services: Services, good: Path) -> None:
    put(services, "own", "The auk.")
    assert "--merge" in refused(services, good)
    assert Importer(services).run(good, merge=True).documents == {Fate.RESTORED: 2}
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
        Exporter(there).write(tmp_path / "x")
        early.sleep(9000)
        put(here, "newer", "Of here, latest.")
        dry = Importer(here).run(tmp_path / "x", merge=True, dry_run=True)
        report = Importer(here).run(tmp_path / "x", merge=True)
        expected = {Fate.SAME: 1, Fate.REPLACED: 1, Fate.KEPT: 1}
        assert dry.documents == report.documents == expected
        older = versions_of(here, "older", Scope())
        assert [one[:2] for one in older] == [(2, "current"), (1, "superseded")]
        assert "Of there, later." in older[0][2]
        assert [one[:2] for one in versions_of(here, "newer", Scope())] == [(1, "current")]
        again = Importer(here).run(tmp_path / "x", merge=True)
        assert again.documents == {Fate.SAME: 2, Fate.KEPT: 1}
        assert Reconciler(here).run().differences == []


def test_dry_run_verifies_and_changes_nothing(empty: Services, good: Path) -> None:
    before = everything_in(empty)
    report = Importer(empty).run(good, dry_run=True)
    assert report.documents == {Fate.RESTORED: 2}
    assert report.contents.counts["versions"] == 3
    assert everything_in(empty) == before


def test_knowledge_of_a_client_that_was_removed_here_does_not_come_back(services: Services, good: Path) -> None:
    put(services, "old", "The puffin.", Scope("acme"))
    Offboarding(services).remove("acme")
    assert "opx client add acme" in refused(services, good, merge=True)
    services.clients.add("acme")
    assert Importer(services).run(good, merge=True).documents == {Fate.RESTORED: 2}


def test_export_never_replaces_a_file(services: Services, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(InvalidInputError, match="exists"):
        Exporter(services).write(tmp_path / "x")
    with pytest.raises(InvalidInputError, match="can't be written"):
        Exporter(services).write(tmp_path / "nowhere" / "x")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["x"]


def test_archive_is_its_owners_alone_and_has_no_secrets(services: Services, tmp_path: Path) -> None:
    services.secrets.put("token", "hunter2")  # type: ignore[attr-defined]
    put(services, "one", "The heron.")
    services.query_service().query("heron")
    Exporter(services).write(tmp_path / "x")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600
    found = entries_of(tmp_path / "x")
    assert not [name for name, data in found.items() if b"hunter2" in data or b"#installation" in data]
    Exporter(services).write(tmp_path / "y", audit=True)
    assert b"#installation" in entries_of(tmp_path / "y")["tables/installation-key.jsonl"]


def test_objects_that_nobody_has_taken_in_are_taken_along(tmp_path: Path, services: Services) -> None:
    with services_at(tmp_path / "from") as source:
        source.manager.put_document("runbooks/procedures", "# Waiting\n\nThe ibis.", {"source": "waiting"})
        Exporter(source).write(tmp_path / "x")
    assert Importer(services).run(tmp_path / "x").documents == {Fate.RESTORED: 1}
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
                return len(writes), Importer(services).run(good)
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
    for ends in range(1, total + 1, max(1, total // 9)):
        home = tmp_path / f"to{ends}"
        assert run(home, ends)[1] is None
        with services_at(home) as services:
            assert Importer(services).run(good).failed == 0
            assert [versions_of(services, "two", Scope("acme")), versions_of(services, "one", Scope())] == expected
            assert Reconciler(services).run().differences == []
            assert [item["state"] for item in services.table(LIFECYCLE).query("import")] == ["done"]
        shutil.rmtree(home)


def test_another_archive_waits_until_an_import_is_finished(
    good: Path, tmp_path: Path, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    with services_at(tmp_path / "from") as source:
        put(source, "x", "The ibis.")
        Exporter(source).write(tmp_path / "other")
    with monkeypatch.context() as patch:
        ends_at(patch, 12)
        with pytest.raises(EndedHereError):
            Importer(services).run(good)
    assert "is not finished" in refused(services, tmp_path / "other", merge=True)
    Importer(services).run(good)
    assert Importer(services).run(tmp_path / "other", merge=True).documents == {Fate.RESTORED: 1}


def test_every_table_is_kept_or_known_to_be_made_anew() -> None:
    """A new table is to be decided on."""
    from opx.lifecycle.archived_rows import ARCHIVED
    from opx.tables import (
        ALL_TABLES,
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

    made_anew: list[TableSpec] = [CALENDAR, EMBEDDINGS, ENTRIES, FAILURES, GRAPH, IDEMPOTENCY, DELIVERIES, WEB_CACHE]
    with_documents = [DOCUMENTS, KEYS]
    kept = [table.spec for table in ARCHIVED]
    assert {spec.name for spec in ALL_TABLES} == {spec.name for spec in (*made_anew, *with_documents, *kept)}

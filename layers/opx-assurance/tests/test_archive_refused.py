"""Archives that were damaged, changed, or made to harm are refused, and nothing is changed."""

from __future__ import annotations

import json
import random
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.errors import ArchiveError
from opx.operations.system import System
from opx_assurance.archive.contents import ArchiveContents
from opx_assurance.archive.exporting import DOCUMENT_LINES, FILE_LINES, VERSION_LINES
from opx_assurance.archive.file import ENTRIES, MANIFEST, ArchiveReader
from tests.support.archive_support import (
    Entries,
    an_archive,
    changed_line,
    entries_of,
    refused,
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
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """For what changes nothing."""
    with services_at(tmp_path_factory.mktemp("empty")) as services:
        yield services


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with services_at(tmp_path / "to") as services:
        yield services


# -- what is refused


def test_byte_that_was_changed_is_refused_naming_the_object(empty: System, entries: Entries, tmp_path: Path) -> None:
    damaged = entries[PACK].replace(b"zebrafish", b"zebraFish")
    reason = refused(empty, write(tmp_path / "x", {**entries, PACK: damaged}))
    assert "checksum" in reason
    assert "clients/acme/" in reason


@pytest.mark.parametrize(
    ("name", "word"),
    [(ALIASES, b"payments"), (VERSION_LINES, b"runbooks"), (DOCUMENT_LINES, b"current"), (ENTRIES, b"a")],
)
def test_entry_with_a_wrong_checksum_is_refused_naming_it(
    empty: System, entries: Entries, tmp_path: Path, name: str, word: bytes
) -> None:
    changed = entries[name].replace(word, word[:-1] + b"d", 1)
    assert changed != entries[name]
    reason = refused(empty, write(tmp_path / "x", {**entries, name: changed}))
    assert name in reason


def test_archive_of_a_newer_format_is_refused(empty: System, entries: Entries, tmp_path: Path) -> None:
    newer = json.loads(entries[MANIFEST]) | {"format": 2, "version": "9.0"}
    reason = refused(empty, write(tmp_path / "x", {**entries, MANIFEST: json.dumps(newer).encode()}))
    assert "format 2" in reason
    assert "9.0" in reason


@pytest.mark.parametrize("data", [b"", b"no archive", b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 18])
def test_file_that_is_no_archive_is_refused(empty: System, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    assert refused(empty, tmp_path / "x")


def test_archive_that_was_cut_is_refused(empty: System, good: Path, tmp_path: Path) -> None:
    whole = good.read_bytes()
    for share in (0.1, 0.5, 0.99):
        (tmp_path / "x").write_bytes(whole[: int(len(whole) * share)])
        assert refused(empty, tmp_path / "x")


def test_missing_and_unlisted_entries_are_refused(empty: System, entries: Entries, tmp_path: Path) -> None:
    without = {name: data for name, data in entries.items() if name != VERSION_LINES}
    assert VERSION_LINES in refused(empty, write(tmp_path / "x", without))
    assert "objects/00002" in refused(empty, write(tmp_path / "y", {**entries, "objects/00002": b"more"}))
    unfinished = {name: data for name, data in entries.items() if name != MANIFEST}
    assert "never finished" in refused(empty, write(tmp_path / "z", unfinished))


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "objects/../x", "a\\b", "objects/", "C:x"])
def test_names_that_could_be_paths_are_refused(empty: System, entries: Entries, tmp_path: Path, name: str) -> None:
    assert "not one that" in refused(empty, write(tmp_path / "x", resealed({**entries, name: b"x"})))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK, stat.S_IFDIR])
def test_links_devices_and_folders_are_refused(empty: System, entries: Entries, tmp_path: Path, kind: int) -> None:
    def other(info: zipfile.ZipInfo) -> None:
        if info.filename == PACK:
            info.external_attr = (kind | 0o777) << 16

    assert "not one that" in refused(empty, write(tmp_path / "x", entries, change_info=other))


def test_a_file_that_is_a_link_by_its_extra_field_is_refused(empty: System, entries: Entries, tmp_path: Path) -> None:
    """PKWARE's Unix field holds the target of a symbolic or hard link (APPNOTE.TXT, 4.5.7)."""

    def hard_link(info: zipfile.ZipInfo) -> None:
        if info.filename == PACK:
            info.extra = struct.pack("<HH12s11s", 0x000D, 23, bytes(12), b"/etc/passwd")

    assert "not one that" in refused(empty, write(tmp_path / "x", entries, change_info=hard_link))


def test_encrypted_entries_are_refused(empty: System, entries: Entries, tmp_path: Path) -> None:
    data = bytearray(write(tmp_path / "y", entries).read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "y").write_bytes(data)
    assert refused(empty, tmp_path / "y")


def test_two_entries_of_one_name_are_refused(empty: System, entries: Entries, tmp_path: Path) -> None:
    path = write(tmp_path / "x", entries)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(ALIASES, b"")
    assert "two entries" in refused(empty, path)


def test_archive_that_grows_beyond_measure_is_refused(
    empty: System, entries: Entries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opx_assurance.archive.file.SMALL_BYTES", 1000)
    path = write(tmp_path / "x", resealed({**entries, "objects/00002": b"\0" * 20_000_000}))
    assert "would decompress" in refused(empty, path)


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
    empty: System, entries: Entries, tmp_path: Path, name: str, changes: Callable[[dict[str, Any]], object]
) -> None:
    made = resealed({**entries, name: changed_line(entries[name], changes)})
    assert refused(empty, write(tmp_path / "x", made))


@pytest.mark.parametrize("line", [b"[]", b"nothing", b'{"a":' * 100_000, b'"' + b"x" * 3_000_000 + b'"', b"\xff\xfe"])
def test_lines_that_are_no_items_are_refused(empty: System, entries: Entries, tmp_path: Path, line: bytes) -> None:
    for name in (ALIASES, DOCUMENT_LINES):
        assert name in refused(empty, write(tmp_path / "x", resealed({**entries, name: line + b"\n"})))


def test_rows_that_are_kept_by_no_archive_are_refused(empty: System, entries: Entries, tmp_path: Path) -> None:
    row = json.dumps({"subject": "index", "entry": "current"}).encode() + b"\n"
    assert HOLDS in refused(empty, write(tmp_path / "x", resealed({**entries, HOLDS: row})))


def test_random_damage_is_harmless_or_an_archive_error(empty: System, good: Path, tmp_path: Path) -> None:
    whole, chance = good.read_bytes(), random.Random(7)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(whole))] = chance.randrange(256)
        (tmp_path / "x").write_bytes(damaged)
        try:
            with ArchiveReader(tmp_path / "x") as archive:
                ArchiveContents(archive, empty.installation, tables=empty.tables, storage=empty.storage).check()
        except ArchiveError:
            continue

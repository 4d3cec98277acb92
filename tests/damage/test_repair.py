"""Repairs keep what can be read, can be interrupted, and follow nothing out of the home."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from opx.adapters.embedded.vector_files import record_of
from opx.domain.documents import DocumentKey, DocumentState
from opx.domain.scopes import scope_of_object
from opx.errors import DamagedStoreError
from opx.ports.tables import ALIASES, DOCUMENTS, KEYS, TableSpec
from opx_assurance.consistency.differences import Problem
from tests.damage.homes import (
    CHANGED,
    FOLDER,
    OF_CLIENT,
    OTHERS,
    PAGE,
    copied,
    is_found,
    missing_answers,
    reconciled,
    repaired,
    text_of,
    truncate,
    version_file,
    work,
)
from tests.support.cli_support import ROOT, environment
from tests.support.reindex_support import services_at


@pytest.fixture
def home(undamaged: Path, tmp_path: Path) -> Path:
    return copied(undamaged, tmp_path / "home")


def pages_of(path: Path, name: str) -> list[int]:
    """The leaf pages of a table or index, by their types (10 and 13), found from its root."""
    with closing(sqlite3.connect(path)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
    data = path.read_bytes()
    waiting, leaves = [int(root)], []
    while waiting:
        page = waiting.pop()
        start = (page - 1) * PAGE
        kind, cells = data[start], int.from_bytes(data[start + 3 : start + 5], "big")
        if kind in (10, 13):
            leaves.append(page)
            continue
        pointers = [int.from_bytes(data[start + 12 + 2 * n : start + 14 + 2 * n], "big") for n in range(cells)]
        waiting += [int.from_bytes(data[start + at : start + at + 4], "big") for at in pointers]
        waiting.append(int.from_bytes(data[start + 8 : start + 12], "big"))
    return leaves


def cells_of(path: Path, page: int) -> int:
    start = (page - 1) * PAGE
    return int.from_bytes(path.read_bytes()[start + 3 : start + 5], "big")


def blank(path: Path, page: int) -> None:
    data = bytearray(path.read_bytes())
    data[(page - 1) * PAGE : page * PAGE] = bytes(PAGE)
    path.write_bytes(data)


def rows(home: Path, spec: TableSpec) -> int:
    with services_at(home) as services:
        return len(list(services.tables.every_item(spec)))


# -- databases


def test_rows_of_other_pages_and_tables_outlive_a_damaged_page(home: Path) -> None:
    before = rows(home, DOCUMENTS)
    pages = pages_of(home / "opx.db", DOCUMENTS.name)
    assert len(pages) > 2
    lost = cells_of(home / "opx.db", pages[len(pages) // 2])
    blank(home / "opx.db", pages[len(pages) // 2])
    report = repaired(home)
    assert report.rows[DOCUMENTS.name] == before - lost
    assert any(DOCUMENTS.name in loss for loss in report.lost)
    assert rows(home, ALIASES) == 1
    assert missing_answers(home) == []


def test_a_damaged_index_of_a_table_loses_no_row(home: Path) -> None:
    before = rows(home, DOCUMENTS)
    for page in pages_of(home / "opx.db", f"{DOCUMENTS.name}/scope-category-index"):
        blank(home / "opx.db", page)
    assert is_found(home)
    report = repaired(home)
    assert report.lost == []
    assert rows(home, DOCUMENTS) == before
    assert repaired(home).damaged == []


def test_earlier_versions_stay_in_the_history_although_their_key_was_lost(home: Path) -> None:
    for page in pages_of(home / "opx.db", KEYS.name):
        blank(home / "opx.db", page)
    report = repaired(home)
    assert report.heads == len(OTHERS) + 3
    with services_at(home) as services:
        versions = list(services.corpus.catalog.versions(DocumentKey(*scope_of_object(CHANGED))))
    assert [(one.version, one.state) for one in versions] == [
        (3, DocumentState.CURRENT),
        (2, DocumentState.SUPERSEDED),
        (1, DocumentState.SUPERSEDED),
    ]


def test_a_change_after_the_repair_is_newer_than_all_before(home: Path) -> None:
    for page in pages_of(home / "opx.db", "sequences"):
        blank(home / "opx.db", page)
    repaired(home)
    with services_at(home) as services:
        services.store.put(CHANGED, text_of("changed", "fourth").encode())
        work(services)
        assert next(iter(services.corpus.catalog.versions(DocumentKey(*scope_of_object(CHANGED))))).version == 4


def test_a_row_that_is_no_item_is_found_and_its_document_ingested_again(home: Path) -> None:
    with closing(sqlite3.connect(home / "opx.db", isolation_level=None)) as connection:
        connection.execute(
            f"UPDATE \"{DOCUMENTS.name}\" SET _item = substr(_item, 1, 40) WHERE entry LIKE 'document#%#00000003'"
        )
    with services_at(home) as services, pytest.raises(DamagedStoreError, match="`opx repair`"):
        list(services.tables.every_item(DOCUMENTS))
    assert is_found(home)
    report = repaired(home)
    assert any("1 rows of opx-knowledge-documents" in loss for loss in report.lost)
    assert not is_found(home)


def test_text_that_is_no_unicode_is_found_and_left_out(home: Path) -> None:
    with closing(sqlite3.connect(home / "opx.db", isolation_level=None)) as connection:
        connection.execute(f"UPDATE \"{ALIASES.name}\" SET _item = CAST(x'7bff' AS TEXT)")
    with services_at(home) as services, pytest.raises(DamagedStoreError, match="`opx repair`"):
        list(services.tables.every_item(ALIASES))
    assert any(ALIASES.name in loss for loss in repaired(home).lost)
    assert rows(home, ALIASES) == 0


# -- interruptions


@pytest.mark.parametrize("moves", range(5))
def test_an_interrupted_repair_goes_on_where_it_was(home: Path, monkeypatch: pytest.MonkeyPatch, moves: int) -> None:
    blank(home / "opx.db", pages_of(home / "opx.db", ALIASES.name)[0])
    truncate(home / "index" / "index.db")
    done = iter(range(moves))
    replace = os.replace

    def killed(source: Path, target: Path) -> None:
        if next(done, None) is None:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            repaired(home)
    report = repaired(home)
    assert any(ALIASES.name in loss for loss in report.lost)
    assert len(list(home.glob("damaged-*"))) == 1
    assert rows(home, DOCUMENTS) > len(OTHERS)
    assert missing_answers(home) == []
    assert not is_found(home)


_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.damage.homes import repaired
moves = iter(range(int(sys.argv[2])))
replace = os.replace
def killed(source, target):
    if next(moves, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = killed
repaired(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("moves", [2, 3])
def test_a_killed_repair_loses_nothing(home: Path, moves: int) -> None:
    blank(home / "opx.db", pages_of(home / "opx.db", ALIASES.name)[0])
    truncate(home / "index" / "index.db")
    command = [sys.executable, "-c", _KILLED, str(home), str(moves)]
    assert subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode == -signal.SIGKILL
    assert any(ALIASES.name in loss for loss in repaired(home).lost)
    assert rows(home, DOCUMENTS) > len(OTHERS)
    assert not is_found(home)


def test_damaged_files_are_kept_with_a_record_of_what_was_lost(home: Path) -> None:
    data = (home / "opx.db").read_bytes()
    (home / "opx.db").write_bytes(bytes(len(data)))
    report = repaired(home)
    assert (home / report.folder / "opx.db").read_bytes() == bytes(len(data))
    assert json.loads((home / report.folder / "repair.json").read_text())["lost"]
    assert (home / report.folder).stat().st_mode & 0o077 == 0


# -- what isn't a file, and what was tampered with


def test_links_pipes_and_folders_in_the_place_of_files_are_moved_aside(home: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("# Secret\n\nNot in the home.\n")
    chunks = version_file(home, ".jsonl", current=True)
    chunks.unlink()
    os.mkfifo(chunks)
    (home / f"corpus/{FOLDER}link.md").symlink_to(secret)
    assert is_found(home)
    report = repaired(home)
    assert len(report.damaged) == 2
    assert not is_found(home)
    assert not (home / f"corpus/{FOLDER}link.md").exists()
    assert (home / report.folder / f"corpus/{FOLDER}link.md").is_symlink()


def test_text_that_was_tampered_with_in_a_chunk_file_is_found_and_mended(home: Path) -> None:
    path = version_file(home, ".jsonl", current=True)
    path.write_text(path.read_text().replace("check changed", "erase changed"))
    assert {one.problem for one in reconciled(home).differences} == {Problem.CHUNKS_DAMAGED}
    repaired(home)
    assert "erase" not in path.read_text()


def test_a_chunk_file_that_has_another_title_with_the_same_text_is_found(home: Path) -> None:
    path = version_file(home, ".jsonl", current=True)
    first, *others = path.read_text().splitlines(keepends=True)
    chunk = json.loads(first)
    chunk["metadata"]["documentTitle"] = "Another title"
    path.write_text("".join([json.dumps(chunk) + "\n", *others]))
    assert {one.problem for one in reconciled(home).differences} == {Problem.CHUNKS_DAMAGED}


def test_without_a_checksum_a_chunk_file_is_compared_with_the_hash_of_its_text(home: Path) -> None:
    with closing(sqlite3.connect(home / "opx.db", isolation_level=None)) as connection:
        connection.execute(f"UPDATE \"{DOCUMENTS.name}\" SET _item = json_remove(_item, '$.chunksChecksum')")
    assert not is_found(home)
    path = version_file(home, ".jsonl", current=False)
    path.write_text(path.read_text().replace("check changed", "erase changed"))
    assert {one.problem for one in reconciled(home).differences} == {Problem.OLD_CHUNKS_DAMAGED}


def test_an_entry_that_was_moved_to_another_owner_is_found_and_mended(home: Path) -> None:
    with closing(sqlite3.connect(home / "index" / "index.db", isolation_level=None)) as connection:
        connection.execute("UPDATE segments SET scope = 'global' WHERE scope = 'client:acme'")
    found = reconciled(home)
    assert [(one.problem, one.object_key) for one in found.differences if one.problem is Problem.INDEX_DAMAGED] == [
        (Problem.INDEX_DAMAGED, OF_CLIENT)
    ]
    repaired(home)
    assert not is_found(home)


def test_a_lost_folder_of_terms_is_found_and_made_again(home: Path) -> None:
    for path in (home / "index" / "terms").iterdir():
        path.unlink()
    assert is_found(home)
    assert repaired(home).is_whole
    assert missing_answers(home) == []


@pytest.mark.parametrize("field", ["codes", "step", "length", "error", "low"])
def test_an_altered_vector_is_found_and_made_again(home: Path, field: str) -> None:
    dimension = services_dimension(home)
    path, kind = home / "index" / "rows.i8", record_of(dimension)
    if field == "low":
        path, kind = home / "index" / "rows.lo", np.dtype([("low", np.int8, (dimension,))])
    stored = np.frombuffer(path.read_bytes(), kind).copy()
    stored[field][3] += 1
    path.write_bytes(stored.tobytes())
    (found,) = reconciled(home).differences
    assert found.problem is Problem.INDEX_DAMAGED
    assert found.text.endswith("its vectors were altered")
    assert repaired(home).is_whole
    assert not reconciled(home).total
    assert missing_answers(home) == []


def services_dimension(home: Path) -> int:
    with services_at(home) as services:
        return services.indexing.embedder.dimension


def test_what_belongs_to_nothing_is_kept_by_a_repair_and_removed_by_reconciling(home: Path) -> None:
    path = home / "corpus" / "chunks" / ("0" * 32 + ".jsonl")
    path.write_text("{}\n")
    assert is_found(home)
    assert repaired(home).surplus == 1
    assert path.exists()
    reconciled(home, repair=True)
    assert not path.exists()


def test_an_interrupted_batch_is_no_damage_of_the_term_index(home: Path) -> None:
    """A crash between the commits of the two engines leaves terms that no segment has."""
    from opx.adapters.embedded.lexical import LexicalWriter

    with closing(sqlite3.connect(home / "index" / "index.db", isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = '' WHERE name = 'files'")
        connection.execute("INSERT INTO unfinished VALUES ('batch')")
    writer = LexicalWriter(home / "index" / "terms")
    writer.remove_batch("none")
    writer.commit()
    writer.close()
    assert not is_found(home)


def test_entries_that_the_term_index_lacks_are_found_and_mended(home: Path) -> None:
    from opx.adapters.embedded.lexical import LexicalWriter

    with closing(sqlite3.connect(home / "index" / "index.db", isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = '' WHERE name = 'files'")
        segment = connection.execute("SELECT id FROM segments WHERE scope = 'client:acme'").fetchone()[0]
    writer = LexicalWriter(home / "index" / "terms")
    writer.remove_segments([segment])
    writer.commit()
    writer.close()
    found = {(one.problem, one.object_key) for one in reconciled(home).differences}
    assert found == {(Problem.INDEX_DAMAGED, OF_CLIENT)}
    repaired(home)
    assert not is_found(home)


def test_a_change_of_a_document_whose_chunk_file_is_damaged_leaves_no_old_entries(home: Path) -> None:
    truncate(version_file(home, ".jsonl", current=True))
    with services_at(home) as services:
        services.store.put(CHANGED, text_of("changed", "fourth").encode())
        work(services)
    assert {one.problem for one in reconciled(home).differences} == {Problem.OLD_CHUNKS_DAMAGED}

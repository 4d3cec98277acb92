"""Tests of the folder beyond the contract: readable files, several users, copies, and bounded memory."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.errors import InvalidInputError, StoreUnavailableError
from tests.contract.object_store_contract import MEGABYTE, Trickle


def test_object_is_a_plain_file_under_its_key(tmp_path: Path) -> None:
    FolderObjectStore(tmp_path).put("documents/runbooks/disk-full.md", b"# Disk full\n", metadata={"author": "ada"})
    assert (tmp_path / "documents/runbooks/disk-full.md").read_bytes() == b"# Disk full\n"


def test_file_that_was_put_into_the_folder_is_an_object(tmp_path: Path) -> None:
    store = FolderObjectStore(tmp_path)
    (tmp_path / "notes.md").write_bytes(b"by hand")
    info = store.head("notes.md")
    assert info is not None
    assert (info.size, dict(info.metadata)) == (7, {})
    assert [listed.key for listed in store.list()] == ["notes.md"]


def test_file_whose_name_stands_for_no_key_is_ignored(tmp_path: Path) -> None:
    store = FolderObjectStore(tmp_path)
    (tmp_path / ".DS_Store").write_bytes(b"x")
    (tmp_path / "LICENSE").write_bytes(b"x")
    assert list(store.list()) == []


def test_file_that_was_edited_has_another_etag_and_no_metadata(tmp_path: Path) -> None:
    store = FolderObjectStore(tmp_path)
    before = store.put("notes.md", b"old", metadata={"title": "old"})
    (tmp_path / "notes.md").write_bytes(b"edited")
    info = store.head("notes.md")
    assert info is not None
    assert info.etag != before.etag
    assert (info.size, dict(info.metadata)) == (6, {})


def test_copy_of_the_folder_keeps_everything(tmp_path: Path) -> None:
    store = FolderObjectStore(tmp_path / "one")
    for title in ("first", "second", "third"):
        store.put("README.md", title.encode(), metadata={"title": title})
    shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copyfile)
    info = FolderObjectStore(tmp_path / "two").head("README.md")
    assert info is not None
    assert dict(info.metadata) == {"title": "third"}


def test_removal_leaves_no_empty_folders(tmp_path: Path) -> None:
    store = FolderObjectStore(tmp_path)
    store.put("a/b/c.md", b"text", metadata={"title": "t"})
    store.put("a/d.md", b"text")
    store.delete("a/b/c.md")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["d.md"]
    store.delete("a/d.md")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", ".meta", ".tmp"]
    assert list((tmp_path / ".meta").iterdir()) == []


def test_temporary_files_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path: Path) -> None:
    FolderObjectStore(tmp_path)
    dead, living = tmp_path / ".tmp/dead", tmp_path / ".tmp/living"
    for path in (dead, living):
        path.write_bytes(b"part")
    os.utime(dead, (time.time() - 90_000,) * 2)
    FolderObjectStore(tmp_path)
    assert (dead.exists(), living.exists()) == (False, True)


def test_concurrent_writers_never_mix_content_and_metadata(tmp_path: Path) -> None:
    contents = [str(writer).encode() * 1000 for writer in range(3)]
    metadata_of = {hashlib.sha256(content).hexdigest(): {"content": content[:1].decode()} for content in contents}

    def write(content: bytes) -> None:
        store = FolderObjectStore(tmp_path)
        for _ in range(15):
            store.put("a", content, metadata={"content": content[:1].decode()})

    write(contents[0])
    with ThreadPoolExecutor(3) as pool:
        writing = [pool.submit(write, content) for content in contents]
        store = FolderObjectStore(tmp_path)
        while not all(writer.done() for writer in writing):
            info = store.head("a")
            assert info is not None
            assert info.metadata == metadata_of[info.etag]
    for writer in writing:
        writer.result()


def test_facts_are_never_those_of_an_object_that_was_replaced_meanwhile(tmp_path: Path) -> None:
    overtakers = ["second", "third"]

    class Overtaken(FolderObjectStore):
        """Others replace the object twice just after it was opened."""

        def _open(self, key: str) -> BinaryIO | None:
            file = super()._open(key)
            while overtakers:
                title = overtakers.pop(0)
                FolderObjectStore(tmp_path).put(key, title.encode(), metadata={"title": title})
            return file

    store = Overtaken(tmp_path)
    store.put("a", b"first", metadata={"title": "first"})
    info = store.head("a")
    assert info is not None
    assert (info.size, info.metadata) == (5, {"title": "third"})


def test_large_stream_needs_little_memory(tmp_path: Path) -> None:
    store = FolderObjectStore(tmp_path)
    tracemalloc.start()
    try:
        store.put("large", Trickle(32 * MEGABYTE))  # type: ignore[arg-type]
        assert store.head("large") is not None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * MEGABYTE


def test_path_beyond_what_the_system_takes_is_refused(tmp_path: Path) -> None:
    key = "A/" * 500 + "b"
    store = FolderObjectStore(tmp_path)
    with pytest.raises(InvalidInputError, match="too long"):
        store.put(key, b"text", metadata={"title": "t"})
    assert store.head(key) is None
    store.delete(key)


def test_folder_that_can_not_be_used_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailableError, match="can't use folder"):
        FolderObjectStore(tmp_path / "file/corpus")

"""Tests of the folder beyond the contract: readable files, several users, copies, and bounded memory."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import pytest

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.errors import InvalidInputError, StoreUnavailableError
from opx_testing.object_store import MEGABYTE, Trickle


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
    dead, young = tmp_path / ".tmp/dead", tmp_path / ".tmp/young"
    for path in (dead, young):
        path.write_bytes(b"part")
    os.utime(dead, (time.time() - 90_000,) * 2)
    with FolderObjectStore(tmp_path).grouped():  # removes both, and uses the folder from now on
        assert not dead.exists()
        assert not young.exists()
        for path in (dead, young):
            path.write_bytes(b"part")
        os.utime(dead, (time.time() - 90_000,) * 2)
        FolderObjectStore(tmp_path)
        assert (dead.exists(), young.exists()) == (False, True)


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


class TestPutsTogether:
    """Objects that are durable when a block ends."""

    @pytest.fixture
    def synced(self, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
        """Files and folders in the order in which they were made durable."""
        found: list[Path] = []
        sync = os.fsync

        def noted(descriptor: int) -> None:
            found.append(Path(f"/proc/self/fd/{descriptor}").readlink())
            sync(descriptor)

        if not Path("/proc/self/fd").exists():
            pytest.skip("the system doesn't tell the name of an open file")
        monkeypatch.setattr(os, "fsync", noted)
        return found

    def test_new_ones_are_there_at_once_and_durable_at_the_end(self, tmp_path: Path, synced: list[Path]) -> None:
        store = FolderObjectStore(tmp_path)
        store.put("corpus/first.md", b"first")
        synced.clear()
        with store.together():
            for name in ("a", "b", "c"):
                store.put(f"corpus/{name}.md", name.encode())
                assert (tmp_path / f"corpus/{name}.md").read_bytes() == name.encode()
            assert synced == []
        files = {tmp_path / f"corpus/{name}.md" for name in ("a", "b", "c")}
        assert set(synced[:-1]) == files
        assert synced[-1] == tmp_path / "corpus"

    def test_what_replaces_an_object_or_has_metadata_is_durable_at_once(
        self, tmp_path: Path, synced: list[Path]
    ) -> None:
        store = FolderObjectStore(tmp_path)
        store.put("a.md", b"old")
        with store.together():
            for key, metadata in (("a.md", None), ("b.md", {"title": "B"})):
                synced.clear()
                store.put(key, b"new", metadata=metadata)
                assert synced[0].parent == tmp_path / ".tmp"
                assert synced[-1] == tmp_path
            synced.clear()
        assert synced == []

    def test_object_that_is_deleted_in_the_block_is_gone(self, tmp_path: Path) -> None:
        store = FolderObjectStore(tmp_path)
        with store.together():
            store.put("corpus/a.md", b"a")
            store.put("corpus/b.md", b"b")
            store.delete("corpus/a.md")
        assert [info.key for info in store.list()] == ["corpus/b.md"]

    def test_full_disk_at_the_end_is_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        store = FolderObjectStore(tmp_path)
        store.put("corpus/first.md", b"first")
        with ExitStack() as block:
            block.enter_context(store.together())
            store.put("corpus/a.md", b"a")
            ended = block.pop_all()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StoreUnavailableError, match="No space left"):
                ended.close()
        store.put("corpus/b.md", b"b")  # as always again

    def test_other_threads_put_as_always(self, tmp_path: Path, synced: list[Path]) -> None:
        store = FolderObjectStore(tmp_path)
        with store.together(), ThreadPoolExecutor(1) as pool:
            pool.submit(store.put, "a.md", b"a").result()
            assert synced[-1] == tmp_path


class TestGroupedPuts:
    """Objects that are put in a block of `grouped`."""

    def test_all_are_stored_at_the_end_with_their_metadata(self, tmp_path: Path) -> None:
        store = FolderObjectStore(tmp_path)
        store.put("corpus/b.md", b"old", metadata={"title": "old"})
        with store.grouped():
            put = [store.put(f"corpus/{name}.md", name.encode(), metadata={"title": name}) for name in ("a", "b")]
            assert [dict(info.metadata) for info in store.list()] == [{"title": "old"}]
        assert list(store.list()) == put
        assert [dict(info.metadata) for info in store.list()] == [{"title": "a"}, {"title": "b"}]
        assert list((tmp_path / ".tmp").iterdir()) == []

    def test_block_that_raises_stores_nothing(self, tmp_path: Path) -> None:
        store = FolderObjectStore(tmp_path)
        before = store.put("a.md", b"old", metadata={"title": "old"})

        def interrupted() -> None:
            with store.grouped():
                store.put("a.md", b"new", metadata={"title": "new"})
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert list(store.list()) == [before]
        assert list((tmp_path / ".tmp").iterdir()) == []
        assert store.put("b.md", b"b") == store.head("b.md")  # at once again

    def test_the_last_object_of_a_key_wins(self, tmp_path: Path) -> None:
        store = FolderObjectStore(tmp_path)
        with store.grouped():
            store.put("a.md", b"first", metadata={"title": "first"})
            last = store.put("a.md", b"last")
        assert store.head("a.md") == last
        assert list((tmp_path / ".tmp").iterdir()) == []

    @pytest.mark.parametrize("step", [1, 2, 3, 4])
    def test_crash_within_the_end_pairs_no_content_with_other_metadata(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
    ) -> None:
        store = FolderObjectStore(tmp_path)
        for key in ("a.md", "b.md"):
            store.put(key, b"old", metadata={"title": "old"})
        group = ExitStack()
        group.enter_context(store.grouped())
        for key in ("a.md", "b.md"):
            store.put(key, b"new", metadata={"title": "new"})
        stop_at(monkeypatch, step)
        with pytest.raises(KeyboardInterrupt):
            group.close()
        monkeypatch.undo()
        for info in FolderObjectStore(tmp_path).list():
            with store.open(info.key) as file:
                assert file.read().decode() == info.metadata["title"]

    def test_each_step_is_on_the_disk_before_the_next(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        steps: list[str] = []
        sync, move = os.fsync, os.replace

        def synced(descriptor: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            steps.append(f"folder {path.name}" if path.is_dir() else "file")
            sync(descriptor)

        def moved(source: Path, target: Path) -> None:
            steps.append(f"name in {target.parent.name}")
            move(source, target)

        store = FolderObjectStore(tmp_path / "corpus")
        for key in ("one/first.md", "two/first.md"):
            store.put(key, b"first", metadata={"title": "first"})
        if not Path("/proc/self/fd").exists():
            pytest.skip("the system doesn't tell the name of an open file")
        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "replace", moved)
        with store.grouped():
            for key in ("one/a.md", "two/a.md"):
                store.put(key, b"new", metadata={"title": "new"})
            assert steps == []
        synced_files = ["file", "file"]
        named = ["name in one", "name in two", "folder one", "folder two"]
        assert steps == [*synced_files, *synced_files, *named, *named]


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Stops the program at its so manyth rename."""
    move, done = os.replace, 0

    def moved(source: Path, target: Path) -> None:
        nonlocal done
        done += 1
        if done == step:
            raise KeyboardInterrupt
        move(source, target)

    monkeypatch.setattr(os, "replace", moved)

"""Contract of `ObjectStore`. A test class inherits this and provides the fixture `store`."""

from __future__ import annotations

import hashlib
import io
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from opx.errors import ConditionFailedError, InvalidInputError, ObjectNotFoundError
from opx.ports import ObjectStore

MEGABYTE = 1024 * 1024

MALFORMED_KEYS = ["", "/a", "a/", "a//b", "../a", "a/../b", "a/..", ".", "a/./b", "a\\b", "a\x00b", "a\nb", "é" * 513]

KEYS_THAT_LOOK_ALIKE = [
    "a",
    "a/b",
    "a/b/c",
    "A",
    "A/b",
    "a/B",
    "a%",
    "a%2Fb",
    "a%25",
    "a.b",
    "a.b/c",
    "a.b%/c",
    "a~",
    "README.md",
    "readme.md",
    "README~8ec9a00b.md",
    "caf\u00e9.md",
    "cafe\u0301.md",
    "stra\u00dfe",
    "STRASSE",
    "a b",
    "a b ",
    " a b",
    ".meta/a",
    ".tmp",
    ".lock",
    "...",
    "a:b",
    "a*?",
    "日本/語.md",
    "\U0001f525",
    "x" * 1024,
    "é" * 512,
    "deep/" * 200 + "end",
]


class Trickle(io.RawIOBase):
    """A stream of `size` bytes that comes in small pieces, can't seek, and must not be read at one go."""

    def __init__(self, size: int, *, breaks_at: int | None = None) -> None:
        self.left = size
        self.largest_read = 0
        self.digest = hashlib.sha256()
        self._breaks_at = breaks_at
        self._count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        assert size >= 0, "reads everything into memory"
        self.largest_read = max(self.largest_read, size)
        if self._breaks_at is not None and self._count >= self._breaks_at:
            raise ValueError("the source broke")
        piece = hashlib.sha256(self._count.to_bytes(8, "big")).digest() * 2048
        piece = piece[: min(size, self.left)]
        self.left -= len(piece)
        self._count += len(piece)
        self.digest.update(piece)
        return piece


def read(store: ObjectStore, key: str) -> bytes:
    with store.open(key) as stream:
        return stream.read()


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return [info.key for info in store.list(prefix)]


class ObjectStoreContract:
    def test_content_comes_back_as_it_was_put(self, store: ObjectStore) -> None:
        store.put("documents/a.md", b"\x00text\r\n\xff")
        assert read(store, "documents/a.md") == b"\x00text\r\n\xff"

    def test_empty_object_is_an_object(self, store: ObjectStore) -> None:
        info = store.put("empty", b"")
        assert (info.size, read(store, "empty"), keys(store)) == (0, b"", ["empty"])

    def test_put_and_head_return_the_same(self, store: ObjectStore) -> None:
        info = store.put("documents/a.md", b"text", metadata={"title": "Disk full"})
        assert store.head("documents/a.md") == info
        assert (info.key, info.size, dict(info.metadata)) == ("documents/a.md", 4, {"title": "Disk full"})

    def test_location_is_the_key_or_a_uri_that_ends_in_it(self, store: ObjectStore) -> None:
        location = store.put("documents/a.md", b"text").location
        assert location == "documents/a.md" or re.fullmatch(r"s3://[^/]+/documents/a\.md", location)

    def test_missing_object_has_no_facts(self, store: ObjectStore) -> None:
        assert store.head("missing") is None

    def test_opening_a_missing_object_is_an_error(self, store: ObjectStore) -> None:
        with pytest.raises(ObjectNotFoundError, match="missing"):
            store.open("missing")

    def test_folder_of_an_object_is_no_object(self, store: ObjectStore) -> None:
        store.put("a/b", b"text")
        assert store.head("a") is None
        assert store.head("a/b/c") is None

    def test_put_replaces_content_and_metadata(self, store: ObjectStore) -> None:
        store.put("a", b"old and long", metadata={"title": "old", "author": "ada"})
        store.put("a", b"new", metadata={"title": "new"})
        info = store.head("a")
        assert info is not None
        assert (read(store, "a"), info.size, dict(info.metadata)) == (b"new", 3, {"title": "new"})

    def test_put_on_condition_replaces_the_object_that_was_read(self, store: ObjectStore) -> None:
        read_one = store.put("a", b"old", metadata={"title": "old"})
        info = store.put_if("a", b"new", etag=read_one.etag, metadata={"title": "new"})
        assert (store.head("a"), read(store, "a"), dict(info.metadata)) == (info, b"new", {"title": "new"})
        assert info.etag == store.put("b", b"new").etag

    @pytest.mark.parametrize("stale", ["", "0" * 64])
    def test_put_on_condition_leaves_what_was_changed_meanwhile(self, store: ObjectStore, stale: str) -> None:
        before = store.put("a", b"first", metadata={"title": "first"})
        store.put("a", b"second", metadata={"title": "second"})
        for etag in (before.etag, stale):
            with pytest.raises(ConditionFailedError):
                store.put_if("a", b"mine", etag=etag, metadata={"title": "mine"})
        info = store.head("a")
        assert info is not None
        assert (read(store, "a"), dict(info.metadata)) == (b"second", {"title": "second"})

    def test_put_on_condition_creates_what_is_missing(self, store: ObjectStore) -> None:
        info = store.put_if("a/b.md", b"text", etag="")
        assert (store.head("a/b.md"), read(store, "a/b.md")) == (info, b"text")
        with pytest.raises(ConditionFailedError):
            store.put_if("missing", b"text", etag=info.etag)
        assert store.head("missing") is None

    def test_one_of_several_puts_on_the_same_condition_wins(self, store: ObjectStore) -> None:
        etag = store.put("a", b"start").etag

        def edit(number: int) -> int:
            try:
                store.put_if("a", f"edit {number}".encode(), etag=etag)
            except ConditionFailedError:
                return 0
            return 1

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(edit, range(8))) == 1
        assert read(store, "a").startswith(b"edit ")

    def test_put_on_condition_refuses_large_data(self, store: ObjectStore) -> None:
        with pytest.raises(InvalidInputError, match="only one below"):
            store.put_if("a", bytes(8 * MEGABYTE), etag="")

    def test_put_without_metadata_removes_the_old_ones(self, store: ObjectStore) -> None:
        store.put("a", b"same", metadata={"title": "old"})
        store.put("a", b"same")
        info = store.head("a")
        assert info is not None
        assert dict(info.metadata) == {}

    def test_only_the_metadata_of_the_same_content_change(self, store: ObjectStore) -> None:
        first = store.put("a", b"same", metadata={"title": "old"})
        second = store.put("a", b"same", metadata={"title": "new"})
        info = store.head("a")
        assert info is not None
        assert (dict(info.metadata), second.etag) == ({"title": "new"}, first.etag)

    @pytest.mark.parametrize("size", [0, 5, 9 * MEGABYTE])
    def test_etag_depends_on_the_content_alone(self, store: ObjectStore, size: int) -> None:
        content = b"x" * size
        etags = {
            store.put("a", content).etag,
            store.put("b", io.BytesIO(content), metadata={"title": "other"}).etag,
            *(info.etag for info in store.list()),
        }
        assert len(etags) == 1
        assert store.put("a", content + b"!").etag not in etags

    @pytest.mark.parametrize(
        "metadata",
        [
            {"title": "Störung: Größe ≥ 5 — 日本語 🔥"},
            {"title": ""},
            {"title": "  two  spaces  "},
            {"title": "=?utf-8?q?not_encoded?="},
            {"title": "100%25 100% %C3%A9"},
            {"title": "line\nend\ttab\r\n\x00\x7f"},
            {"documentTitle": "a", "documenttitle": "b", "Größe": "c", "": "d", "with space": "e"},
            {"opx-metadata": "e30="},
            {"title": "x" * 1300},
        ],
    )
    def test_metadata_come_back_as_they_were_put(self, store: ObjectStore, metadata: dict[str, str]) -> None:
        before = dict(metadata)
        small = store.put("small", b"text", metadata=metadata)
        large = store.put("large", Trickle(100), metadata=metadata)  # type: ignore[arg-type]
        assert metadata == before
        assert dict(small.metadata) == dict(large.metadata) == metadata
        for key in ("small", "large"):
            info = store.head(key)
            assert info is not None
            assert dict(info.metadata) == metadata

    @pytest.mark.parametrize("metadata", [{"title": "x" * 1400}, {"title": "\ud800"}, {"title": 5}])
    def test_metadata_that_no_header_can_carry_are_refused(self, store: ObjectStore, metadata: dict[str, str]) -> None:
        with pytest.raises(InvalidInputError, match=r"metadata|surrogate"):
            store.put("a", b"text", metadata=metadata)
        assert store.head("a") is None

    @pytest.mark.parametrize("key", MALFORMED_KEYS)
    def test_malformed_key_is_refused(self, store: ObjectStore, key: str) -> None:
        with pytest.raises(InvalidInputError, match="malformed"):
            store.put(key, b"text")
        assert keys(store) == []

    def test_an_object_is_removed_on_condition_only_while_it_is_the_same(self, store: ObjectStore) -> None:
        old = store.put("a.md", b"old")
        new = store.put("a.md", b"new")
        assert not store.delete("a.md", etag=old.etag)
        assert store.head("a.md") is not None
        assert store.delete("a.md", etag=new.etag)
        assert store.head("a.md") is None

    def test_removing_on_condition_what_is_not_there_does_nothing(self, store: ObjectStore) -> None:
        assert store.delete("a.md", etag="0" * 32)
        assert store.head("a.md") is None

    @pytest.mark.parametrize("key", [*MALFORMED_KEYS, "\ud800"])
    def test_nothing_is_found_or_removed_under_a_malformed_key(self, store: ObjectStore, key: str) -> None:
        store.put("a", b"text")
        store.delete(key)
        assert store.head(key) is None
        with pytest.raises(ObjectNotFoundError):
            store.open(key)
        assert keys(store) == ["a"]

    def test_keys_that_look_alike_are_different_objects(self, store: ObjectStore) -> None:
        for key in KEYS_THAT_LOOK_ALIKE:
            store.put(key, key.encode(), metadata={"key": key[:50]})
        for key in KEYS_THAT_LOOK_ALIKE:
            info = store.head(key)
            assert info is not None
            assert (read(store, key), info.metadata) == (key.encode(), {"key": key[:50]})
        assert keys(store) == sorted(KEYS_THAT_LOOK_ALIKE, key=str.encode)

    def test_removed_object_is_gone_and_others_stay(self, store: ObjectStore) -> None:
        for key in ("a", "a/b", "a/c"):
            store.put(key, b"text", metadata={"title": "t"})
        store.delete("a")
        store.delete("a/b")
        assert store.head("a") is None
        assert keys(store) == ["a/c"]

    def test_removing_what_is_missing_does_nothing(self, store: ObjectStore) -> None:
        store.delete("missing")
        store.delete("missing/too")

    def test_many_objects_are_removed_at_once_and_others_stay(self, store: ObjectStore) -> None:
        many = [f"a/{number}" for number in range(12)]
        for key in (*many, "a", "b/1"):
            store.put(key, b"text", metadata={"title": "t"})
        store.delete_many(iter([*many, "missing", "../malformed"]))
        assert keys(store) == ["a", "b/1"]
        store.delete_many([])
        assert keys(store) == ["a", "b/1"]

    def test_object_can_be_put_again_after_its_removal(self, store: ObjectStore) -> None:
        store.put("a/b", b"old", metadata={"title": "old"})
        store.delete("a/b")
        store.put("a/b", b"new")
        info = store.head("a/b")
        assert info is not None
        assert (read(store, "a/b"), dict(info.metadata)) == (b"new", {})

    def test_empty_store_lists_nothing(self, store: ObjectStore) -> None:
        assert list(store.list()) == []
        assert list(store.list("missing/")) == []

    def test_list_is_ordered_by_the_bytes_of_the_keys(self, store: ObjectStore) -> None:
        names = ["a/z", "a", "a.b", "b/ä", "b/z", "B", "\uffee", "\U00010000"]
        for name in names:
            store.put(name, b"text")
        assert keys(store) == sorted(names, key=str.encode)

    def test_list_takes_any_prefix(self, store: ObjectStore) -> None:
        for name in ("docs/run/a", "docs/run/b", "docs/running", "docs", "Docs/run/a"):
            store.put(name, b"text")
        assert keys(store, "docs/run") == ["docs/run/a", "docs/run/b", "docs/running"]
        assert keys(store, "docs/run/") == ["docs/run/a", "docs/run/b"]
        assert keys(store, "docs/run/b") == ["docs/run/b"]
        assert keys(store, "docs//") == []
        assert keys(store, "../") == []

    def test_list_goes_on_behind_any_key(self, store: ObjectStore) -> None:
        for name in ("a", "b/1", "b/2", "c", "\uffee", "\U00010000"):
            store.put(name, b"text")
        assert [one.key for one in store.list(after="b/1")] == ["b/2", "c", "\uffee", "\U00010000"]
        assert [one.key for one in store.list(after="b/0")] == ["b/1", "b/2", "c", "\uffee", "\U00010000"]
        assert [one.key for one in store.list("b/", after="b/1")] == ["b/2"]
        assert [one.key for one in store.list("b/", after="\uffee")] == []

    def test_list_returns_size_etag_and_location(self, store: ObjectStore) -> None:
        put = store.put("a/b", b"text", metadata={"title": "t"})
        (listed,) = store.list()
        assert (listed.key, listed.size, listed.etag, listed.location) == (put.key, 4, put.etag, put.location)

    def test_list_goes_on_beyond_a_thousand_objects(self, store: ObjectStore) -> None:
        names = [f"n/{number:04}" for number in range(1005)]
        for name in names:
            store.put(name, b"")
        assert keys(store, "n/") == names

    @pytest.mark.parametrize("size", [0, 100, 20 * MEGABYTE])
    def test_stream_is_stored_in_bounded_memory(self, store: ObjectStore, size: int) -> None:
        stream = Trickle(size)
        info = store.put("large", stream)  # type: ignore[arg-type]
        digest = hashlib.sha256()
        with store.open("large") as stored:
            while block := stored.read(MEGABYTE):
                digest.update(block)
        assert (info.size, digest.digest()) == (size, stream.digest.digest())
        assert stream.largest_read <= 8 * MEGABYTE

    def test_stream_is_read_from_its_position_and_left_open(self, store: ObjectStore) -> None:
        stream = io.BytesIO(b"skipped text")
        stream.seek(8)
        assert store.put("a", stream).size == 4
        assert read(store, "a") == b"text"
        assert not stream.closed

    @pytest.mark.parametrize("breaks_at", [64 * 1024, 10 * MEGABYTE])
    def test_stream_that_breaks_leaves_the_old_object(self, store: ObjectStore, breaks_at: int) -> None:
        store.put("a", b"old", metadata={"title": "old"})
        with pytest.raises(ValueError, match="broke"):
            store.put("a", Trickle(12 * MEGABYTE, breaks_at=breaks_at), metadata={"title": "new"})  # type: ignore[arg-type]
        info = store.head("a")
        assert info is not None
        assert (read(store, "a"), dict(info.metadata)) == (b"old", {"title": "old"})

    def test_reader_keeps_the_object_that_it_opened(self, store: ObjectStore) -> None:
        store.put("replaced", b"old" * MEGABYTE)
        store.put("removed", b"old" * MEGABYTE)
        with store.open("replaced") as replaced, store.open("removed") as removed:
            store.put("replaced", b"new")
            store.delete("removed")
            assert replaced.read() == removed.read() == b"old" * MEGABYTE
        assert read(store, "replaced") == b"new"

    def test_stream_of_an_object_reads_lines_and_parts(self, store: ObjectStore) -> None:
        store.put("chunks.jsonl", b'{"a": 1}\n{"a": 2}\n{"a": 3}')
        with store.open("chunks.jsonl") as stream:
            assert stream.readline() == b'{"a": 1}\n'
            assert stream.read(4) == b'{"a"'
            assert list(stream) == [b": 2}\n", b'{"a": 3}']

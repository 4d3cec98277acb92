"""Readers of the embedded index that follow commits by what these changed, and see what one sees that reads everything."""

from __future__ import annotations

import errno
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.adapters.embedded import index_writer, segments
from opx.adapters.embedded.search_index import EmbeddedIndex, _View
from opx.adapters.embedded.segment_map import SegmentMap
from opx.adapters.embedded.segments import SPREAD, IndexDatabase, SegmentRow, SharedFields
from opx.adapters.embedded.vector_files import Rows, VectorWriter
from opx.domain.scopes import Scope
from opx.ports import DocumentChange, SearchFilter, SearchRequest
from opx_testing.entries import EVERYONE, a_change, a_removal, a_unit_vector, an_entry, any_vector
from tests.support.embedded_index_writer import changes, open_index

TENANTS = (Scope(), Scope("a"), Scope("b"))
SCOPES = tuple(scope.key for scope in TENANTS)
NAMES, DAYS = ("x", "y", "z"), (None, 10, 11, 12)


@contextmanager
def opened(folder: Path) -> Iterator[EmbeddedIndex]:
    with closing(open_index(folder)) as index:
        yield index


def view_of(index: EmbeddedIndex) -> _View:
    with index._snapshot() as view:
        return view


def whole(folder: Path) -> SegmentMap:
    """The map of a reader that reads everything."""
    with closing(IndexDatabase(folder / "index.db")) as database:
        return SegmentMap(database.segments())


def seen(found: SegmentMap, where: SearchFilter) -> tuple[object, ...]:
    """The result of a filter: locations, the slots of each entry, those of segments, and counts."""
    allowed = found.allowed(where)
    entries = np.flatnonzero(np.repeat(allowed, found.counts))
    locations = found.locations(entries.tolist())
    runs = [part.tolist() for part in (*found.runs_at(entries), *found.runs_of(allowed))]
    shares = round(found.share(allowed), 9), found.live_in(where.scopes), found.live
    return locations, runs, shares, found.entries_at(locations, allowed).size


def filters() -> Iterator[SearchFilter]:
    """One for each field, and combinations."""
    for scopes in (SCOPES[:1], SCOPES[1:], SCOPES, ("nobody",)):
        yield SearchFilter(scopes=scopes)
    for name, value in product(("categories", "tiers", "languages", "document_ids"), NAMES):
        chosen: dict[str, Any] = {name: (value, "other")}
        yield SearchFilter(scopes=SCOPES, **chosen)
    for name, value in product(("tags", "also_tags", "resources", "also_resources"), NAMES):
        chosen = {name: (value,)}
        yield SearchFilter(scopes=SCOPES[:2], **chosen)
    for first, end in ((11, None), (None, 11), (10, 12)):
        yield SearchFilter(scopes=SCOPES, updated_from=first, updated_before=end)
    yield SearchFilter(scopes=SCOPES[:2], tags=("x", "z"), also_resources=("y",), languages=("x", "y"))


def a_row(chance: random.Random, number: int, slot: int) -> SegmentRow:
    count = chance.randint(1, 3)
    each = [chance.choice((1, 1, 2)) for _ in range(count)]
    several = np.array(each, SPREAD).tobytes() if sum(each) > count else b""

    def names() -> str:
        return "\n".join(chance.sample(NAMES, chance.randint(0, 3)))

    return SegmentRow(
        number, slot, count, sum(each), chance.choice(SCOPES), chance.choice(NAMES), chance.choice(NAMES),
        chance.choice(NAMES), chance.choice(NAMES), names(), names(), chance.choice(DAYS), several,
    )  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8))
def test_map_after_commits_is_that_of_all_rows(seed: int, commits: list[tuple[int, int]]) -> None:
    chance, slot = random.Random(seed), 0
    live: list[SegmentRow] = []
    history: list[tuple[SegmentMap, list[SegmentRow]]] = [(SegmentMap([]), [])]
    for added, removed in commits:
        gone = chance.sample(live, min(removed, len(live)))
        fresh = []
        for _ in range(added):
            fresh.append(a_row(chance, chance.getrandbits(62), slot))
            slot += fresh[-1].slots
        live = [row for row in live if row not in gone] + fresh
        later = history[-1][0].after(fresh, [row.id for row in gone])
        assert later is not None
        history.append((later, live))
    for found, rows in history:  # earlier views didn't change
        expected = SegmentMap(rows)
        assert all(seen(found, where) == seen(expected, where) for where in filters())
        fields = [SharedFields(*(getattr(row, name) for name in SharedFields.__struct_fields__)) for row in rows]
        assert [found.shared(row.id) for row in rows] == fields


def test_map_is_continued_once() -> None:
    chance = random.Random(3)
    first = SegmentMap([a_row(chance, 1, 0)])
    assert first.after([a_row(chance, 2, 10)], [])
    assert first.after([a_row(chance, 3, 10)], []) is None


def a_random_change(chance: random.Random, index: EmbeddedIndex, round_number: int) -> DocumentChange:
    source = f"page-{chance.randrange(6)}.md"
    scope, tags = chance.choice(TENANTS), tuple(chance.sample(NAMES, chance.randint(0, 2)))
    entries = [
        an_entry(
            f"common {source} {round_number} {n}", source=source, index=n, document_id=f"{source} {round_number}",
            tags=tags, scope=scope, category=chance.choice(("runbooks/procedures", "postmortems")),
            vectors=[any_vector(f"{source} {round_number} {n} {at}") for at in range(chance.choice((1, 1, 2)))],
        )
        for n in range(chance.randint(1, 4))
    ]  # fmt: skip
    superseded = index.references(entries[0].indexed.key_id)
    return a_removal(entries[0], superseded) if chance.random() < 0.2 else a_change(*entries, superseded=superseded)


@pytest.mark.parametrize("seed", range(3))
def test_two_processes_that_write_and_read_see_the_same(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with opened(tmp_path) as one, opened(tmp_path) as other:
        for round_number in range(12):
            writer = chance.choice((one, other))
            writer.apply([a_random_change(chance, writer, round_number) for _ in range(chance.randint(1, 2))])
            for reader in chance.sample((one, other), chance.randint(1, 2)):
                found, expected = view_of(reader).segments, whole(tmp_path)
                wheres = [*filters(), SearchFilter(scopes=SCOPES, categories=("postmortems",))]
                assert all(seen(found, where) == seen(expected, where) for where in wheres)


class TestFollowing:
    """A reader that was at an earlier commit."""

    def test_it_reads_what_changed_and_keeps_the_rest(self, tmp_path: Path) -> None:
        with opened(tmp_path) as writer, opened(tmp_path) as reader:
            writer.apply(changes(writer, "w", 0))
            first = view_of(reader)
            for version in range(1, 4):
                writer.apply(changes(writer, "w", version))
            later = view_of(reader)
            assert later.segments._arrays is first.segments._arrays
            assert reader._database.changed_since(first.generation)

    def test_it_reads_all_after_a_commit_of_an_earlier_release(self, tmp_path: Path) -> None:
        with opened(tmp_path) as writer, opened(tmp_path) as reader:
            writer.apply(changes(writer, "w", 0))
            known = view_of(reader).generation
            writer.apply(changes(writer, "w", 1))
            with closing(sqlite3.connect(tmp_path / "index.db")) as earlier, earlier:
                earlier.execute("DELETE FROM commits WHERE generation = (SELECT MAX(generation) FROM commits)")
            assert reader._database.changed_since(known) is None
            assert seen(view_of(reader).segments, EVERYONE) == seen(whole(tmp_path), EVERYONE)
            writer.apply(changes(writer, "w", 2))
            assert seen(view_of(reader).segments, EVERYONE) == seen(whole(tmp_path), EVERYONE)

    def test_it_reads_all_if_it_is_too_far_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(segments, "_COMMITS_KEPT", 3)
        with opened(tmp_path) as writer, opened(tmp_path) as reader:
            writer.apply(changes(writer, "w", 0))
            known = view_of(reader).generation
            for version in range(1, 6):
                writer.apply(changes(writer, "w", version))
            assert reader._database.changed_since(known) is None
            assert seen(view_of(reader).segments, EVERYONE) == seen(whole(tmp_path), EVERYONE)

    def test_arrays_that_are_mostly_dead_are_made_anew(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("opx.adapters.embedded.segment_map._DEAD_KEPT", 4)
        with opened(tmp_path) as index:
            for version in range(12):
                index.apply(changes(index, "w", version))
                found = view_of(index).segments
                assert found._arrays.ids.count <= 2 * 2 + 4 + 2
                assert seen(found, EVERYONE) == seen(whole(tmp_path), EVERYONE)

    def test_a_long_look_at_an_old_state_stays_whole_while_a_hundred_commits_pass(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index_writer, "_DEAD_ROWS_KEPT", 20)  # so that the vectors are compacted meanwhile
        with opened(tmp_path) as writer, opened(tmp_path) as reader:
            writer.apply(changes(writer, "w", 3))
            with reader._snapshot() as view:
                slots = np.arange(view.segments.slots)
                before = seen(view.segments, EVERYONE), view.rows.vectors(slots)
                for version in range(4, 104):
                    writer.apply(changes(writer, "w", version))
                assert seen(view.segments, EVERYONE) == before[0]
                assert (view.rows.vectors(slots) == before[1]).all()
            assert seen(view_of(reader).segments, EVERYONE) == seen(whole(tmp_path), EVERYONE)
            assert view_of(reader).generation == view_of(writer).generation


class TestCopiedHomes:
    """Two copies of a home that were changed apart."""

    def test_reader_of_one_follows_the_other_that_takes_its_place(self, tmp_path: Path) -> None:
        ours, theirs = tmp_path / "ours", tmp_path / "theirs"
        with opened(ours) as index:
            index.apply(changes(index, "w", 0))
        shutil.copytree(ours, theirs)
        with opened(theirs) as other:
            for version in (1, 2, 3):
                other.apply(changes(other, "w", version))
        with opened(ours) as reader:
            reader.apply(changes(reader, "v", 4))
            known = view_of(reader).generation
            for path in theirs.glob("rows*"):
                shutil.copy(path, ours)
            with (
                closing(sqlite3.connect(theirs / "index.db")) as source,
                closing(sqlite3.connect(ours / "index.db")) as target,
            ):
                source.backup(target)
            assert reader._database.changed_since(known) is None
            assert seen(view_of(reader).segments, EVERYONE) == seen(whole(theirs), EVERYONE)

    def test_home_that_was_copied_over_another_takes_changes(self, tmp_path: Path) -> None:
        """tantivy counts on from an earlier number: it would give a file the name of one that is there."""
        ours, theirs = tmp_path / "ours", tmp_path / "theirs"
        with opened(ours) as index:
            index.apply([*changes(index, "w", 0), a_change(an_entry("common stays", source="s.md"))])
        shutil.copytree(ours, theirs)
        for folder, versions in ((ours, (1, 2, 3)), (theirs, (1,))):
            with opened(folder) as index:
                for version in versions:
                    index.apply(changes(index, "w", version))
        shutil.copytree(theirs, ours, dirs_exist_ok=True)
        with opened(ours) as index:
            for version in range(2, 6):
                index.apply(changes(index, "w", version))
            found = index.search(SearchRequest(EVERYONE, text="common", vector=a_unit_vector(1), depth=100))
            assert {chunk.chunk.content.split()[-2] for chunk in found.chunks.values()} == {"5", "common"}


def test_full_disk_stops_a_compaction_and_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_writer, "_DEAD_ROWS_KEPT", 5)
    with opened(tmp_path) as index:
        for version in (4, 9, 14):
            index.apply(changes(index, "w", version))
        put = VectorWriter.put

        def full(self: VectorWriter, slot: int, rows: Rows) -> None:
            if "-" in self._records._path.name:
                raise OSError(errno.ENOSPC, "No space left on device")
            put(self, slot, rows)

        with monkeypatch.context() as patch:
            patch.setattr(VectorWriter, "put", full)
            index.apply(changes(index, "w", 19))
            assert sorted(path.name for path in tmp_path.glob("rows*")) == ["rows.i8", "rows.lo"]
            assert seen(view_of(index).segments, EVERYONE) == seen(whole(tmp_path), EVERYONE)
        index.apply(changes(index, "w", 1))
        assert len(list(tmp_path.glob("rows-*"))) == 2
        assert seen(view_of(index).segments, EVERYONE) == seen(whole(tmp_path), EVERYONE)


@pytest.mark.parametrize("length", [0, 8, 11])
def test_note_of_a_commit_that_was_cut_short_is_not_followed(tmp_path: Path, length: int) -> None:
    with opened(tmp_path) as index:
        index.apply(changes(index, "w", 0))
        assert view_of(index).segments.live
        index.apply(changes(index, "w", 1))
        with closing(sqlite3.connect(tmp_path / "index.db")) as damaged, damaged:
            damaged.execute("UPDATE commits SET segments = substr(segments, 1, ?)", (length,))
        assert seen(view_of(index).segments, EVERYONE) == seen(whole(tmp_path), EVERYONE)


def test_ten_thousand_tenants_see_their_own_document(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        entries = (an_entry(f"common {n}", scope=Scope(f"client-{n}"), source=f"{n}.md") for n in range(10_000))
        index.apply(a_change(entry) for entry in entries)
        assert index.count(SearchFilter(scopes=(Scope("client-9999").key,))) == 1
        last = an_entry("common again", scope=Scope("client-9999"), source="9999.md")
        index.apply([a_change(last, superseded=index.references(last.indexed.key_id))])
        for number, content in ((0, "common 0"), (9999, "common again")):
            mine = SearchFilter(scopes=(Scope(f"client-{number}").key,))
            found = index.search(SearchRequest(mine, text="common", vector=a_unit_vector(1), depth=5))
            assert [chunk.chunk.content for chunk in found.chunks.values()] == [content]
        assert seen(view_of(index).segments, EVERYONE) == seen(whole(tmp_path), EVERYONE)


def test_document_of_thirty_thousand_chunks_is_replaced_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as writer, opened(tmp_path) as reader:
        writer.apply([a_change(an_entry("common"))])
        assert view_of(reader).segments.live == 1
        vector = a_unit_vector(1)
        entries = (
            an_entry(f"common {n}", source="long.md", index=n, document_id="long", vector=vector) for n in range(30_000)
        )
        long = an_entry(source="long.md").indexed.key_id
        written = writer.apply([DocumentChange(long, "long", entries)])
        assert reader.count(EVERYONE) == 30_001
        writer.apply([DocumentChange(long, "", superseded=written[0])])
        assert reader.count(EVERYONE) == 1
        assert view_of(reader).segments._arrays.counts.count == 2

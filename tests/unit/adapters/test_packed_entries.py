"""Entries of the embedded index are stored compressed; those that are not are read as they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.adapters.embedded.segments import packed, unpacked
from opx.errors import IncompatibleIndexError, IndexUnavailableError
from opx.ports import SearchRequest
from opx_testing.entries import EVERYONE, a_change, a_unit_vector, an_entry
from tests.support.embedded_index_writer import open_index

QUESTION = SearchRequest(EVERYONE, text="common", vector=a_unit_vector(1), depth=10)


@given(st.text())
def test_line_is_the_same_after_packing(line: str) -> None:
    assert unpacked(packed(line)) == line


def test_repeated_keys_cost_little() -> None:
    line = '{"chunkId":"0b359e0bf5f28541fa076e73ef899897","documentId":"","chunkIndex":5,"content":"","tokenCount":93}'
    assert len(packed(line)) < len(line) / 2


@pytest.mark.parametrize("damage", [lambda line: line[:-3], lambda line: b"\xff" + line, lambda _: b""])
def test_damaged_line_is_reported(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(IndexUnavailableError, match="damaged"):
        unpacked(damage(packed("Restart the service and watch its log.")))


def test_line_that_was_stored_as_text_is_read(tmp_path: Path) -> None:
    with closing(open_index(tmp_path)) as index:
        index.apply([a_change(an_entry("common first", source="a.md"))])
        before = index.search(QUESTION)
    with closing(sqlite3.connect(tmp_path / "index.db")) as database, database:
        rows = database.execute("SELECT segment, position, chunk FROM entries").fetchall()
        lines = [(unpacked(chunk), segment, position) for segment, position, chunk in rows]
        database.executemany("UPDATE entries SET chunk = ? WHERE segment = ? AND position = ?", lines)
    with closing(open_index(tmp_path)) as index:
        assert index.search(QUESTION).chunks == before.chunks


@pytest.mark.parametrize("other", ["5", "7"])
def test_index_of_another_format_is_refused(tmp_path: Path, other: str) -> None:
    open_index(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "index.db")) as database, database:
        database.execute("UPDATE meta SET value = replace(value, 'format-6', 'format-' || ?)", (other,))
    with pytest.raises(IncompatibleIndexError, match="opx reindex"):
        open_index(tmp_path)

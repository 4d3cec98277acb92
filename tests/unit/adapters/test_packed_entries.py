"""Entries of the embedded index are stored compressed; those of an earlier release are read as they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.adapters.embedded.search_index import FORMATS
from opx.adapters.embedded.segments import packed, unpacked
from opx.errors import IncompatibleIndexError, IndexUnavailableError
from opx.ports import SearchRequest
from tests.support.builders import EVERYONE, a_change, a_unit_vector, an_entry
from tests.support.earlier_index import as_of_format_4
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


def identity(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "index.db")) as database:
        return str(database.execute("SELECT value FROM meta WHERE name = 'identity'").fetchone()[0])


def test_index_of_an_earlier_release_is_read_and_changed(tmp_path: Path) -> None:
    with closing(open_index(tmp_path)) as index:
        index.apply([a_change(an_entry("common first", source="a.md"))])
        before = index.search(QUESTION)
    as_of_format_4(tmp_path)
    with closing(open_index(tmp_path)) as index, closing(open_index(tmp_path)) as reader:
        assert index.search(QUESTION).chunks == reader.search(QUESTION).chunks == before.chunks
        index.apply([a_change(an_entry("common second", source="b.md"))])
        for each in (index, reader):
            texts = {chunk.chunk.content for chunk in each.search(QUESTION).chunks.values()}
            assert texts == {"common first", "common second"}
    assert identity(tmp_path).endswith(f"format-{FORMATS[0]}")
    with closing(open_index(tmp_path)) as index:
        assert index.count(EVERYONE) == 2


def test_index_of_an_unknown_format_is_refused(tmp_path: Path) -> None:
    open_index(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "index.db")) as database, database:
        database.execute("UPDATE meta SET value = replace(value, 'format-6', 'format-7') WHERE name = 'identity'")
    with pytest.raises(IncompatibleIndexError, match="opx reindex"):
        open_index(tmp_path)

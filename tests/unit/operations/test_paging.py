from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.errors import InvalidInputError
from opx.operations.paging import page_of, read_token, token

Entry = tuple[str, str]
ENTRIES = st.lists(st.tuples(st.sampled_from("abc"), st.uuids().map(str)), max_size=30, unique=True)


def pages(entries: list[Entry], limit: int) -> list[Entry]:
    """All entries, page by page; those that are equal come in another order each time."""
    found: list[Entry] = []
    after = ""
    flip = False
    while True:
        place = read_token(after, 2)
        flip = not flip
        stored = sorted(entries, key=lambda entry: (entry[0], entry[1] if flip else entry[1][::-1]))
        begun = [entry for entry in stored if not place or entry[0] >= place[0]]
        page, after = page_of(begun, order=lambda e: (e[0],), name=lambda e: e[1], limit=limit, after=place)
        assert len(page) <= limit
        found += page
        assert len(found) <= len(entries)
        if not after:
            return found


@given(ENTRIES, st.integers(1, 7))
def test_pages_hold_everything_once_and_in_order(entries: list[Entry], limit: int) -> None:
    assert pages(entries, limit) == sorted(entries)


def test_entry_deleted_between_two_pages_leaves_no_gap() -> None:
    entries = [("a", "1"), ("a", "2"), ("a", "3"), ("a", "4")]

    def page(left: list[Entry], after: str) -> tuple[tuple[Entry, ...], str]:
        return page_of(left, order=lambda e: (e[0],), name=lambda e: e[1], limit=2, after=read_token(after, 2))

    _, after = page(entries, "")
    assert page([entries[0], entries[2], entries[3]], after) == ((entries[2], entries[3]), "")


@given(st.lists(st.text(), min_size=1, max_size=3))
def test_a_token_keeps_its_parts(parts: list[str]) -> None:
    assert read_token(token(*parts), len(parts)) == tuple(parts)


@pytest.mark.parametrize("text", ["é", "x", "W10", "bnVsbA", "WzFd", token("a"), token("a", "b", "c")])
def test_malformed_page_token_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a page token"):
        read_token(text, 2)

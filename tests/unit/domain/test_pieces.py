"""Texts and sequences in pieces of a limited size."""

from __future__ import annotations

from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.ids import batched, shortened


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [("", 1, ""), ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("a bcd", 3, "a…"), ("ab", 1, "…")],
)
def test_longer_text_ends_with_an_ellipsis(text: str, most: int, expected: str) -> None:
    assert shortened(text, most) == expected


@given(st.text(max_size=30), st.integers(1, 20))
def test_text_is_never_longer_than_the_limit(text: str, most: int) -> None:
    assert len(shortened(text, most)) <= most


@given(st.lists(st.integers()), st.integers(1, 5))
def test_batches_have_all_items_in_order_and_only_the_last_is_shorter(items: list[int], size: int) -> None:
    found = list(batched(items, size))
    assert [item for batch in found for item in batch] == items
    assert all(len(batch) == size for batch in found[:-1])


def test_no_more_items_are_read_than_the_batch_has() -> None:
    numbers = count()
    assert list(islice(batched(numbers, 3), 1)) == [[0, 1, 2]]
    assert next(numbers) == 3

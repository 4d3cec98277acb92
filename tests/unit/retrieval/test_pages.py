"""Hits of one search or two become documents, each with its hits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from opx.retrieval.judging import PASSAGES, pages_of
from tests.support.judging_support import Found, a_page, found_lists, pages_in, searched, titles

DISK, LOGS, POD = (a_page(title, f"{title} is full", title) for title in ("Disk", "Logs", "Pod"))


def test_nothing_found_is_no_page() -> None:
    assert pages_in(searched("disk")) == []


def test_documents_are_in_the_order_of_their_levels() -> None:
    found = searched("full", (LOGS, 1.0, 0.2), (DISK, 9.0, 0.9), (POD, 5.0, 0.5))
    pages = pages_in(found)
    assert titles(pages) == ["Disk", "Pod", "Logs"]
    assert [page.level for page in pages] == [found.levels[0], found.levels[1], found.levels[2]]


def test_equal_documents_are_in_the_order_of_their_ids() -> None:
    found = searched("full", (POD, 5.0, 0.5), (LOGS, 5.0, 0.5), (DISK, 5.0, 0.5))
    assert [page.document_id for page in pages_in(found)] == ["Disk", "Logs", "Pod"]


def test_level_is_the_mean_of_both_searches() -> None:
    whole = searched("full", (DISK, 9.0, 0.9), (LOGS, 1.0, 0.1))
    focused = searched("full", (POD, 9.0, 0.9), (DISK, 5.0, 0.5), (LOGS, 1.0, 0.1))
    found = {page.document_id: page for page in pages_of(whole, focused)}
    assert (found["Disk"].whole, found["Disk"].focused, found["Disk"].level) == pytest.approx((1, 0.5, 0.75))
    assert (found["Pod"].whole, found["Pod"].focused, found["Pod"].level) == pytest.approx((0, 1, 0.5))


def test_document_has_the_hits_of_both_searches_the_best_first() -> None:
    first, second, third = (a_page("Disk", f"part {n}", "d", n) for n in range(3))
    whole = searched("part", (first, 9.0, 0.9), (second, 2.0, 0.1), (POD, 0.1, 0.0))
    focused = searched("part", (third, 9.0, 0.9), (first, 8.0, 0.9), (POD, 0.1, 0.0))
    page = pages_of(whole, focused)[0]
    assert [hit.indexed.chunk.content for hit in page.hits] == ["part 0", "part 2", "part 1"]
    assert page.best is page.hits[0]


def test_chunk_that_both_found_has_the_ranks_of_the_focused_search() -> None:
    whole, focused = searched("full", (DISK, 9.0, 0.9)), searched("full", (POD, 9.0, 0.9), (DISK, 4.0, 0.4))
    (page,) = (page for page in pages_of(whole, focused) if page.document_id == "Disk")
    assert [(hit.lexical, hit.vector) for hit in page.hits] == [((2, 4.0), (2, 0.4))]


def test_evidence_is_the_first_hits_however_many_are_shown() -> None:
    many = [(a_page("Disk", f"disk number {n}", "d", n), 9.0 - n, 0.9 - n / 10) for n in range(PASSAGES + 3)]
    (page,) = pages_in(searched("disk", *many, per_document=10))
    assert len(page.hits) == PASSAGES + 3
    assert list(page.evidence) == list(page.hits[:PASSAGES])


@settings(deadline=None)
@given(found_lists, found_lists)
def test_every_hit_is_in_one_page_once(one: list[Found], other: list[Found]) -> None:
    whole, focused = searched("disk full", *one), searched("disk full", *other)
    pages = pages_of(whole, focused)
    entries = [hit.indexed.entry_id for page in pages for hit in page.hits]
    assert len(entries) == len(set(entries))
    assert set(entries) == {hit.indexed.entry_id for found in (whole, focused) for hit in found.hits}
    assert [page.level for page in pages] == sorted((page.level for page in pages), reverse=True)
    assert all(0 <= page.level <= 1 for page in pages)

"""Hits of a search become documents, each with its hits."""

from __future__ import annotations

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


def test_document_has_its_hits_the_best_first_and_the_level_of_the_best() -> None:
    first, second = (a_page("Disk", f"part {n}", "d", n) for n in range(2))
    found = searched("part", (second, 9.0, 0.9), (POD, 7.0, 0.7), (first, 5.0, 0.5), (LOGS, 0.1, 0.0))
    page = pages_of(found)[0]
    assert [hit.indexed.chunk.content for hit in page.hits] == ["part 1", "part 0"]
    assert page.best is page.hits[0]
    assert page.level == found.levels[0]


def test_evidence_is_the_first_hits_however_many_are_shown() -> None:
    many = [(a_page("Disk", f"disk number {n}", "d", n), 9.0 - n, 0.9 - n / 10) for n in range(PASSAGES + 3)]
    (page,) = pages_in(searched("disk", *many, per_document=10))
    assert len(page.hits) == PASSAGES + 3
    assert list(page.evidence) == list(page.hits[:PASSAGES])


@settings(deadline=None)
@given(found_lists)
def test_every_hit_is_in_one_page_once(some: list[Found]) -> None:
    found = searched("disk full", *some)
    pages = pages_of(found)
    entries = [hit.indexed.entry_id for page in pages for hit in page.hits]
    assert len(entries) == len(set(entries))
    assert set(entries) == {hit.indexed.entry_id for hit in found.hits}
    assert [page.level for page in pages] == sorted((page.level for page in pages), reverse=True)
    assert all(0 <= page.level <= 1 for page in pages)

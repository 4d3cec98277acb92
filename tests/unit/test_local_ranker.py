"""Thorough searches without a model of language: a second look at candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.queries import Fusion, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.ports import IndexEntry, SearchResponse
from opx.retrieval.confidence import question_parts
from opx.retrieval.hybrid import FusedHits, fused_hits
from opx.retrieval.local_ranker import CANDIDATES, FEATURES, pooled, ranked_parts, without_values
from opx.retrieval.searching import SearchRules
from opx.text.fields import words
from tests.fakes import WordsEmbedder
from tests.unit.test_query import a_query, a_text

THOROUGH = QueryConfig(mode=SearchMode.THOROUGH, min_confidence=0)
PAGES = [
    a_text("the disk of a database is full and writes fail", title="Database disk full"),
    a_text("the disk of a log collector is full", title="Log collector disk full"),
    a_text("pods restart again and again", title="Pods are crash looping"),
    a_text("certificates expire without notice", title="Certificate expired"),
]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    index = EmbeddedIndex(tmp_path / "index", model_id=WordsEmbedder.model_id, dimension=WordsEmbedder.dimension)
    yield index
    index.close()


def searched(*pages: tuple[IndexEntry, float, float], text: str = "disk full", total: int = 50) -> FusedHits:
    """What a search gave: each page with its BM25 and its cosine."""
    from opx.ports import Leg

    lexical = sorted(((page.indexed.entry_id, bm25) for page, bm25, _ in pages), key=lambda hit: -hit[1])
    vector = sorted(((page.indexed.entry_id, cosine) for page, _, cosine in pages), key=lambda hit: -hit[1])
    response = SearchResponse(
        Leg(tuple(lexical)),
        Leg(tuple(vector)),
        {page.indexed.entry_id: page.indexed for page, _, _ in pages},
        dict.fromkeys(words(text), 2),
        total,
    )
    return fused_hits(response, Fusion.MIN_MAX, 2, asked=words(text))


def found() -> FusedHits:
    return searched(*((page, 9.0 - n, 0.9 - n / 10) for n, page in enumerate(PAGES)))


class TestParts:
    def test_every_hit_has_every_input_and_all_are_finite(self) -> None:
        rows = ranked_parts("disk full", found(), pooled(found(), found(), 2))
        assert len(rows) == len(PAGES)
        assert all(set(FEATURES) <= set(row) and all(map(math.isfinite, row.values())) for row in rows)

    def test_a_title_that_is_the_question_is_covered_by_it(self) -> None:
        row = ranked_parts("Database disk full", found(), pooled(found(), found(), 2))[0]
        assert row["title_grams"] == 1.0

    def test_a_word_of_all_titles_tells_none_from_another(self) -> None:
        rows = ranked_parts("disk full", found(), pooled(found(), found(), 2))
        assert rows[0]["title_missing"] > 0
        assert rows[2]["passage_rare"] == 0

    @settings(deadline=None, max_examples=50)
    @given(st.text(max_size=60))
    def test_no_question_breaks_them(self, text: str) -> None:
        hits = searched(*((page, 1.0, 0.5) for page in PAGES), text=text)
        assert all(map(math.isfinite, question_parts(text, hits).values()))
        for row in ranked_parts(text, hits, pooled(hits, hits, 2)):
            assert all(map(math.isfinite, row.values()))

    def test_no_hits_have_no_parts(self) -> None:
        nothing = searched()
        assert ranked_parts("disk", nothing, pooled(nothing, nothing, 2)) == []
        parts = question_parts("disk", nothing)
        assert {name: value for name, value in parts.items() if value} == {"length": math.log1p(2)}


class TestPool:
    def test_what_either_search_has_is_in_it(self) -> None:
        one = searched((PAGES[0], 9.0, 0.9), (PAGES[1], 5.0, 0.5))
        other = searched((PAGES[2], 9.0, 0.9), (PAGES[0], 5.0, 0.5))
        titles = [hit.indexed.chunk.title for hit in pooled(one, other, 2).hits]
        assert sorted(titles) == sorted(page.indexed.chunk.title for page in PAGES[:3])
        assert titles[0] == "Database disk full"

    def test_it_has_so_many_documents_at_most(self) -> None:
        many = [a_text(f"disk number {n}", title=f"Disk {n}") for n in range(CANDIDATES + 5)]
        hits = searched(*((page, float(n), 0.1) for n, page in enumerate(many)))
        assert len(pooled(hits, hits, 2).hits) == CANDIDATES

    def test_levels_are_means_and_fall_by_document(self) -> None:
        pool = pooled(found(), found(), 2)
        assert list(pool.levels) == sorted(pool.levels, reverse=True)
        assert pool.levels == pytest.approx(found().levels)


class TestThorough:
    def test_the_answer_says_what_ranked_it(self, index: EmbeddedIndex) -> None:
        answer = a_query(index, *PAGES).answer("disk full", THOROUGH)
        assert answer.ranked_by == "local"
        assert answer.results[0].parts is not None
        assert answer.results[0].parts.rerank is not None
        assert {"embed", "search", "judge"} <= set(answer.timings_ms)

    def test_balanced_answers_are_not_read_again(self, index: EmbeddedIndex) -> None:
        answer = a_query(index, *PAGES).answer("disk full", QueryConfig(min_confidence=0))
        assert answer.ranked_by == "fused"

    def test_reading_again_can_be_turned_off(self, index: EmbeddedIndex) -> None:
        answer = a_query(index, *PAGES, rules=SearchRules(rerank=False)).answer("disk full", THOROUGH)
        assert answer.ranked_by == "fused"

    def test_a_question_with_values_is_searched_for_without_them_too(self, index: EmbeddedIndex) -> None:
        question = "disk of database full on db-7.prod.test at 97.3% since 02:14"
        hits = found()
        assert without_values(question, hits) == "disk of database full on at since"
        answer = a_query(index, *PAGES).answer(question, THOROUGH)
        assert answer.results[0].title == "Database disk full"

    def test_results_keep_to_what_a_document_may_have(self, index: EmbeddedIndex) -> None:
        answer = a_query(index, *PAGES).answer("disk full", replace(THOROUGH, max_chunks_per_document=1))
        documents = [result.document_id for result in answer.results]
        assert len(documents) == len(set(documents))

    def test_nothing_found_is_no_error(self, index: EmbeddedIndex) -> None:
        assert a_query(index).answer("disk full", THOROUGH).results == ()

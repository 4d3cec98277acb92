"""One question searches tier after tier: what the first search computed is used by the next, and changes no hit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from opx.adapters.embedded import vectors
from opx.adapters.embedded.lexical import LexicalSearcher
from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.ports import SearchRequest, SearchResponse
from opx_testing.entries import EVERYONE, VECTOR_DIMENSION, a_change, an_entry, any_vector

CATEGORIES = {Tier.INTERNAL: "runbooks/procedures", Tier.SPECIALIZED: "security/cve", Tier.INTERNET: "web/forums"}
ENTRIES = 400
QUESTIONS = ("disk full", "replica lags", "disk of the replica", "certificate")


def opened(folder: Path) -> EmbeddedIndex:
    return EmbeddedIndex(folder, model_id="m", dimension=VECTOR_DIMENSION)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    index = opened(tmp_path / "index")
    texts = [f"{QUESTIONS[number % 4]} topic{number} {'lags ' * (number % 5)}" for number in range(ENTRIES)]
    tiers = [list(Tier)[max(2 - number % 5, 0)] for number in range(ENTRIES)]  # most are in the first one
    index.apply(
        a_change(an_entry(text, tier=tier, category=CATEGORIES[tier], vector=any_vector(text)))
        for text, tier in zip(texts, tiers, strict=True)
    )
    index.close()
    return tmp_path / "index"


def requests() -> Iterator[SearchRequest]:
    """Questions in turn, each for one tier after the other, with fewer hits and with more, and with words that count less."""
    for question in QUESTIONS:
        for tier in Tier:
            yield a_request(question, tier=tier)
    for depth in (5, 100, 10):
        yield a_request(QUESTIONS[0], depth)
    yield replace(a_request(QUESTIONS[0]), values=frozenset({"disk"}))


def a_request(question: str, depth: int = 5, tier: Tier = Tier.INTERNAL) -> SearchRequest:
    return SearchRequest(replace(EVERYONE, tiers=(tier.value,)), question, any_vector(question), depth)


def hits(response: SearchResponse) -> tuple[object, ...]:
    return response.lexical.hits, response.vector.hits, response.term_frequencies


def test_hits_are_those_of_a_search_alone(folder: Path) -> None:
    index = opened(folder)
    for request in requests():
        alone = opened(folder)
        assert hits(index.search(request)) == hits(alone.search(request))
        alone.close()
    index.close()


def test_a_change_is_found_by_the_same_question(folder: Path) -> None:
    index = opened(folder)
    request = next(requests())
    index.search(request)
    index.apply([a_change(an_entry("disk full", title="disk full", vector=request.vector))])
    response = index.search(request)
    assert response.chunks[response.lexical.hits[0][0]].chunk.title == "disk full"
    assert response.chunks[response.vector.hits[0][0]].chunk.title == "disk full"
    index.close()


def test_the_next_tier_computes_nothing_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_FEW_ROWS", 0)
    index = opened(folder)
    by_words = patch.object(LexicalSearcher, "_found", autospec=True, side_effect=LexicalSearcher._found)
    by_rows = patch.object(vectors._Query, "bounds", autospec=True, side_effect=vectors._Query.bounds)
    with by_words as found, by_rows as bounds:
        for tier in Tier:
            index.search(a_request(QUESTIONS[0], tier=tier))
    assert (found.call_count, bounds.call_count) == (1, 1)
    index.close()

"""The embedded engine and a node return the same hits in the example corpus."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean

import pytest
from opensearchpy import OpenSearch

from opx.ports import Leg, SearchFilter, SearchRequest, SearchResponse
from tests.opensearch.compare import NEEDED
from tests.opensearch.engines import EMBEDDED, NODE, Overlap, both_engines, overlap, overlaps
from tests.support.fakes import WordsEmbedder

CORPUS = Path(__file__).parents[2] / "corpus" / "documents"
EVERYTHING = SearchFilter(scopes=("global",))
DEPTH = 30
pytestmark = pytest.mark.opensearch
Answers = dict[str, tuple[SearchResponse, SearchResponse]]


def corpus_texts() -> dict[str, str]:
    """Texts by object key."""
    return {
        f"documents/{path.relative_to(CORPUS).as_posix()}": path.read_text(encoding="utf-8")
        for path in sorted(CORPUS.rglob("*.md"))
    }


def questions() -> list[str]:
    """The title and the first three lines of prose of each document."""
    queries: dict[str, None] = {}
    for text in corpus_texts().values():
        body = text.rpartition("\n---\n")[2] if text.startswith("---") else text
        titles = re.findall(r"^# (.+)$", body, re.MULTILINE)[:1]
        prose = [line for line in body.splitlines() if line and line[0].isalpha()][:3]
        queries |= dict.fromkeys([*titles, *prose])
    return list(queries)


@pytest.fixture(scope="module")
def answers(
    client: OpenSearch, names: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Answers]:
    embedder = WordsEmbedder()
    with both_engines(tmp_path_factory.mktemp("engines"), client, names(), embedder) as engines:
        for services in engines.values():
            for key, text in corpus_texts().items():
                services.store.put(key, text.encode())
            assert {outcome.result for outcome in services.manager.work()} == {"ingested"}
        requests = {q: SearchRequest(EVERYTHING, q, embedder.embed_query(q), DEPTH) for q in questions()}
        embedded, node = engines[EMBEDDED].index, engines[NODE].index
        yield {question: (embedded.search(request), node.search(request)) for question, request in requests.items()}


def test_lexical_legs_share_their_first_ten(answers: Answers) -> None:
    found = overlaps(answers, "lexical")
    assert len(found) >= 36
    assert fmean(each.same for each in found) >= NEEDED


def test_vector_legs_share_their_first_ten(answers: Answers) -> None:
    assert fmean(each.but_for_ties for each in overlaps(answers, "vector")) >= NEEDED


def test_lexical_scores_differ_by_one_factor(answers: Answers) -> None:
    ratios = [
        dict(node.lexical.hits)[entry] / score
        for embedded, node in answers.values()
        for entry, score in embedded.lexical.hits
        if entry in dict(node.lexical.hits)
    ]
    assert min(ratios) == pytest.approx(max(ratios), rel=1e-3)


def test_engines_count_the_same_terms(answers: Answers) -> None:
    for embedded, node in answers.values():
        assert embedded.term_frequencies == node.term_frequencies
        assert embedded.entry_count == node.entry_count


def a_leg(**scores: float) -> Leg:
    return Leg(tuple(scores.items()))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (a_leg(), a_leg(), (1.0, 1.0, True)),
        (a_leg(a=2, b=1), a_leg(a=4, b=2), (1.0, 1.0, True)),
        (a_leg(a=2, b=1), a_leg(b=2, a=1), (1.0, 1.0, False)),
        (a_leg(a=2, b=1), a_leg(a=2, c=1), (0.5, 0.5, False)),
        (a_leg(a=2, b=1), a_leg(a=2, c=1, b=1), (0.5, 1.0, False)),
        (a_leg(a=2, b=1), a_leg(), (0.0, 0.0, False)),
    ],
)
def test_overlap_counts_shared_hits_and_ties(one: Leg, other: Leg, expected: tuple[float, float, bool]) -> None:
    assert overlap("q", one, other, top=2) == Overlap("q", *expected)

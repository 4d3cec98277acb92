"""Candidates read again: what the reranker says decides the order, and what goes wrong with it costs nothing but that."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import QueryConfig
from opx.errors import ModelError
from opx.models.candidates import MAX_CANDIDATES as CANDIDATES
from opx.models.deadlines import within
from opx.ports import Candidate, Ranking
from opx.retrieval.hybrid import FusedHit
from opx.retrieval.judging import Judged
from opx.retrieval.query_language import Asked, asked_for
from opx.retrieval.searching import RerankStage
from tests.builders import an_entry

NO_KNOWLEDGE = KnowledgeModel({}, "")


class ScriptedReranker:
    name = "scripted"

    def __init__(self, give: Callable[[Sequence[Candidate]], Any]) -> None:
        self._give = give
        self.seen: list[Candidate] = []

    def rank(self, question: str, candidates: Sequence[Candidate], *, seconds: float) -> Ranking:
        self.seen = list(candidates)
        return Ranking(tuple(self._give(candidates)))


def hits(count: int) -> list[Judged]:
    """The likeliest first: h0, h1, ..."""
    entries = [an_entry(f"h{n}", document_id=f"d{n}") for n in range(count)]
    return [Judged(FusedHit(entry.indexed, 1.0, None, None), 1 - n / 100) for n, entry in enumerate(entries)]


def asked() -> Asked:
    return asked_for("disk full", QueryConfig(), NO_KNOWLEDGE)


def contents(judged: Sequence[Judged]) -> list[str]:
    return [one.hit.indexed.chunk.content for one in judged]


def rising(candidates: Sequence[Candidate]) -> list[float]:
    return [n / 100 for n in range(len(candidates))]


def test_the_rerankers_order_counts() -> None:
    about = asked()
    assert contents(RerankStage(ScriptedReranker(rising), 1).reordered(about, hits(3))) == ["h2", "h1", "h0"]
    assert about.ranked_by == "scripted"
    assert "rerank" in about.timings


def test_how_sure_the_first_hit_is_stays_what_the_calibrated_model_says() -> None:
    found = RerankStage(ScriptedReranker(rising), 1).reordered(asked(), hits(3))
    assert [one.confidence for one in found] == [1.0, 0.99, 0.98]
    assert [one.rerank for one in found] == [0.02, 0.01, 0.0]


def test_so_many_are_read_and_the_others_stay_behind_them() -> None:
    reranker = ScriptedReranker(rising)
    found = RerankStage(reranker, 1).reordered(asked(), hits(CANDIDATES + 2))
    assert len(reranker.seen) == CANDIDATES
    assert contents(found)[-2:] == [f"h{CANDIDATES}", f"h{CANDIDATES + 1}"]


def test_equal_scores_leave_the_order() -> None:
    assert contents(RerankStage(ScriptedReranker(lambda some: [0.5] * len(some)), 1).reordered(asked(), hits(3))) == [
        "h0",
        "h1",
        "h2",
    ]


def test_no_hits_are_not_sent() -> None:
    assert RerankStage(ScriptedReranker(lambda _: pytest.fail("asked")), 1).reordered(asked(), []) == []


@pytest.mark.parametrize(
    "nonsense",
    [
        lambda some: [],
        lambda some: [0.5] * (len(some) - 1),
        lambda some: [0.5] * (len(some) + 1),
        lambda some: [math.nan] * len(some),
        lambda some: [2.0] * len(some),
        lambda some: [-0.1] * len(some),
        lambda some: ["9"] * len(some),
    ],
)
def test_nonsense_leaves_the_order_and_is_told(nonsense: Callable[[Sequence[Candidate]], Any]) -> None:
    about = asked()
    assert contents(RerankStage(ScriptedReranker(nonsense), 1).reordered(about, hits(3))) == ["h0", "h1", "h2"]
    assert about.ranked_by == "fused"
    assert any("not reranked by scripted" in note for note in about.notes)


def test_a_failure_leaves_the_order_and_is_told() -> None:
    def fail(_: Sequence[Candidate]) -> list[float]:
        raise ModelError("throttled")

    about = asked()
    assert contents(RerankStage(ScriptedReranker(fail), 1).reordered(about, hits(2))) == ["h0", "h1"]
    assert any("throttled" in note for note in about.notes)


def test_nobody_waits_longer_than_the_time_there_is() -> None:
    def sleep(some: Sequence[Candidate]) -> list[float]:
        time.sleep(0.3)
        return [0.5] * len(some)

    about = asked()
    assert contents(RerankStage(ScriptedReranker(sleep), 0.01).reordered(about, hits(2))) == ["h0", "h1"]
    assert any("did not answer within 0.01 s" in note for note in about.notes)


def test_what_goes_wrong_within_a_time_is_raised_where_it_was_asked_for() -> None:
    with pytest.raises(ZeroDivisionError):
        within(1, lambda: 1 // 0, "dividing")

"""One list out of several tiers, by relevance and trust."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.retrieval.judging import calls_for_action, in_order


@dataclass(frozen=True)
class One:
    name: str
    confidence: float
    trust: float = 1.0
    warns: bool = False

    @property
    def score(self) -> float:
        return self.confidence * self.trust


def names(*some: One, last: tuple[One, ...] = ()) -> list[str]:
    return [one.name for one in in_order(some, last=last)]


def test_the_more_trusted_of_equally_likely_ones_is_first() -> None:
    assert names(One("vendor", 0.8, 0.9), One("ours", 0.8)) == ["ours", "vendor"]


def test_a_weak_hit_of_our_own_does_not_bury_a_strong_one_from_outside() -> None:
    assert names(One("ours, beside the point", 0.02), One("issue, to the point", 0.96, 0.75)) == [
        "issue, to the point",
        "ours, beside the point",
    ]


def test_warning_ranks_behind_a_likely_page_and_before_an_unlikely_one() -> None:
    warning, page = One("warning", 0.9, warns=True), One("page", 0.6)
    assert names(warning, page, One("beside the point", 0.4)) == ["page", "warning", "beside the point"]
    assert names(warning, One("another", 0.95, warns=True)) == ["another", "warning"]


def test_trust_decides_between_likely_ones() -> None:
    assert names(One("forum", 0.9, 0.5), One("ours", 0.6)) == ["ours", "forum"]


def test_results_merged_last_rank_behind_all_others_despite_higher_confidence() -> None:
    assert names(One("ours", 0.1), last=(One("post", 1.0, 0.8), One("blog", 1.0, 0.5))) == ["ours", "post", "blog"]


hits = st.builds(One, st.text(max_size=3), st.floats(0, 1), st.floats(0.5, 1))


@given(st.lists(hits, max_size=12))
def test_the_order_is_relevance_times_trust(some: list[One]) -> None:
    scores = [one.score for one in in_order(some)]
    assert scores == sorted(scores, reverse=True)


@given(st.lists(hits, max_size=12))
def test_nothing_is_lost(some: list[One]) -> None:
    assert sorted(map(repr, in_order(some))) == sorted(map(repr, some))


@pytest.mark.parametrize(
    "question",
    [
        "how do I restart the ingress controller",
        "restart the ingress controller",
        "please drain node-7",
        "what should I do when the lag grows",
        "which runbook is for a full disk",
        "why is it slow and how to fix it",
        "wie kann ich den Dienst neu starten",
    ],
)
def test_question_calls_for_action(question: str) -> None:
    assert calls_for_action(question)


@pytest.mark.parametrize(
    "question",
    [
        "what is a consistency token",
        "who owns the checkout service",
        "Pod evicted zorblax77",
        "KubePodCrashLooping",
        "ORA-01555: snapshot too old",
        "failed to delete the pod",
        "was ist ein Replikat",
        "",
    ],
)
def test_question_calls_for_no_action(question: str) -> None:
    assert not calls_for_action(question)

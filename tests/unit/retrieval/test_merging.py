"""One list out of several tiers: trust counts, within bounds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.retrieval.routing import UNLIKELY, in_order, seeks_action


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


def test_an_irrelevant_trusted_hit_does_not_bury_a_relevant_one() -> None:
    assert names(One("ours, beside the point", 0.49), One("forum, to the point", 0.9, 0.5)) == [
        "forum, to the point",
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
def test_no_unlikely_hit_stands_before_a_likely_one(some: list[One]) -> None:
    likely = [one.confidence >= UNLIKELY for one in in_order(some)]
    assert likely == sorted(likely, reverse=True)


@given(st.lists(hits, max_size=12))
def test_nothing_is_lost(some: list[One]) -> None:
    assert sorted(map(repr, in_order(some))) == sorted(map(repr, some))


@pytest.mark.parametrize(
    "question",
    [
        "how do I restart the ingress controller",
        "KubePodCrashLooping",
        "disk full on web-01",
        "what should I do when the lag grows",
        "which runbook is for a full disk",
        "ORA-01555: snapshot too old",
        "why is it slow and how to fix it",
        "wie kann ich den Dienst neu starten",
        "",
    ],
)
def test_question_seeks_action(question: str) -> None:
    assert seeks_action(question)


@pytest.mark.parametrize(
    "question",
    [
        "what is a consistency token",
        "who owns the checkout service",
        "when did we last fail over",
        "why was the bucket locked out",
        "explain the request path",
        "was ist ein Replikat",
        "pourquoi le disque était plein",
    ],
)
def test_question_seeks_no_action(question: str) -> None:
    assert not seeks_action(question)

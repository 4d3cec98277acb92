"""Confidence is a probability that follows the order of the hits, whatever they are."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.retrieval.confidence import FEATURES, LogisticModel, answerable, confidences, feature_rows, logistic
from opx.retrieval.hybrid import FusedHit, FusedHits
from opx.text.fields import query_terms, words
from tests.builders import an_entry

calm = settings(deadline=None)  # a busy machine is no failure
WORDS = ("disk", "full", "pod", "crash", "looping", "certificate", "expired", "the")


def a_hit(level: float, content: str = "disk full", title: str = "Disk full", document: str = "") -> FusedHit:
    entry = an_entry(content, title=title, document_id=document or f"{content} {title}")
    return FusedHit(entry.indexed, level, (1, 1.0), None)


def found(query: str, *hits: FusedHit, weights: dict[str, float] | None = None) -> FusedHits:
    return FusedHits(hits, tuple(hit.fused for hit in hits), weights or {}, {}, words=words(query))


texts = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
scores = st.floats(0, 1, allow_nan=False)
hits = st.builds(a_hit, scores, texts, texts, st.sampled_from(["a", "b", "c"]))
ranked = st.lists(hits, max_size=8).map(lambda some: sorted(some, key=lambda hit: -hit.fused))
weight_tables = st.dictionaries(st.sampled_from(query_terms(" ".join(WORDS))), st.floats(0, 12))


@calm
@given(query=texts, some=ranked, weights=weight_tables)
def test_confidence_is_a_probability_and_never_rises_where_the_fused_score_falls(
    query: str, some: list[FusedHit], weights: dict[str, float]
) -> None:
    values = confidences(query, found(query, *some, weights=weights))
    assert len(values) == len(some)
    assert all(0 <= value <= 1 for value in values)
    assert all(earlier >= later for earlier, later in pairwise(values))


@calm
@given(query=st.text(max_size=60), title=st.text(max_size=40), content=st.text(max_size=40), level=scores)
def test_any_text_has_a_finite_confidence(query: str, title: str, content: str, level: float) -> None:
    (value,) = confidences(query, found(query, a_hit(level, content, title)))
    assert math.isfinite(value)


def test_no_hits_have_no_confidences() -> None:
    assert confidences("disk", found("disk")) == []


@pytest.mark.parametrize(("query", "title"), [("", "Disk"), ("?!", "Disk"), ("the of", "Disk"), ("disk", ""), ("", "")])
def test_query_or_title_without_terms_matches_nothing(query: str, title: str) -> None:
    (row,) = feature_rows(found(query, a_hit(1.0, title=title)))
    assert row["fused_x_title"] == 0


def test_rows_have_the_models_features() -> None:
    (row,) = feature_rows(found("disk", a_hit(1.0)))
    assert tuple(row) == FEATURES
    assert set(logistic("fused").parts) == set(FEATURES)


def test_features_of_a_query_are_those_written_down() -> None:
    weights = {"disk": 1.0, "full": 1.0, "server": 2.0}
    hits = (
        a_hit(0.9, "disk", "Disk full", "a"),
        a_hit(0.8, "full of it", "Disk full", "a"),
        a_hit(0.5, "server", "Other", "b"),
    )
    first, second, third = feature_rows(found("disk full server", *hits, weights=weights))
    assert first["lead"] == pytest.approx(0.9 - 0.5)  # to the next document, not the next chunk
    assert second["lead"] == third["lead"] == 0
    title = math.sqrt(1 * 2 / 3)  # all of the title is in the query, two of three of the query in the title
    coverage = 2 / 4  # by weight; the best document has disk and full
    for row, level in ((first, 0.9), (second, 0.8), (third, 0.5)):
        assert row["fused"] == level
        assert row["fused_x_title"] == pytest.approx(level * title)
        assert row["fused_x_coverage"] == pytest.approx(level * coverage)
        assert row["length"] == math.log1p(3)
        assert row["best_fused"] == 0.9


def test_lead_of_the_only_document_is_its_whole_score() -> None:
    first, second = feature_rows(found("disk", a_hit(0.9, document="a"), a_hit(0.8, document="a")))
    assert (first["lead"], second["lead"]) == (0.9, 0)


def test_value_that_weighs_nothing_does_not_count_against_a_title() -> None:
    hit = a_hit(1.0, title="Disk full")
    (with_host,) = feature_rows(found("disk full web01", hit, weights={"disk": 1.0, "full": 1.0, "web01": 0.0}))
    assert with_host["fused_x_title"] == 1


def test_covered_query_is_more_credible_than_an_uncovered_one() -> None:
    (covered,) = confidences("disk full", found("disk full", a_hit(1.0, title=""), weights={"disk": 2.0, "full": 2.0}))
    without = found("disk absent", a_hit(1.0, title=""), weights={"disk": 2.0, "absent": 5.0})
    (uncovered,) = confidences("disk absent", without)
    assert covered > uncovered


class TestModel:
    MODEL = LogisticModel(0.5, {"x": (2.0, 1.0, 4.0)})

    @pytest.mark.parametrize(("x", "expected"), [(1.0, 0.5), (3.0, 1.5), (-3.0, -1.5)])
    def test_probability_is_the_logistic_of_the_scaled_sum(self, x: float, expected: float) -> None:
        assert self.MODEL.probability({"x": x}) == pytest.approx(1 / (1 + math.exp(-expected)))

    @pytest.mark.parametrize("x", [1e300, -1e300, 1e6, -1e6])
    def test_extreme_values_do_not_overflow(self, x: float) -> None:
        assert 0 <= self.MODEL.probability({"x": x}) <= 1

    def test_given_model_is_used_instead_of_the_shipped_one(self) -> None:
        model = LogisticModel(-12.0, {"fused": (1.0, 0.0, 1.0)})
        assert confidences("disk", found("disk", a_hit(0.0)), model) == [pytest.approx(1 / (1 + math.exp(12)))]

    def test_no_hit_is_surer_than_that_the_question_has_an_answer(self) -> None:
        sure = LogisticModel(12.0, {"fused": (1.0, 0.0, 1.0)})
        hits = found("disk", a_hit(1.0, "pods restart", "Pods"))
        assert confidences("disk", hits, sure) == [answerable("disk", hits)]
        assert answerable("disk", hits) < 0.5


class TestShippedModel:
    @pytest.fixture
    def shipped(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(
            files("opx.retrieval").joinpath("confidence.json").read_text(encoding="utf-8")
        )
        return data

    def test_says_from_what_when_and_how_it_was_made(self, shipped: dict[str, Any]) -> None:
        assert set(shipped["made"]) >= {"data", "date", "command"}
        assert all(shipped["made"].values())

    def test_does_not_fall_with_what_decides_the_order(self, shipped: dict[str, Any]) -> None:
        features = shipped["fused"]["features"]
        for name in ("fused", "lead", "fused_x_title", "fused_x_coverage"):
            assert features[name]["coefficient"] >= 0
        assert all(feature["scale"] > 0 for feature in features.values())

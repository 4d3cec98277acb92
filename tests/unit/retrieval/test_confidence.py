"""Documents are judged: in which order they are, how likely each answers, and whether anything is near."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.domain.queries import Band, SearchMode, band_of
from opx.domain.record import replace
from opx.retrieval import confidence
from opx.retrieval.confidence import (
    DOUBTFUL,
    OTHER,
    Judgement,
    Judges,
    LinearModel,
    engine_judgement,
    judged,
    shipped,
)
from opx.retrieval.evidence import CONFIDENCE, NEARNESS, ORDER
from opx.retrieval.hybrid import BOTH, JUDGED, LEXICAL, VECTOR, FusedHits
from opx.retrieval.judging import PASSAGES, pages_of
from tests.support.judging_support import Found, a_page, found_lists, searched, texts

BUILT_IN = "all-MiniLM-L6-v2"
LEGS = (BOTH, LEXICAL, VECTOR)
BY_WORDS = Judges(
    order=LinearModel(0.0, {"document": (1.0, 0.0, 1.0)}),
    confidence=LinearModel(-1.0, {"document": (2.0, 0.0, 1.0), "margin": (0.5, 0.0, 1.0)}),
    near=LinearModel(-2.0, {"document_best": (4.0, 0.0, 1.0)}),
)
"""Orders by the share of the question's words."""

PAGES = [a_page("A", "pods restart"), a_page("B", "disk"), a_page("C", "disk is full")]
DISK_FULL = [(page, 9.0 - at, 0.9 - at / 10) for at, page in enumerate(PAGES)]


def judgement_of(text: str, found: FusedHits, judges: Judges = BY_WORDS, *, reorder: bool = True) -> Judgement:
    return judged(text, found, pages_of(found), judges, reorder=reorder)


def ids(judgement: Judgement) -> list[str]:
    return [one.page.document_id for one in judgement.pages]


def confidences(judgement: Judgement) -> list[float]:
    return [one.confidence for one in judgement.pages]


class TestJudging:
    def test_nothing_found_is_near_nothing(self) -> None:
        assert judgement_of("disk", searched("disk")) == Judgement((), 0.0)

    @settings(deadline=None)
    @given(
        texts,
        found_lists,
        st.sampled_from([BUILT_IN, OTHER]),
        st.sampled_from(LEGS),
        st.sampled_from(SearchMode),
        st.booleans(),
    )
    def test_probabilities_never_rise_down_the_list(
        self, text: str, found: list[Found], embedder: str, legs: str, mode: SearchMode, reorder: bool
    ) -> None:
        hits = searched(text, *found)
        judgement = judgement_of(text, hits, shipped(embedder, legs, mode), reorder=reorder)
        values = confidences(judgement)
        assert sorted(ids(judgement)) == sorted(page.document_id for page in pages_of(hits))
        assert all(0 <= value <= 1 for value in (*values, judgement.near))
        assert all(earlier >= later for earlier, later in pairwise(values))

    def test_the_model_decides_the_order(self) -> None:
        assert ids(judgement_of("disk full", searched("disk full", *DISK_FULL))) == ["C", "B", "A"]

    def test_without_reordering_the_fused_order_stays(self) -> None:
        found = searched("disk full", *DISK_FULL)
        judgement = judgement_of("disk full", found, reorder=False)
        assert ids(judgement) == ["A", "B", "C"]
        assert len(set(confidences(judgement))) == 1  # no document is surer than one before it

    def test_equal_documents_keep_their_order(self) -> None:
        alike = [(a_page(name, "disk"), 5.0, 0.5) for name in "cab"]
        assert ids(judgement_of("disk", searched("disk", *alike))) == ["a", "b", "c"]

    def test_documents_behind_the_judged_ones_keep_their_order_and_are_less_likely(self) -> None:
        many = [(a_page(f"{n:02}", f"disk {'full' * (n % 2)} {n}"), 90.0 - n, 0.9 - n / 100) for n in range(JUDGED + 5)]
        judgement = judgement_of("disk full", searched("disk full", *many))
        names = [f"{n:02}" for n in range(JUDGED + 5)]
        assert ids(judgement)[:JUDGED] != names[:JUDGED]
        assert sorted(ids(judgement)[:JUDGED]) == names[:JUDGED]
        assert ids(judgement)[JUDGED:] == names[JUDGED:]
        last = confidences(judgement)[JUDGED - 1 :]
        assert all(earlier > later for earlier, later in pairwise(last))

    def test_the_best_document_behind_the_judged_ones_is_not_moved_up(self) -> None:
        poor = [(a_page(f"{n:02}", f"pods {n}"), 90.0 - n, 0.9 - n / 100) for n in range(JUDGED)]
        best = (a_page("zz", "disk full"), 1.0, 0.1)
        assert ids(judgement_of("disk full", searched("disk full", *poor, best)))[-1] == "zz"

    @pytest.mark.parametrize("legs", LEGS)
    @pytest.mark.parametrize("mode", SearchMode)
    def test_number_of_shown_passages_changes_no_confidence(self, legs: str, mode: SearchMode) -> None:
        parts = [(a_page("Disk", f"disk part {n}", "d", n), 9.0 - n, 0.9 - n / 10) for n in range(PASSAGES + 4)]
        found = [*parts, (a_page("Logs", "disk logs"), 4.0, None), (a_page("Pods", "pods"), 0.0, 0.4)]
        few, many = (searched("disk full", *found, per_document=most) for most in (PASSAGES, 100))
        assert len(few.hits) < len(many.hits)
        judges = shipped(BUILT_IN, legs, mode)
        one, other = (judgement_of("disk full", hits, judges) for hits in (few, many))
        assert ids(one) == ids(other)
        assert (confidences(one), one.near) == (confidences(other), other.near)

    def test_near_is_what_the_documents_have_of_the_question_together(self) -> None:
        near = judgement_of("disk full", searched("disk full", *DISK_FULL)).near
        far = judgement_of("egg butter", searched("egg butter", *DISK_FULL)).near
        assert [near, far] == pytest.approx([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))])

    @pytest.mark.parametrize(
        ("text", "likely"),
        [("restart", []), ("restart?", []), ("1 2", []), ("ENOSPC", ["A", "B"]), ("eth0", ["A", "B"]), ("disk", ["B"])],
    )
    def test_one_everyday_word_makes_nothing_likely_but_its_title(self, text: str, likely: list[str]) -> None:
        sure = Judges(order=BY_WORDS.order, confidence=LinearModel(5.0, {}), near=LinearModel(5.0, {}))
        entries = [(a_page("A", f"pods {text}"), 9.0, 0.9), (a_page("B disk", f"it {text}"), 8.0, 0.8)]
        found = judgement_of(text, searched(text, *entries), sure)
        assert [one.page.document_id[0] for one in found.pages if one.confidence > DOUBTFUL] == likely
        assert all(one.confidence <= DOUBTFUL for one in found.pages) or likely

    def test_an_engine_that_judges_by_itself_is_believed(self) -> None:
        pages = pages_of(replace(searched("disk", *DISK_FULL), judged=True))
        judgement = engine_judgement(pages)
        assert confidences(judgement) == [page.level for page in pages]
        assert judgement.near == 1


class TestLinearModel:
    MODEL = LinearModel(0.5, {"x": (2.0, 1.0, 4.0)})

    @pytest.mark.parametrize(("x", "expected"), [(1.0, 0.5), (3.0, 1.5), (-3.0, -1.5)])
    def test_score_is_the_scaled_sum_and_probability_its_logistic(self, x: float, expected: float) -> None:
        assert self.MODEL.score({"x": x, "y": 9.0}) == pytest.approx(expected)
        assert self.MODEL.probability({"x": x}) == pytest.approx(1 / (1 + math.exp(-expected)))

    @pytest.mark.parametrize("x", [1e300, -1e300, 1e6, -1e6])
    def test_extreme_values_do_not_overflow(self, x: float) -> None:
        assert 0 <= self.MODEL.probability({"x": x}) <= 1


class TestShipped:
    @pytest.mark.parametrize("mode", SearchMode)
    @pytest.mark.parametrize("legs", LEGS)
    @pytest.mark.parametrize("embedder", [BUILT_IN, OTHER])
    def test_there_are_models_for_every_way_of_searching(self, embedder: str, legs: str, mode: SearchMode) -> None:
        judges = shipped(embedder, legs, mode)
        inputs = {"order": ORDER, "confidence": CONFIDENCE, "near": NEARNESS}
        for name, known in inputs.items():
            parts = getattr(judges, name).parts
            assert set(parts) <= set(known)
            assert all(map(math.isfinite, (number for part in parts.values() for number in part)))
            assert all(scale > 0 for _, _, scale in parts.values())
        assert judges.order.parts
        assert judges.confidence.parts["margin"][0] > 0  # who is ahead is likelier right

    @pytest.mark.parametrize("mode", SearchMode)
    def test_unknown_embedding_model_has_models_that_look_at_no_cosine(self, mode: SearchMode) -> None:
        judges = shipped("somebody/else", BOTH, mode)
        assert judges == shipped(OTHER, BOTH, mode)
        parts = {*judges.order.parts, *judges.confidence.parts, *judges.near.parts}
        assert not [name for name in parts if "cosine" in name]

    def test_variant_of_an_embedding_model_has_its_models(self) -> None:
        variant = shipped(f"{BUILT_IN}/int8", BOTH, SearchMode.BALANCED)
        assert variant == shipped(BUILT_IN, BOTH, SearchMode.BALANCED) != shipped(OTHER, BOTH, SearchMode.BALANCED)

    def test_they_record_their_data_date_and_command(self) -> None:
        made = confidence._shipped()["made"]
        assert all(made[name] for name in ("data", "date", "command"))


@pytest.mark.parametrize(
    ("confidence", "band"),
    [(1.0, "sure"), (0.95, "sure"), (0.949999, "likely"), (0.5, "likely"), (0.499999, "weak"), (0.0, "weak")],
)
def test_bands_begin_at_their_least_confidence(confidence: float, band: str) -> None:
    assert band_of(confidence) is Band(band)
    assert band_of(Band(band).least) is Band(band)

"""Fitting to questions with known answers, and the losses of models on them."""

from __future__ import annotations

import math
from random import Random

import pytest

from opx.domain.queries import SearchMode
from opx.domain.record import replace
from opx.errors import EmbeddingError
from opx.retrieval.calibration.calibrating import OF_MADE, Point, cosine_map, fit, fit_scale, log_loss, loss_of
from opx.retrieval.calibration.models import CosineMap, Fit, with_changes
from opx.retrieval.calibration.questions import MODE, LabelledEvidence, QuestionKind
from opx.retrieval.confidence import OTHER, REFERENCE, shipped
from opx.retrieval.evidence import CONFIDENCE, ORDER
from opx.retrieval.hybrid import BOTH, LEXICAL, VECTOR
from tests.support.calibration_support import seen_with

ROW = dict.fromkeys((*ORDER, *CONFIDENCE), 0.5)


def points(slope: float, intercept: float, count: int = 2000) -> list[Point]:
    """Confidences of models whose log-odds would have to be multiplied and moved so, on made questions."""
    random, found = Random(3), []
    for _ in range(count):
        estimated = random.gauss(1.0, 2.0)
        true = OF_MADE[0] * (slope * estimated + intercept) + OF_MADE[1]
        found.append(Point(estimated, random.random() < 1 / (1 + math.exp(-true)), 1.0))
    return found


class TestCosines:
    def test_a_known_shift_is_recovered(self) -> None:
        found = cosine_map(seen_with((0.4, 0.55)))
        assert found.slope == pytest.approx(1 / 0.4, rel=0.05)
        assert found.offset == pytest.approx(-0.55 / 0.4, rel=0.05)

    def test_those_of_the_model_that_was_fitted_for_stay(self) -> None:
        found = cosine_map(seen_with((1.0, 0.0)))
        assert [found.slope, found.offset] == [pytest.approx(1, abs=0.05), pytest.approx(0, abs=0.02)]

    def test_a_model_to_which_all_texts_are_alike_is_refused(self) -> None:
        with pytest.raises(EmbeddingError, match="doesn't separate right documents from others"):
            cosine_map(seen_with((0.0, 0.9)))

    def test_a_model_by_which_wrong_documents_are_nearer_is_refused(self) -> None:
        with pytest.raises(EmbeddingError, match="doesn't separate right documents from others"):
            cosine_map(seen_with((-0.4, 0.6)))

    def test_questions_that_found_nothing_are_refused(self) -> None:
        with pytest.raises(EmbeddingError, match="nothing to measure"):
            cosine_map([LabelledEvidence("a", QuestionKind.ANSWERED, (), ())])


class TestScale:
    def test_models_that_are_right_stay_nearly_as_they_are(self) -> None:
        slope, intercept = fit_scale(points(1.0, 0.0))
        assert [slope, intercept] == [pytest.approx(1, abs=0.1), pytest.approx(0, abs=0.15)]

    @pytest.mark.parametrize(("slope", "intercept"), [(2.0, 0.0), (0.5, 0.0), (1.0, 1.5), (1.0, -1.5)])
    def test_wrong_ones_are_put_right(self, slope: float, intercept: float) -> None:
        found = fit_scale(points(slope, intercept, count=10_000))
        assert list(found) == [pytest.approx(slope, abs=0.3), pytest.approx(intercept, abs=0.4)]

    def test_few_questions_change_little(self) -> None:
        many, few = fit_scale(points(1.0, 1.5)), fit_scale(points(1.0, 1.5, count=30))
        assert 0 <= few[1] < many[1] / 2

    def test_none_change_nothing(self) -> None:
        assert list(fit_scale([])) == [pytest.approx(1), pytest.approx(0)]

    def test_the_slope_stays_above_zero_where_confidence_is_the_wrong_way_round(self) -> None:
        slope, _ = fit_scale([replace(one, right=not one.right) for one in points(3.0, 0.0)])
        assert slope > 0

    @pytest.mark.parametrize("log_odds", [1e6, -1e6])
    def test_extreme_confidences_do_not_overflow(self, log_odds: float) -> None:
        assert all(map(math.isfinite, fit_scale([Point(log_odds, right, 1.0) for right in (True, False)])))


class TestFit:
    def test_models_with_cosines_are_changed_where_that_is_wanted(self) -> None:
        seen = list(seen_with((0.4, 0.55)))
        assert fit("new/1", seen, mapped=False).cosines is None
        assert fit("new/1", seen, mapped=True).cosines == cosine_map(seen)

    def test_mapped_models_judge_better_than_those_without_cosines(self) -> None:
        seen = [*seen_with((0.4, 0.55)), *foreign((0.4, 0.55))]
        held = [*seen_with((0.4, 0.55), seed=2), *foreign((0.4, 0.55), seed=2)]
        before, after = shipped(OTHER, BOTH, MODE), with_changes("new/1", fit("new/1", seen, mapped=True), BOTH, MODE)
        assert loss_of(held, after) < loss_of(held, before)

    def test_no_question_is_judged_by_is_worse_than_any(self) -> None:
        assert log_loss([]) == math.inf


def foreign(cosines: tuple[float, float], *, seed: int = 1) -> list[LabelledEvidence]:
    """Questions about other things: no word of theirs is anywhere, and cosines are those of things far off."""
    random, found = Random(seed), []
    for number in range(30):
        cosine = random.gauss(0.2, 0.05) * cosines[0] + cosines[1]
        row = dict.fromkeys((*ORDER, *CONFIDENCE), 0.3) | {"cosine": cosine, "cosine_best": cosine, "unknown": 0.3}
        found.append(LabelledEvidence(f"{number}", QuestionKind.FOREIGN, (row,), (False,)))
    return found


class TestChanges:
    def test_none_are_the_shipped_models(self) -> None:
        for legs in (BOTH, LEXICAL, VECTOR):
            assert with_changes("new/1", Fit(), legs, MODE) == shipped("new/1", legs, MODE)

    @pytest.mark.parametrize("mode", SearchMode)
    @pytest.mark.parametrize("legs", [BOTH, VECTOR])
    def test_a_mapped_cosine_counts_as_that_of_the_shipped_model(self, legs: str, mode: SearchMode) -> None:
        changed = with_changes("new/1", Fit(CosineMap(2.5, -1.5)), legs, mode)
        known = shipped(REFERENCE, legs, mode)
        theirs, ours = ROW | {"cosine": 0.84, "cosine_best": 0.84}, ROW | {"cosine": 0.6, "cosine_best": 0.6}
        for name in ("order", "confidence", "near"):
            assert getattr(changed, name).score(theirs) == pytest.approx(getattr(known, name).score(ours))

    def test_searches_by_words_alone_have_no_cosines_to_map(self) -> None:
        assert with_changes("new/1", Fit(CosineMap(2.5, -1.5)), LEXICAL, MODE) == shipped(OTHER, LEXICAL, MODE)

    def test_log_odds_are_multiplied_and_moved(self) -> None:
        before, after = shipped(REFERENCE, BOTH, MODE), with_changes(REFERENCE, Fit(None, 0.5, -1.0), BOTH, MODE)
        assert after.confidence.score(ROW) == pytest.approx(0.5 * before.confidence.score(ROW) - 1)
        assert (after.order, after.near) == (before.order, before.near)

    def test_one_leg_alone_keeps_the_shipped_scale(self) -> None:
        assert with_changes(REFERENCE, Fit(None, 0.5, -1.0), VECTOR, MODE) == shipped(REFERENCE, VECTOR, MODE)

    @pytest.mark.parametrize(
        "fit",
        [Fit(CosineMap(-1.0, 0.0)), Fit(CosineMap(math.nan, 0.0)), Fit(None, -1.0), Fit(None, 1.0, math.inf)],
    )
    def test_numbers_that_no_fit_gives_are_not_sound(self, fit: Fit) -> None:
        assert not fit.is_sound

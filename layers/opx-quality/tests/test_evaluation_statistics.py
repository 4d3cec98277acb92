"""Figures on confidences and differences, to the digit where they can be worked out by hand."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.record import replace
from opx_quality.evaluation.abstention import FLOORS, abstention, separation
from opx_quality.evaluation.bands import band_figures, band_table, calibration, calibrations
from opx_quality.evaluation.comparison import ALL_UP_TO, bootstrap_interval, compared, randomisation_p
from opx_quality.evaluation.figures import latencies, percentiles
from tests.support.evaluation_support import a_question, a_reply, a_run


class TestRandomisation:
    def test_one_sign_of_ten_equal_differences_has_two_of_1024_relabellings(self) -> None:
        assert randomisation_p(np.full(10, 0.25)) == 2 / 1024

    def test_p_by_hand(self) -> None:
        # |sum| of 1, 1, 2 is 4 for +++ and ---, 2 or 0 for the other six; of 1, 1, -2 it is 0, which all reach
        assert randomisation_p(np.array([1.0, 1.0, 2.0])) == 2 / 8
        assert randomisation_p(np.array([1.0, 1.0, -2.0])) == 1.0
        assert randomisation_p(np.array([1.0, 1.0, -1.0])) == 1.0

    def test_nothing_that_differs_is_no_evidence(self) -> None:
        assert randomisation_p(np.zeros(40)) == 1.0

    def test_questions_without_a_difference_change_nothing(self) -> None:
        few = np.array([0.5, 0.25, -0.1, 0.4])
        assert randomisation_p(np.concatenate([few, np.zeros(500)])) == randomisation_p(few)

    def test_drawn_relabellings_come_near_all_of_them(self) -> None:
        # 17 equal differences, 13 of them positive: two tails of a binomial distribution
        differences = np.array([1.0] * 13 + [-1.0] * 4)
        assert len(differences) > ALL_UP_TO
        exact = 2 * sum(math.comb(17, k) for k in range(5)) / 2**17
        assert randomisation_p(differences) == pytest.approx(exact, abs=0.002)

    def test_p_of_drawn_relabellings_is_never_nothing(self) -> None:
        assert randomisation_p(np.ones(60), draws=999) == 1 / 1000

    def test_rounding_of_sums_does_not_hide_equal_relabellings(self) -> None:
        assert randomisation_p(np.array([0.1, 0.2, -0.3] * 3)) == 1.0

    @given(st.lists(st.sampled_from([-0.5, 0.0, 0.1, 0.3, 1.0]), min_size=1, max_size=10))
    def test_neither_order_nor_direction_matters(self, values: list[float]) -> None:
        found = randomisation_p(np.array(values))
        shuffled = random.Random(1).sample(values, len(values))
        assert randomisation_p(np.array(shuffled)) == found
        assert randomisation_p(-np.array(values)) == found
        assert 0 < found <= 1


class TestInterval:
    def test_of_equal_differences_is_a_point(self) -> None:
        assert bootstrap_interval(np.full(30, 0.2)) == pytest.approx((0.2, 0.2))

    def test_is_about_two_standard_errors_to_each_side(self) -> None:
        differences = np.random.default_rng(5).normal(0.1, 1.0, 400)
        error = differences.std() / math.sqrt(400)
        low, high = bootstrap_interval(differences)
        assert low == pytest.approx(differences.mean() - 1.96 * error, abs=0.01)
        assert high == pytest.approx(differences.mean() + 1.96 * error, abs=0.01)

    def test_covers_the_true_mean_about_as_often_as_its_level(self) -> None:
        generator = np.random.default_rng(9)
        intervals = [bootstrap_interval(generator.normal(0, 1, 80), resamples=400, seed=n) for n in range(200)]
        covered = sum(low <= 0 <= high for low, high in intervals) / len(intervals)
        assert 0.89 <= covered <= 0.99


class TestCompared:
    def test_difference_is_second_minus_first(self) -> None:
        found = compared([0.5, 0.5, 0.0], [1.0, 0.5, 0.6])
        assert found.count == 3
        assert found.difference == pytest.approx(1.1 / 3)
        assert found.second - found.first == pytest.approx(found.difference)
        assert found.low <= found.difference <= found.high

    def test_same_seed_gives_the_same(self) -> None:
        generator = random.Random(3)
        one, other = ([generator.random() for _ in range(50)] for _ in range(2))
        assert compared(one, other) == compared(one, other)
        assert compared(one, other, seed=1) != compared(one, other, seed=2)

    @pytest.mark.parametrize(("one", "other"), [([], []), ([1.0], [1.0, 0.5])])
    def test_each_question_needs_both_values(self, one: list[float], other: list[float]) -> None:
        with pytest.raises(ValueError, match="each question"):
            compared(one, other)


class TestCalibration:
    def test_bins_are_closed_on_the_right_and_the_first_holds_zero(self) -> None:
        judged = [(0.0, False), (0.1, False), (0.3, True), (0.30001, True), (0.7, True), (1.0, True)]
        assert [(each.low, each.high, each.count) for each in calibration(judged).bins] == [
            (0.0, 0.1, 2), (0.2, 0.3, 1), (0.3, 0.4, 1), (0.6, 0.7, 1), (0.9, 1.0, 1)
        ]  # fmt: skip

    def test_error_weighs_each_bins_gap_by_its_size(self) -> None:
        judged = [(0.95, True), (0.95, False), (0.95, False), (0.15, False)]
        found = calibration(judged)
        assert found.error == pytest.approx(3 / 4 * abs(1 / 3 - 0.95) + 1 / 4 * 0.15)
        assert found.brier == pytest.approx((0.05**2 + 2 * 0.95**2 + 0.15**2) / 4)

    def test_certain_and_right_is_no_error(self) -> None:
        found = calibration([(1.0, True), (0.0, False)])
        assert (found.brier, found.error) == (0.0, 0.0)

    def test_nothing_judged_is_no_error(self) -> None:
        assert calibration([]).to_json() == {"count": 0, "brier": 0.0, "expectedCalibrationError": 0.0, "bins": []}

    def test_confidence_that_is_right_in_the_mean_has_a_small_error(self) -> None:
        generator = random.Random(2)
        judged = [(p, generator.random() < p) for p in (generator.random() for _ in range(4000))]
        assert calibration(judged).error < 0.03

    def test_result_for_a_question_without_an_answer_counts_against_calibration(self) -> None:
        run = a_run(
            (a_question("q1", "a"), a_reply("a", "b", confidences=(0.8, 0.4))),
            (a_question("q2"), a_reply("c", confidences=(0.6,))),
        )
        found = calibrations(run, "balanced")
        assert found["first page"].brier == pytest.approx((0.2**2 + 0.6**2) / 2)
        assert found["ten pages"].count == 3


class TestAbstention:
    RUN = a_run(
        (a_question("q1", "a"), a_reply("a", "b", confidences=(0.9, 0.2))),
        (a_question("q2", "a"), a_reply("b", "a", confidences=(0.5, 0.4))),
        (a_question("q3", "a"), a_reply("a", confidences=(0.3,))),
        (a_question("q4", "a"), a_reply()),
        (a_question("n1", kind="unanswerable"), a_reply("a", confidences=(0.6,))),
        (a_question("n2", kind="unanswerable"), a_reply("a", confidences=(0.1,))),
        (a_question("n3", kind="off-topic"), a_reply()),
    )

    def test_floor_refuses_what_is_below_it(self) -> None:
        found = abstention(self.RUN, "balanced", 0.4)
        assert found.answerable == 0.5
        assert found.unanswerable == pytest.approx(2 / 3)
        assert found.by_kind == {"unanswerable": 0.5, "off-topic": 1.0}
        assert found.right == pytest.approx(1 / 3)

    def test_confidence_at_the_floor_is_enough(self) -> None:
        assert abstention(self.RUN, "balanced", 0.9).answerable == 0.75

    def test_first_page_is_the_first_that_reaches_the_floor(self) -> None:
        run = a_run((a_question("q", "b"), a_reply("a", "b", confidences=(0.4, 0.8))))
        assert abstention(run, "balanced", 0.5).right == 1.0
        assert abstention(run, "balanced", 0.0).right == 0.0

    def test_shares_of_nothing_are_left_open(self) -> None:
        found = abstention(a_run((a_question("q", "a"), a_reply())), "balanced", 0.5)
        assert (found.answerable, found.unanswerable, found.right) == (1.0, None, None)

    def test_higher_floor_never_refuses_less(self) -> None:
        shares = [abstention(self.RUN, "balanced", floor) for floor in FLOORS]
        assert [one.answerable for one in shares] == sorted(one.answerable or 0 for one in shares)
        assert [one.unanswerable for one in shares] == sorted(one.unanswerable or 0 for one in shares)

    def test_separation_is_the_share_of_pairs_in_the_right_order(self) -> None:
        # answerable .9 .5 .3 0, the others .6 .1 0: 3 + 2 + 2 + half of one pair
        assert separation(self.RUN, "balanced") == pytest.approx(7.5 / 12)

    def test_separation_needs_questions_of_both_sorts(self) -> None:
        assert separation(a_run((a_question("q", "a"), a_reply("a"))), "balanced") is None


class TestBands:
    RUN = a_run(
        (a_question("q1", "a"), a_reply("a", confidences=(0.95,))),
        (a_question("q2", "a"), a_reply("b", "a", confidences=(0.96, 0.5))),
        (a_question("q3", "a"), a_reply("a", confidences=(0.5,))),
        (a_question("q4", "a"), replace(a_reply("b", confidences=(0.49,)), absent=("DiskFull",))),
        (a_question("q5", "a"), a_reply()),
        (
            a_question("n1", kind="near-miss"),
            replace(a_reply("a", confidences=(0.6,)), absent=("DiskFull", "CVE-2024-1")),
        ),
        (a_question("n2", kind="near-miss"), a_reply("a", confidences=(0.99,))),
        (a_question("n3", kind="foreign"), a_reply()),
    )

    def test_first_page_has_the_band_and_is_right_or_not(self) -> None:
        found = band_figures(self.RUN, "balanced")
        assert {name: (one.answerable, one.right) for name, one in found.items()} == {
            "sure": (2, 0.5),
            "likely": (1, 1.0),
            "weak": (1, 0.0),
            "nothing found": (1, None),
            "told absent": (1, 0.0),
        }

    def test_questions_without_an_answer_are_counted_by_kind(self) -> None:
        found = band_figures(self.RUN, "balanced")
        assert {name: one.unanswerable for name, one in found.items()} == {
            "sure": {"near-miss": 1, "foreign": 0},
            "likely": {"near-miss": 1, "foreign": 0},
            "weak": {"near-miss": 0, "foreign": 0},
            "nothing found": {"near-miss": 0, "foreign": 1},
            "told absent": {"near-miss": 1, "foreign": 0},
        }

    def test_every_question_has_one_band(self) -> None:
        rows = [one for name, one in band_figures(self.RUN, "balanced").items() if name != "told absent"]
        assert sum(one.answerable + sum(one.unanswerable.values()) for one in rows) == len(self.RUN.questions)

    def test_table_has_a_column_for_each_kind_if_there_are_several(self) -> None:
        table = band_table(self.RUN)
        assert table.heads == ("bands", "answerable", "right", "unanswerable", "near-miss (2)", "foreign (1)")
        assert table.rows[0] == ("balanced sure", "2", "0.500", "1", "1", "0")
        one_kind = band_table(a_run((a_question("n1", kind="foreign"), a_reply())))
        assert one_kind.heads == ("bands", "answerable", "right", "unanswerable")
        assert one_kind.rows[3] == ("balanced nothing found", "0", "-", "1")


class TestLatency:
    def test_percentiles_lie_between_neighbours(self) -> None:
        assert percentiles([float(n) for n in range(1, 102)]) == {"p50": 51.0, "p95": 96.0, "p99": 100.0}

    def test_of_nothing_there_are_none(self) -> None:
        assert percentiles([]) == {}

    def test_whole_answers_come_before_their_parts(self) -> None:
        run = a_run((a_question("q", "a"), a_reply("a", milliseconds=8.0)))
        assert latencies(run, "balanced") == {
            "answer": {"p50": 8.0, "p95": 8.0, "p99": 8.0},
            "search": {"p50": 4.0, "p95": 4.0, "p99": 4.0},
        }

"""Two ranked lists become one: to the digit, and whatever the lists look like."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.domain.queries import Fusion
from opx.retrieval.hybrid import LEXICAL_WEIGHT, Scored, fuse, min_max_fusion, reciprocal_rank_fusion

calm = settings(deadline=None)  # a busy machine is no failure
METHODS = list(Fusion)
LEXICAL: Scored = (("a", 9.0), ("b", 4.0), ("c", 1.0))
VECTOR: Scored = (("c", 0.9), ("a", 0.5), ("d", 0.1))


def ids_of(fused: Scored) -> list[str]:
    return [entry for entry, _ in fused]


def by_rank(scores: dict[str, float]) -> Scored:
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


# Few distinct values, so that ties and scores that agree in both lists are common.
score_tables = st.dictionaries(
    st.sampled_from("abcdefgh"), st.sampled_from([-1.0, 0.0, 0.25, 0.5, 3.0, 3.0000001, 17.25]), max_size=8
)
legs = score_tables.map(by_rank)


class TestReciprocalRank:
    def test_result_at_rank_i_adds_one_over_sixty_plus_i_plus_one(self) -> None:
        assert fuse(Fusion.RRF, LEXICAL, VECTOR) == [
            ("a", 1 / 61 + 1 / 62),
            ("c", 1 / 63 + 1 / 61),
            ("b", 1 / 62),
            ("d", 1 / 63),
        ]

    def test_scores_do_not_matter_only_ranks(self) -> None:
        other = [("a", 1000.0), ("b", 0.002), ("c", 0.001)]
        assert fuse(Fusion.RRF, other, VECTOR) == fuse(Fusion.RRF, LEXICAL, VECTOR)

    def test_weights_multiply_each_lists_part(self) -> None:
        fused = dict(reciprocal_rank_fusion([LEXICAL, VECTOR], [2.0, 0.5]))
        assert fused["a"] == 2.0 / 61 + 0.5 / 62
        assert fused["d"] == 0.5 / 63

    def test_weighted_method_favours_words_by_its_weight(self) -> None:
        fused = dict(fuse(Fusion.WEIGHTED_RRF, [("a", 1.0)], [("b", 1.0)]))
        assert fused == {"a": LEXICAL_WEIGHT / 61, "b": (1 - LEXICAL_WEIGHT) / 61}

    def test_equal_scores_are_in_the_order_of_the_ids(self) -> None:
        assert fuse(Fusion.RRF, [("z", 9.0), ("m", 1.0)], [("b", 0.9), ("a", 0.1)]) == [
            ("b", 1 / 61),
            ("z", 1 / 61),
            ("a", 1 / 62),
            ("m", 1 / 62),
        ]

    def test_number_of_weights_must_be_that_of_lists(self) -> None:
        with pytest.raises(ValueError, match="argument 2"):
            reciprocal_rank_fusion([LEXICAL, VECTOR], [1.0])

    def test_any_number_of_lists_can_be_fused(self) -> None:
        assert reciprocal_rank_fusion([]) == []
        assert reciprocal_rank_fusion([[("a", 1.0)]] * 3) == [("a", 3 / 61)]


class TestMinMax:
    def test_each_list_is_scaled_to_its_own_range(self) -> None:
        fused = dict(min_max_fusion([LEXICAL, VECTOR], [0.6, 0.4]))
        assert fused == pytest.approx({"a": 0.6 + 0.4 * 0.5, "b": 0.6 * 3 / 8, "c": 0.4, "d": 0.0})

    def test_default_weights_are_those_measured(self) -> None:
        assert fuse(Fusion.MIN_MAX, LEXICAL, VECTOR) == min_max_fusion(
            [LEXICAL, VECTOR], [LEXICAL_WEIGHT, 1 - LEXICAL_WEIGHT]
        )

    def test_only_hit_of_a_list_counts_fully(self) -> None:
        assert min_max_fusion([[("a", 0.001)], []], [0.6, 0.4]) == [("a", 0.6)]

    def test_equal_scores_all_count_fully(self) -> None:
        assert min_max_fusion([[("b", 2.0), ("a", 2.0)]], [0.6]) == [("a", 0.6), ("b", 0.6)]

    def test_negative_scores_are_scaled_like_others(self) -> None:
        assert min_max_fusion([[("a", -1.0), ("b", -2.0), ("c", -3.0)]], [1.0]) == [("a", 1.0), ("b", 0.5), ("c", 0.0)]


@pytest.mark.parametrize("method", METHODS)
class TestEveryMethod:
    def test_two_empty_lists_give_nothing(self, method: Fusion) -> None:
        assert fuse(method, [], []) == []

    @pytest.mark.parametrize("sides", [lambda leg: (leg, []), lambda leg: ([], leg)])
    def test_empty_leg_leaves_the_order_of_the_other(
        self, method: Fusion, sides: Callable[[Scored], tuple[Scored, Scored]]
    ) -> None:
        assert ids_of(fuse(method, *sides(LEXICAL))) == ids_of(LEXICAL)

    @calm
    @given(lexical=legs, vector=legs)
    def test_every_entry_is_there_once_best_first_ties_by_id(
        self, method: Fusion, lexical: Scored, vector: Scored
    ) -> None:
        fused = fuse(method, lexical, vector)
        assert sorted(ids_of(fused)) == sorted({*ids_of(lexical), *ids_of(vector)})
        assert fused == sorted(fused, key=lambda item: (-item[1], item[0]))

    @calm
    @given(lexical=legs, vector=legs)
    def test_entry_that_is_better_in_both_lists_is_never_below(
        self, method: Fusion, lexical: Scored, vector: Scored
    ) -> None:
        fused = dict(fuse(method, lexical, vector))
        both = [entry for entry in fused if entry in dict(lexical) and entry in dict(vector)]
        for one in both:
            for other in both:
                if all(ids_of(leg).index(one) < ids_of(leg).index(other) for leg in (lexical, vector)):
                    assert fused[one] >= fused[other]

    @calm
    @given(lexical=legs, vector=legs)
    def test_entry_that_only_one_list_has_is_not_above_one_ahead_of_it_in_that_list(
        self, method: Fusion, lexical: Scored, vector: Scored
    ) -> None:
        fused = dict(fuse(method, lexical, vector))
        only = [entry for entry in ids_of(lexical) if entry not in dict(vector)]
        for late in only:
            for early in ids_of(lexical)[: ids_of(lexical).index(late)]:
                assert fused[early] >= fused[late]


@calm
@given(table=score_tables, seed=st.integers(0, 1000))
def test_scores_of_min_max_do_not_depend_on_the_order_of_equal_hits(table: dict[str, float], seed: int) -> None:
    shuffled = list(table.items())
    random.Random(seed).shuffle(shuffled)
    by_score = sorted(shuffled, key=lambda item: -item[1])
    assert fuse(Fusion.MIN_MAX, by_score, []) == fuse(Fusion.MIN_MAX, by_rank(table), [])

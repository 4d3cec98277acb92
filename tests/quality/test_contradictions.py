"""Precision and recall of the detection of contradictions, on labelled pairs."""

import pytest

from tests.quality.contradictions.measuring import figures, judged, pairs


@pytest.mark.parametrize(("name", "precision", "recall"), [("development", 1.0, 0.866), ("unseen", 0.944, 0.772)])
def test_figures_are_at_least_those_that_were_measured(name: str, precision: float, recall: float) -> None:
    found = figures(name)
    assert found["precision"] >= precision
    assert found["recall"] >= recall


def test_no_pair_of_the_development_set_is_found_by_mistake() -> None:
    assert [pair.why for pair in pairs("development") if judged(pair) and not pair.contradicts] == []

"""A model of readings that is fitted to labelled ones says what its probabilities mean."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from opx.domain.queries import ReaderVerdict
from opx.errors import InvalidInputError
from opx.ports import CandidateReading
from opx.ports.models import reading_of
from opx.retrieval.reranking import LabelledReading, ReaderModel, assumed_model, combined, fit_reader
from opx_quality.evaluation.bands import calibration

ANSWERS, HELPS, NO = ReaderVerdict
RIGHT = {True: (0.8, 0.15, 0.05), False: (0.05, 0.15, 0.8)}
ANYHOW = {True: (0.6, 0.2, 0.2), False: (0.6, 0.2, 0.2)}
Shares = dict[bool, tuple[float, float, float]]
Read = Callable[[random.Random, bool], CandidateReading]


def a_model_with_verdicts(shares: Shares) -> Read:
    """A model with these shares of verdicts for relevant documents, and for others."""
    return lambda chance, relevant: CandidateReading(chance.choices(tuple(ReaderVerdict), shares[relevant])[0])


def a_scorer(chance: random.Random, relevant: bool) -> CandidateReading:
    """Gives scores that overlap, and are no probabilities."""
    return reading_of(chance.betavariate(4, 3) if relevant else chance.betavariate(1, 5))


def readings(read: Read, count: int, seed: int) -> list[LabelledReading]:
    """Of documents whose estimates are calibrated."""
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        estimate = chance.betavariate(0.6, 1.2)
        relevant = chance.random() < estimate
        rows.append(LabelledReading(estimate, read(chance, relevant), relevant))
    return rows


def error_of(model: ReaderModel, rows: list[LabelledReading]) -> float:
    """The expected calibration error."""
    return calibration([(combined(row.estimated, row.reading, model), row.relevant) for row in rows]).error


@pytest.mark.parametrize("read", [a_model_with_verdicts(RIGHT), a_model_with_verdicts(ANYHOW), a_scorer])
def test_fitted_model_is_calibrated_on_other_readings(read: Read) -> None:
    model = fit_reader(readings(read, 2000, seed=1))
    assert error_of(model, readings(read, 4000, seed=2)) < 0.03


def test_a_model_that_judges_anyhow_counts_for_nothing() -> None:
    model = fit_reader(readings(a_model_with_verdicts(ANYHOW), 4000, seed=3))
    assert model["estimate"] == pytest.approx(1, abs=0.1)
    assert [model[verdict] for verdict in ReaderVerdict] == pytest.approx([0, 0, 0], abs=0.2)
    assert error_of(assumed_model(scores=False), readings(a_model_with_verdicts(ANYHOW), 4000, seed=4)) > 0.1


def test_few_readings_leave_what_is_assumed() -> None:
    assumed = assumed_model(scores=False)
    model = fit_reader([LabelledReading(0.5, CandidateReading(ANSWERS), True)])
    assert model == pytest.approx(assumed, abs=0.05)
    assert model["answers"] > assumed["answers"]
    assert (model["helps"], model["no"]) == (assumed["helps"], assumed["no"])


def test_perfectly_separating_readings_give_a_finite_model() -> None:
    rows = [LabelledReading(0.5, CandidateReading(ANSWERS if at % 2 else NO), bool(at % 2)) for at in range(200)]
    model = fit_reader(rows)
    assert 2 < model["answers"] < 10
    assert -10 < model["no"] < -2


@pytest.mark.parametrize(
    "rows", [[], [LabelledReading(0.5, CandidateReading(NO), False), LabelledReading(0.5, reading_of(0.1), False)]]
)
def test_readings_that_cannot_be_fitted_are_refused(rows: list[LabelledReading]) -> None:
    with pytest.raises(InvalidInputError, match="all scores, or none"):
        fit_reader(rows)

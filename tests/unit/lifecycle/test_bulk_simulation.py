"""The simulation of bulk jobs keeps to limits, loses nothing, and is what the page shows."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from opx.ports.bulk import BatchLimits
from opx_bulk.planning import stage_hours
from tests.benchmarks.bulk_simulation import (
    ATTEMPTS,
    BEGIN,
    CHUNKS_A_DOCUMENT,
    END,
    FIVE_MILLION,
    MORE_JOBS,
    QUICK_JOBS,
    SCENARIOS,
    TEN_MILLION,
    Limits,
    Troubles,
    dying,
    pooled,
    reconciled,
    rows,
    simulated,
)

TARGET_HOURS, TARGET_MINUTES = 24.0, 15.0


def test_page_shows_what_is_simulated() -> None:
    """A change of the page: `python -m tests.benchmarks.bulk_simulation docs/scale.md`."""
    page = Path("docs/scale.md").read_text("utf-8")
    assert page.partition(BEGIN)[2].partition(END)[0].strip() == "\n".join(rows())


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_lost(name: str) -> None:
    found = simulated(FIVE_MILLION, *SCENARIOS[name])
    assert found.settled + found.named == found.documents == FIVE_MILLION


def test_five_million_are_in_within_a_day_by_quick_jobs_or_more_of_them() -> None:
    assert simulated(FIVE_MILLION, QUICK_JOBS).total_hours <= TARGET_HOURS
    assert simulated(FIVE_MILLION, MORE_JOBS, Troubles(children=0.01)).total_hours <= TARGET_HOURS
    assert simulated(FIVE_MILLION).total_hours > TARGET_HOURS  # by published defaults, if a job takes two hours


@pytest.mark.parametrize("documents", [20_000, 400_000, FIVE_MILLION])
def test_a_plan_has_the_hours_of_the_simulation_without_failures(documents: int) -> None:
    planned = stage_hours(documents, documents * CHUNKS_A_DOCUMENT)
    simulated_hours = simulated(documents).hours
    assert planned.keys() == simulated_hours.keys()
    for stage, hours in planned.items():
        assert hours == pytest.approx(simulated_hours[stage], rel=0.05, abs=0.02), stage


def test_pool_runs_no_more_than_its_slots() -> None:
    end, attempts = pooled([10.0] * 25, 10, lambda: None)
    assert (end, attempts) == (30.0, [1] * 25)
    assert pooled([10.0] * 25, 100, lambda: None, a_second=1.0)[0] == 34.0


def test_failed_attempt_costs_its_share_and_is_repeated() -> None:
    shares = iter([0.5, None, None])
    assert pooled([10.0, 10.0], 1, lambda: next(shares)) == (25.0, [2, 1])


def test_child_that_dies_each_time_is_named() -> None:
    _, attempts = pooled([1.0], 1, dying(random.Random(1), 1.0))
    assert attempts == [-ATTEMPTS]
    found = simulated(1_000, troubles=Troubles(children=1.0))
    assert (found.settled, found.named > 0) == (1_000 - found.named, True)


@pytest.mark.parametrize(
    "worse",
    [Troubles(children=0.2), Troubles(expired=0.01), Troubles(halved_after=0.3)],
    ids=["children", "jobs", "quota"],
)
def test_troubles_take_time(worse: Troubles) -> None:
    assert simulated(FIVE_MILLION, MORE_JOBS, worse).total_hours > simulated(FIVE_MILLION, MORE_JOBS).total_hours


def test_few_texts_are_embedded_on_demand() -> None:
    few = simulated(BatchLimits().minimum_records // 10 - 1)
    assert few.hours["embed"] < 0.01


def test_index_that_takes_half_bounds_the_writing() -> None:
    slow = simulated(FIVE_MILLION, replace(Limits(), entries_a_unit=125.0))
    assert slow.hours["apply"] == pytest.approx(2 * simulated(FIVE_MILLION).hours["apply"], rel=0.01)


def test_comparison_is_within_its_time() -> None:
    assert reconciled(1_000_000, 16, 1).minutes <= TARGET_MINUTES
    assert reconciled(TEN_MILLION, 192, 5).minutes <= TARGET_MINUTES
    assert reconciled(TEN_MILLION, 192, 1).minutes == reconciled(TEN_MILLION, 192, 1).objects > TARGET_MINUTES

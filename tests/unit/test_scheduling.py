"""The order in which tests are given to processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scheduling import LONG, scope_of, turns

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", LONG)
def test_what_takes_long_is_there(name: str) -> None:
    assert (ROOT / name).exists()


def test_the_longest_comes_first_and_then_what_has_most_tests() -> None:
    few, many = ["tests/unit/test_a.py::test_a"], [f"tests/unit/test_b.py::test_b[{number}]" for number in range(9)]
    long, longest = [f"{LONG[2]}::test_c"], [f"{LONG[1]}::test_d", f"{LONG[1]}::test_e"]
    turn = turns([*few, *many, *long, *longest])
    assert sorted([*few, *many, *long, *longest], key=turn) == [*longest, *long, *many, *few]


def test_modules_that_share_fixtures_are_one() -> None:
    assert scope_of("tests/infra/test_a.py::test_a") == scope_of("tests/infra/test_b.py::TestB::test_b")
    assert scope_of("tests/unit/test_a.py::TestA::test_a") == "tests/unit/test_a.py"

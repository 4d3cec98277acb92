"""The order in which tests are given to processes."""

from __future__ import annotations

import pytest

from tests.support.scheduling import SLOW, TESTS, scope_of, slow_modules, turns


@pytest.mark.parametrize("name", SLOW)
def test_slow_modules_are_there(name: str) -> None:
    assert (TESTS.parent / name).exists()


def test_the_longest_comes_first_and_then_what_has_most_tests() -> None:
    few, many = ["tests/unit/test_a.py::test_a"], [f"tests/unit/test_b.py::test_b[{number}]" for number in range(9)]
    longest, long = [f"{module}::test_c" for module in list(SLOW)[:2]]
    turn = turns([*few, *many, longest, long])
    assert sorted([*few, *many, long, longest], key=turn) == [longest, long, *many, *few]


def test_modules_that_share_fixtures_are_one() -> None:
    assert scope_of("tests/infra/test_a.py::test_a") == scope_of("tests/infra/test_b.py::TestB::test_b")
    assert scope_of("tests/unit/test_a.py::TestA::test_a") == "tests/unit/test_a.py"


def test_slow_modules_are_those_whose_tests_take_long_on_average() -> None:
    durations = [
        ("a.py::b", 3.0),
        ("a.py::c", 0.1),
        ("b.py::d[1]", 0.01),
        ("b.py::d[2]", 0.1),
        ("c.py::e", 7.6),
        ("d.py::f", 1.9),
    ]
    assert slow_modules(durations) == "8 c.py\n3 a.py\n"

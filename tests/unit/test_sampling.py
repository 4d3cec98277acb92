"""Samples of cases, which `make test` takes."""

from __future__ import annotations

import pytest

from tests.support import sampling
from tests.support.sampling import sampled, without_most_of_the_many
from tests.support.scheduling import SLOW, TESTS, scope_of, slow_modules, turns


@pytest.mark.parametrize("first", [0, 1, 5])
def test_parts_that_follow_each_other_are_all_cases(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    monkeypatch.setattr(sampling, "EVERY", 3)
    parts = [sampled(range(10), part) for part in range(first, first + 3)]
    assert len(sampled(range(2), first)) == 1
    assert sorted(case for part in parts for case in part) == list(range(10))
    assert max(map(len, parts)) == 4


def test_another_seed_takes_another_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "EVERY", 3)
    parts = []
    for seed in (7, 8, 9):
        monkeypatch.setattr(sampling, "SEED", seed)
        parts.append(list(sampled(range(9), 0)))
    assert sorted(case for part in parts for case in part) == list(range(9))


def test_all_cases_are_one_part_where_no_sample_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "EVERY", 1)
    assert list(sampled(range(10), 7)) == list(range(10))


def cases_of(name: str, count: int) -> list[str]:
    return [f"{name}[{number}]" for number in range(count)]


@pytest.mark.parametrize("module", ["tests/unit/a/test_b.py", "layers/opx-a/tests/test_b.py"])
def test_of_many_cases_of_a_unit_test_a_part_is_left(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setattr(sampling, "EVERY", 3)
    many, few = cases_of(f"{module}::test_c", 30), cases_of(f"{module}::test_d", 3)
    left_out = without_most_of_the_many([*many, *few, f"{module}::test_e"])
    assert len(left_out) == 20
    assert left_out < set(many)
    assert left_out == without_most_of_the_many(reversed([*many, *few]))


@pytest.mark.parametrize(
    "name", ["tests/isolation/test_guessing.py::test_a", "tests/unit/test_architecture.py::test_a"]
)
def test_isolation_and_rules_of_the_architecture_are_whole(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(sampling, "EVERY", 3)
    assert without_most_of_the_many(cases_of(name, 100)) == set()


def test_without_a_sample_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "EVERY", 1)
    assert without_most_of_the_many(cases_of("tests/unit/test_a.py::test_b", 100)) == set()


def test_of_slow_modules_a_part_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "EVERY", 3)
    tests = [f"tests/e2e/test_pipeline_crashes.py::test_{number}" for number in range(6)]
    assert len(without_most_of_the_many(tests)) == 4


def test_slow_modules_are_there() -> None:
    assert [name for name in SLOW if not (TESTS.parent / name).exists()] == []


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

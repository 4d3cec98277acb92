"""The budget of the project's size, which `make lint` checks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.programs import program


@pytest.fixture(scope="module")
def budget() -> Any:
    return program("budget")


LIMITS: dict[str, Any] = {
    "library": {"graph": {"files": 2, "lines": 100, "tokens": 900, "leave": "extraction of one vendor"}},
    "whole": {
        "settings": {"most": 10, "leave": "a choice that nobody makes"},
        "library_lines": {"most": 150, "leave": "-"},
    },
}
LOAN = {"package": "graph", "lines": 50, "for": "a resolver", "repaid_by": "the resolver of today"}


def found(budget: Any, *, lines: int = 100, tokens: int = 900, settings: int = 10, **more: Any) -> list[str]:
    parts = {"graph": {"files": 2, "lines": lines, "tokens": tokens}}
    return list(budget.problems(LIMITS | more, parts, {"settings": settings}))


def test_blank_lines_and_docstrings_count_for_nothing(budget: Any) -> None:
    plain = "X = 1\n\n\ndef f() -> None:\n    # a reason\n    return g(\n        X,\n    )\n"
    described = '"""Module.\n\nLong.\n"""\n\nX = 1\n"""A constant."""\n' + plain.removeprefix("X = 1\n").replace(
        "    # a", '    """Function."""\n\n    # a'
    )
    assert budget.size_of(described) == budget.size_of(plain)
    assert budget.size_of(plain)[0] == 6


def test_a_text_that_is_a_value_counts(budget: Any) -> None:
    assert budget.size_of('X = """a\nb\n"""\n')[0] == 3


def test_density_shows_as_tokens(budget: Any) -> None:
    assert budget.size_of("x = [f(a), f(b), f(c)]\n")[1] > budget.size_of("x = y\nz = y\n")[1]


def test_figures_at_their_limits_pass(budget: Any) -> None:
    assert found(budget) == []


@pytest.mark.parametrize("above", [{"lines": 101}, {"tokens": 901}])
def test_a_package_above_its_limit_fails_with_what_may_leave(budget: Any, above: dict[str, int]) -> None:
    (problem,) = found(budget, **above)
    assert "graph" in problem
    assert "What may leave: extraction of one vendor" in problem


def test_a_setting_more_fails_with_what_may_leave(budget: Any) -> None:
    assert found(budget, settings=11) == ["settings: 11, 10 at most. What may leave: a choice that nobody makes"]


def test_a_package_without_a_limit_fails(budget: Any) -> None:
    assert list(budget.problems(LIMITS, {"new": {"files": 1, "lines": 1, "tokens": 1}}, {}))


def test_a_loan_raises_the_limit_of_its_package_until_it_is_paid_back(budget: Any) -> None:
    assert found(budget, lines=150, tokens=1_400, loans=[LOAN]) == []
    assert found(budget, lines=151, loans=[LOAN])


@pytest.mark.parametrize("wrong", [{"lines": 2_501}, {"repaid_by": " "}])
def test_a_loan_is_limited_and_names_what_pays_it_back(budget: Any, wrong: dict[str, Any]) -> None:
    assert any("at most 2500 lines" in problem for problem in found(budget, loans=[LOAN | wrong]))


def test_a_limit_above_an_earlier_one_fails(budget: Any) -> None:
    lower = {**LIMITS, "whole": {**LIMITS["whole"], "settings": {"most": 9, "leave": ""}}}
    (problem,) = budget.raised([LIMITS, LIMITS, lower])
    assert problem.startswith("settings: its limit was 9 and is 10")
    assert list(budget.raised([lower, LIMITS])) == []


def test_limits_are_lowered_to_what_was_reached_and_never_raised(budget: Any) -> None:
    text = 'graph = { files = 2, lines = 100, tokens = 900, leave = "lines" }\nsettings = { most = 10, leave = "a" }\n'
    parts = {"graph": {"files": 3, "lines": 90, "tokens": 900}}
    assert budget.lowered(text, parts, {"settings": 8}) == text.replace("100", "90").replace("10,", "8,")

"""Checks of `make lint`: the budget of the project's size, and the sentences of documentation pages."""

from __future__ import annotations

from pathlib import Path
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


def test_tests_beside_a_distribution_count_as_tests(budget: Any, tmp_path: Path) -> None:
    for folder in ("tests/unit", "layers/opx-a/tests", "layers/opx-a/python/opx_a"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "test_a.py").write_text(f"# {folder}\n")
    assert budget.tests_of(tmp_path) == ["# tests/unit\n", "# layers/opx-a/tests\n"]


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


@pytest.fixture(scope="module")
def check() -> Any:
    return program("sentences")


def words(count: int) -> str:
    return " ".join(["word"] * count)


def test_a_sentence_of_thirty_words_passes_and_a_longer_one_is_named_with_its_line(check: Any) -> None:
    page = f"# Page\n\nShort.\nAlso short. {words(30).capitalize()}.\n{words(31).capitalize()}.\n"
    ((line, reason),) = check.problems(page)
    assert line == 5
    assert reason.startswith("31 words, 30 at most: Word word ")


@pytest.mark.parametrize(
    "sentence",
    [
        "Nothing is stored that isn't masked.",
        "It cannot open it unless you are the owner.",
        "No page is lost, and none is changed.",
        "Without a token it doesn’t start.",
    ],
)
def test_two_negations_in_a_sentence_are_a_problem(check: Any, sentence: str) -> None:
    ((line, reason),) = check.problems(sentence)
    assert line == 1
    assert reason.startswith("2 negations (")


def test_negations_of_two_sentences_or_list_items_are_counted_apart(check: Any) -> None:
    assert list(check.problems("It isn't stored. `opx` never runs it.\n\n- no account\n- no network\n")) == []


@pytest.mark.parametrize(
    "page",
    [
        f"Run `{words(31)}` once.",
        f"    {words(31)}\n",
        f"```sh\n{words(31)}\n```\n",
        f"| a |\n|---|\n| {words(31)} |\n",
        f"<!-- shows: {words(31)} -->\n",
        f"[This]({'not/' * 3}page.md) <b title='not no'>page</b>.",
    ],
)
def test_code_tables_comments_and_link_targets_do_not_count(check: Any, page: str) -> None:
    assert list(check.problems(page)) == []


def test_a_full_stop_within_a_name_or_number_ends_no_sentence(check: Any) -> None:
    assert [text for _, text in check.sentences("Set 0.95 in knowledge.yaml. Then e.g. restart.")] == [
        "Set 0.95 in knowledge.yaml.",
        "Then e.g. restart.",
    ]


def test_an_exception_stays_as_it_is(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(check.EXCEPTIONS, "Nothing is", "quoted from a standard")
    assert list(check.problems("Nothing is here, not even this.")) == []


def test_the_program_fails_on_a_page_with_a_problem(check: Any, tmp_path: Any, capsys: Any) -> None:
    (tmp_path / "page.md").write_text("Never say never.\n")
    assert check.main([str(tmp_path / "page.md")]) == 1
    assert f"{tmp_path / 'page.md'}:1: 2 negations (Never, never): Never say never." in capsys.readouterr().out

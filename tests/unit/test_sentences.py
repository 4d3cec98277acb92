"""The check of the documentation's sentences, which `make lint` runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.programs import program


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

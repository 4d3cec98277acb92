from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.cli.hits import clean_lines, excerpt, highlighted


def test_an_excerpt_holds_the_lines_with_the_questions_words() -> None:
    content = "\n\n".join(f"Paragraph {number} says nothing." for number in range(9)) + "\n\nThe valve leaks oil.\n"
    assert excerpt(content, "leaking valves")[-1] == "The valve leaks oil."


def test_without_any_word_of_the_question_it_is_the_beginning() -> None:
    assert excerpt("one\ntwo\nthree\nfour", "zebra") == ["one", "two", "three"]


def test_an_excerpt_begins_where_a_line_does_if_it_can() -> None:
    content = "word " * 30 + "valve\n\nvalve here\n\nend\n\nend\n"
    assert excerpt(content, "valve", width=40)[0] == "valve here"


@pytest.mark.parametrize(
    ("line", "clean"),
    [
        ("- **Bold** and `code`", ["- Bold and code"]),
        ("See [the page](https://example.org/a_(b)).", ["See the page)."]),
        ("| a | b |", ["a | b"]),
        ("|---|:--:|", []),
        ("|  |  |", []),
        ("```bash", []),
        ("> quoted", ["quoted"]),
        ("---", []),
        ("# Only a heading", ["Only a heading"]),
        ("# A heading\n\nand text", ["and text"]),
        ("", []),
    ],
)
def test_markdown_marks_are_left_out(line: str, clean: list[str]) -> None:
    assert clean_lines(line) == clean


def test_words_that_share_a_stem_with_the_question_are_marked() -> None:
    assert highlighted("Pods keep crashing, crash!", "crashes", str.upper) == "Pods keep CRASHING, CRASH!"


def test_inflections_of_the_questions_language_are_marked() -> None:
    assert highlighted("Zwei Festplatten sind voll.", "Festplatte voll", str.upper) == "Zwei FESTPLATTEN sind VOLL."


def test_in_a_text_without_blanks_the_parts_of_the_question_are_marked() -> None:
    assert highlighted("服务器磁盘已满。", "磁盘满", lambda part: f"<{part}>") == "服务器<磁盘>已满。"
    assert highlighted("服务器磁盘已满。", "证书", lambda part: f"<{part}>") == "服务器磁盘已满。"


def test_an_excerpt_holds_the_lines_with_inflections_of_the_questions_words() -> None:
    content = "\n\n".join(f"Absatz {number} sagt nichts." for number in range(9)) + "\n\nAlte Protokolle löschen.\n"
    assert excerpt(content, "Protokollen löschen")[-1] == "Alte Protokolle löschen."


def test_parts_of_identifiers_are_marked() -> None:
    assert highlighted("alert `KubePodCrashLooping` fired", "kube", lambda word: f"<{word}>").count("<") == 1


@given(st.text(), st.text())
def test_any_text_has_an_excerpt_of_at_most_three_lines(content: str, query: str) -> None:
    lines = excerpt(content, query)
    assert len(lines) <= 3
    assert all(0 < len(line) <= 96 for line in lines)

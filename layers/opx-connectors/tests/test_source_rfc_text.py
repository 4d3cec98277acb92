"""The plain text of RFCs as Markdown."""

from __future__ import annotations

import pytest

from opx_connectors.web.rfc_text import rfc_markdown

FRONT = """\
Network Working Group                                          A. Author
Request for Comments: 1234                                  Some Company

                       A Protocol of Our Own
"""


def page(number: int, *lines: str) -> str:
    head = "RFC 1234                  A Protocol of Our Own               May 1996\n\n" if number > 1 else FRONT
    return (
        head
        + "\n"
        + "\n".join(lines)
        + f"\n\n\n\nAuthor                     Standards Track                   [Page {number}]\n\f\n"
    )


def test_heads_and_feet_of_pages_are_left_out() -> None:
    converted = rfc_markdown(page(1, "1.  One", "", "   Text.") + page(2, "2.  Two", "", "   More."))
    assert converted == "## 1. One\n\nText.\n\n## 2. Two\n\nMore."


def test_paragraph_over_two_pages_is_one() -> None:
    text = page(1, "1.  One", "", "   A sentence that ends on") + page(2, "   the next page.", "", "   Another.")
    assert rfc_markdown(text) == "## 1. One\n\nA sentence that ends on\nthe next page.\n\nAnother."


def test_paragraph_at_a_new_page_stays_a_paragraph() -> None:
    text = page(1, "1.  One", "", "   It ends here.") + page(2, "   A new one.")
    assert rfc_markdown(text) == "## 1. One\n\nIt ends here.\n\nA new one."


def test_text_without_pages_is_read_too() -> None:
    assert (
        rfc_markdown(f"\ufeff{FRONT}\nAbstract\n\n   Short.\n\n1.  One\n\n   Text.\n")
        == "## Abstract\n\nShort.\n\n## 1. One\n\nText."
    )


def test_windows_line_ends_are_read_too() -> None:
    assert rfc_markdown("Abstract\r\n\r\n   Short.\r\n") == "## Abstract\n\nShort."


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("1.  Introduction", "## 1. Introduction"),
        ("1 Introduction", "## 1 Introduction"),
        ("3.2.  Frames", "### 3.2. Frames"),
        ("3.2.1.1.1.1.1.  Deep", "###### 3.2.1.1.1.1.1. Deep"),
        ("Appendix A.  Grammar", "## Appendix A. Grammar"),
        ("A.1.  Terms", "### A.1. Terms"),
        ("Security Considerations", "## Security Considerations"),
        ("IESG Note:", "## IESG Note"),
        ("Authors' Addresses", "## Authors' Addresses"),
    ],
)
def test_lines_at_the_first_column_are_headings(line: str, heading: str) -> None:
    assert rfc_markdown(f"Abstract\n\n   Short.\n\n{line}\n\n   Text.\n").endswith(f"{heading}\n\nText.")


def test_heading_of_two_lines_is_one() -> None:
    assert "### 9.2. A Rather Long Heading That Goes On" in rfc_markdown(
        "9.  Nine\n\n   Text.\n\n9.2.  A Rather Long Heading\n      That Goes On\n\n   Text.\n"
    )


def test_indented_headings_within_a_chapter_are_headings() -> None:
    text = "3. Details\n\n   3.1. Overview\n\n      Text.\n\n   4.7. of the other document\n\n   2.1. Not of this chapter\n"
    assert (
        rfc_markdown(text)
        == "## 3. Details\n\n### 3.1. Overview\n\nText.\n\n4.7. of the other document\n\n2.1. Not of this chapter"
    )


def test_contents_and_boilerplate_are_left_out() -> None:
    text = (
        "Status of This Memo\n\n   This is for all.\n\nCopyright Notice\n\n   (c)\n\nTable of Contents\n\n"
        "   1.  Introduction ............ 2\n     1.1.  Terms\n\n   Appendix A.  More\n\n1.  Introduction\n\n   Text.\n"
    )
    assert rfc_markdown(text) == "## 1. Introduction\n\nText."


def test_lists_are_lists() -> None:
    text = "1.  One\n\n   o  first\n\n   o  second\n      goes on\n\n   -  third\n"
    assert rfc_markdown(text) == "## 1. One\n\n- first\n\n- second\ngoes on\n\n- third"


@pytest.mark.parametrize(
    "drawing",
    [
        "+-----+\n|  A  |\n+-----+",
        "token  = 1*tchar\ntchar  = ALPHA / DIGIT",
        "Name    Value    Meaning\n----    -----    -------\nA       1        first",
        "Symbol  Code\n------  ----\nA       10\nB       0\nC       110",
        "if (x) {\n  y = 1;\n}",
        "<a>\n  <b/>\n</a>",
    ],
)
def test_diagrams_tables_grammars_and_code_stay_as_they_are(drawing: str) -> None:
    indented = "\n".join(f"   {line}" for line in drawing.splitlines())
    assert (
        rfc_markdown(f"1.  One\n\n   Text.\n\n{indented}\n\n   Text.\n")
        == f"## 1. One\n\nText.\n\n```\n{drawing}\n```\n\nText."
    )


def test_drawing_with_blank_lines_is_in_one_fence() -> None:
    assert rfc_markdown("1.  One\n\n   +--+\n   |  |\n\n   +--+\n   |  |\n").count("```") == 2


def test_text_makes_no_markdown_of_its_own() -> None:
    converted = rfc_markdown("1.  One\n\n   # not a heading\n\n   > not a quote\n\n   ```\n\n   Text.\n")
    assert "\n\\# not a heading\n\n\\> not a quote\n\n\\```\n\nText." in converted


def test_text_without_headings_is_kept_whole() -> None:
    assert (
        rfc_markdown("an old note, in lower case.\n\nanother line of it.\n")
        == "an old note, in lower case.\n\nanother line of it."
    )


def test_empty_text_gives_nothing() -> None:
    assert rfc_markdown("") == ""

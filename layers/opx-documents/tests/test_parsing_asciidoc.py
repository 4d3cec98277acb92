"""AsciiDoc."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.parsing_support import outcome, parsed, text_of

HEADER = """\
= Restart {product}
Ana Lopez <ana@example.org>; Bob B. <b@example.org>
v1.2, 2025-03-04: corrections
:product: Checkout
:keywords: restart, checkout
:description: How to restart it.

Text
"""


def test_the_header_is_title_and_metadata() -> None:
    found = parsed(HEADER.replace("{product}", "it"), "a.adoc")
    assert found.title == "Restart it"
    assert found.metadata == {
        "author": "Ana Lopez, Bob B.",
        "version": "1.2",
        "last_updated": "2025-03-04",
        "tags": "restart, checkout",
        "description": "How to restart it.",
    }


def test_attributes_of_the_header_hold_in_its_title() -> None:
    assert parsed(HEADER, "a.adoc").title == "Restart Checkout"


def test_a_page_without_a_title_has_none() -> None:
    assert parsed("Text\n", "a.asciidoc").title is None


SHOWN = {
    "sections are headings": ("= T\n\n== One\n\n=== Two\n\ntext\n", "# T\n\n## One\n\n### Two\n\ntext\n\n"),
    "attributes are put in and unknown ones stay": (
        ":v: 9\n\nuse {v} of {unknown} and \\{v}\n",
        "use 9 of {unknown} and {v}\n\n",
    ),
    "code in a list is a code block with its language": (
        "* one\n+\n[source,bash]\n----\ndf -h\n\n# all\n----\n* two\n",
        "- one\n\n```bash\ndf -h\n\n# all\n```\n\n- two\n\n",
    ),
    "described terms are bold": (
        "CPU:: The processor\nRAM::\n  The memory\n",
        "- **CPU**: The processor\n- **RAM**\n  The memory\n\n",
    ),
    "admonitions are named": (
        "NOTE: Be careful.\n\n[WARNING]\n====\nNever.\n====\n\n[TIP]\nTry it.\n",
        "**Note:** Be careful.\n\n**Warning:**\n\nNever.\n\n**Tip:** Try it.\n\n",
    ),
    "a table keeps its header and cells": (
        '[cols="1,2", options="header"]\n|===\n|Name |Port\n\n|db\n|5432 \\| 5433\n|web |80\n|===\n',
        "| Name | Port |\n| --- | --- |\n| db | 5432 \\| 5433 |\n| web | 80 |\n\n",
    ),
    "a table may be csv": (
        '[%header,format=csv]\n|===\na,b\n1,"2,3"\n|===\n',
        "| a | b |\n| --- | --- |\n| 1 | 2,3 |\n\n",
    ),
    "links images and references are text": (
        "See https://e.org/x[the docs,window=_blank], image:a.png[Plan], <<id,there>> and xref:b.adoc[b].\n",
        "See the docs (https://e.org/x), Plan, there and b.\n\n",
    ),
    "bold and code are kept": ("a *bold* and `code` and 2*3*4\n", "a **bold** and `code` and 2*3*4\n\n"),
    "comments and conditions are left out": (
        "// no\na\n\n////\nno\n////\n\nifdef::env[]\nb\nendif::[]\n",
        "a\n\nb\n\n",
    ),
    "text does not become a heading or an open code block": ("a\n# b\nc\n-\n", "a\n\\# b\n**c**\n\n\n"),
    "an unclosed block is kept": ("----\nx\n\n== y\n", "```\nx\n\n== y\n```\n\n"),
    "lists are nested": (
        "* one\n** two\n- three\n\n. first\n.. deeper\n. second\n",
        "- one\n  - two\n- three\n\n1. first\n  1. deeper\n1. second\n\n",
    ),
}


@pytest.mark.parametrize(("text", "expected"), SHOWN.values(), ids=SHOWN)
def test_page_becomes_markdown(text: str, expected: str) -> None:
    assert text_of(text, "a.adoc") == expected


@pytest.mark.parametrize(
    "text",
    ["[,sh]\n----\nx\n----\n", "```sh\nx\n```\n", "[source,sh]\nx\n", ":source-language: sh\n\n[source]\n--\nx\n--\n"],
)
def test_ways_to_write_code(text: str) -> None:
    assert text_of(text, "a.adoc") == "```sh\nx\n```\n\n"


def test_cells_that_span_or_repeat_are_counted() -> None:
    text = "[cols=3*]\n|===\n2+|wide |a\n3*|same\n|===\n"
    assert "| wide |  | a |\n| same | same | same |\n" in text_of(text, "a.adoc")


def test_includes_are_not_followed_but_remarked_on() -> None:
    found = parsed("a\n\ninclude::/etc/passwd[]\n\n----\ninclude::b.sh[]\n----\n", "a.adoc")
    assert "passwd" not in "".join(found.lines)
    assert [one.text for one in found.remarks] == [
        "a.adoc: line 3 includes /etc/passwd, which is not followed",
        "a.adoc: a block includes b.sh, which is not followed",
    ]


def test_attributes_of_attributes_do_not_multiply() -> None:
    lines = ":a0: xxxxxxxxxx\n" + "".join(f":a{n}: {{a{n - 1}}}" + f"{{a{n - 1}}}" * 9 + "\n" for n in range(1, 30))
    assert len(text_of(lines + "\n" + "{a29}{a28}{a3}\n\n" * 3_000, "a.adoc")) < 1_000_000


@pytest.mark.parametrize(
    "line", ["*a ", "http://", "image:", "<<", "{a}", "[[", "|", "`", "2+|", "::", "a::", "====\n"]
)
def test_long_and_repetitive_lines_are_taken(line: str) -> None:
    assert outcome(f"|===\n{line * 5_000}\n|===\n\n{line * 5_000}[x]\n", "a.adoc") == "parsed"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "= T",
                "== S",
                "* a",
                ". b",
                "+",
                "|===",
                "|a |b",
                "----",
                "====",
                "--",
                "[source,sh]",
                "NOTE: x",
                ":a: b",
                "{a}",
                "a::",
                "include::x[]",
                "",
                "text",
                " lit",
                "////",
                "'''",
                ".Title",
                "`a` *b*",
                "[cols=2*]",
                "#",
                "```",
                "!===",
            ]
        )
        | st.text(st.sampled_from("a1 *_`{}[]<>|:=+.-#/\\"), max_size=20),
        max_size=25,
    )
)
def test_no_page_fails_but_by_a_refusal(lines: list[str]) -> None:
    found = outcome("\n".join(lines), "a.adoc")
    assert found == "parsed" or found.startswith("a.adoc: ")

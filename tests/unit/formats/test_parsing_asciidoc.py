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


def test_sections_are_headings() -> None:
    assert text_of("= T\n\n== One\n\n=== Two\n\ntext\n", "a.adoc") == "# T\n\n## One\n\n### Two\n\ntext\n\n"


def test_attributes_are_put_in_and_unknown_ones_stay() -> None:
    assert text_of(":v: 9\n\nuse {v} of {unknown} and \\{v}\n", "a.adoc") == "use 9 of {unknown} and {v}\n\n"


def test_lists_are_nested() -> None:
    text = "* one\n** two\n- three\n\n. first\n.. deeper\n. second\n"
    expected = "- one\n  - two\n- three\n\n1. first\n  1. deeper\n1. second\n\n"
    assert text_of(text, "a.adoc") == expected


def test_code_in_a_list_is_a_code_block_with_its_language() -> None:
    text = "* one\n+\n[source,bash]\n----\ndf -h\n\n# all\n----\n* two\n"
    assert text_of(text, "a.adoc") == "- one\n\n```bash\ndf -h\n\n# all\n```\n\n- two\n\n"


@pytest.mark.parametrize(
    "text",
    ["[,sh]\n----\nx\n----\n", "```sh\nx\n```\n", "[source,sh]\nx\n", ":source-language: sh\n\n[source]\n--\nx\n--\n"],
)
def test_ways_to_write_code(text: str) -> None:
    assert text_of(text, "a.adoc") == "```sh\nx\n```\n\n"


def test_described_terms_are_bold() -> None:
    assert text_of("CPU:: The processor\nRAM::\n  The memory\n", "a.adoc") == (
        "- **CPU**: The processor\n- **RAM**\n  The memory\n\n"
    )


def test_admonitions_are_named() -> None:
    text = "NOTE: Be careful.\n\n[WARNING]\n====\nNever.\n====\n\n[TIP]\nTry it.\n"
    assert text_of(text, "a.adoc") == "**Note:** Be careful.\n\n**Warning:**\n\nNever.\n\n**Tip:** Try it.\n\n"


def test_a_table_keeps_its_header_and_cells() -> None:
    text = '[cols="1,2", options="header"]\n|===\n|Name |Port\n\n|db\n|5432 \\| 5433\n|web |80\n|===\n'
    assert text_of(text, "a.adoc") == ("| Name | Port |\n| --- | --- |\n| db | 5432 \\| 5433 |\n| web | 80 |\n\n")


def test_cells_that_span_or_repeat_are_counted() -> None:
    text = "[cols=3*]\n|===\n2+|wide |a\n3*|same\n|===\n"
    assert "| wide |  | a |\n| same | same | same |\n" in text_of(text, "a.adoc")


def test_a_table_may_be_csv() -> None:
    text = '[%header,format=csv]\n|===\na,b\n1,"2,3"\n|===\n'
    assert text_of(text, "a.adoc") == "| a | b |\n| --- | --- |\n| 1 | 2,3 |\n\n"


def test_links_images_and_references_are_text() -> None:
    text = "See https://e.org/x[the docs,window=_blank], image:a.png[Plan], <<id,there>> and xref:b.adoc[b].\n"
    assert text_of(text, "a.adoc") == "See the docs (https://e.org/x), Plan, there and b.\n\n"


def test_bold_and_code_are_kept() -> None:
    assert text_of("a *bold* and `code` and 2*3*4\n", "a.adoc") == "a **bold** and `code` and 2*3*4\n\n"


def test_includes_are_not_followed_but_remarked_on() -> None:
    found = parsed("a\n\ninclude::/etc/passwd[]\n\n----\ninclude::b.sh[]\n----\n", "a.adoc")
    assert "passwd" not in "".join(found.lines)
    assert [one.text for one in found.remarks] == [
        "a.adoc: line 3 includes /etc/passwd, which is not followed",
        "a.adoc: a block includes b.sh, which is not followed",
    ]


def test_comments_and_conditions_are_left_out() -> None:
    text = "// no\na\n\n////\nno\n////\n\nifdef::env[]\nb\nendif::[]\n"
    assert text_of(text, "a.adoc") == "a\n\nb\n\n"


def test_text_does_not_become_a_heading_or_an_open_code_block() -> None:
    assert text_of("a\n# b\nc\n-\n", "a.adoc") == "a\n\\# b\n**c**\n\n\n"


def test_an_unclosed_block_is_kept() -> None:
    assert text_of("----\nx\n\n== y\n", "a.adoc") == "```\nx\n\n== y\n```\n\n"


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

"""Markdown by another author within a document of ours: it stays in its section."""

from __future__ import annotations

import time
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from opx.formats.markdown import nested
from opx.formats.markdown_lines import scan

PREFIXES = ("", "> ", "- ", "  ", "1. ", "> - ", "- > ", "   ", "    ", ">", "- - ", "10. ", "\t")
BODIES = (
    "# a", "###### b", "#", "#c", "text", "", "```", "```sh", "```not `a` fence", "````", "~~~", "~~~~ sh", "===", "---", "-",
    "***", "<!--", "-->", "<!-- x -->", "<!-- x --># d", "<!-- x -->```", "<!", "-- y -->", "<div>", "</div>", "<pre>",
    "</pre>", "<?x", "<b>", "[a]: /u", "| a |", "|---|", "`x`", "\\", "a\r# b",
)  # fmt: skip
MARKDOWN = st.lists(st.tuples(st.sampled_from(PREFIXES), st.sampled_from(BODIES)).map("".join), max_size=9).map(
    "\n".join
)
LEVELS = st.integers(1, 3)


def commonmark(text: str) -> list[tuple[int, int, str]]:
    """Headings with the depth of their container, as a parser reads them that isn't ours."""
    tokens = MarkdownIt("commonmark", {"maxNesting": 1000}).parse(text)
    return [
        (int(token.tag[1]), token.level, tokens[at + 1].content)
        for at, token in enumerate(tokens)
        if token.type == "heading_open"
    ]


def scanned(text: str) -> list[tuple[int, str]]:
    return [(line.level, line.heading) for line in scan(StringIO(text)) if line.level]


@given(MARKDOWN, LEVELS)
def test_text_stays_below_its_heading_for_every_reader(text: str, under: int) -> None:
    whole = f"{'#' * under} By eve\n\n{nested(text, under)}\n\n{'#' * under} By ann\n\nlast\n"
    ours = ["By eve", "By ann"]
    assert [found for found in scanned(whole) if found[0] <= under] == [(under, name) for name in ours]
    assert [found for found in commonmark(whole) if found[0] <= under] == [(under, 0, name) for name in ours]


@given(MARKDOWN)
def test_code_is_closed_where_its_container_ends(text: str) -> None:
    shown = nested(text, 2)
    lines = shown.split("\n")
    for token in MarkdownIt("commonmark", {"maxNesting": 1000}).parse(shown):
        if token.type == "fence":
            assert token.map
            assert lines[token.map[1] - 1].strip("> \t0123456789.-").startswith(token.markup[0] * len(token.markup))


@given(MARKDOWN)
def test_comments_are_left_only_in_code(text: str) -> None:
    tokens = MarkdownIt("commonmark", {"maxNesting": 1000}).parse(nested(text, 2))
    inline = [child for token in tokens for child in token.children or ()]
    html = [token.content for token in (*tokens, *inline) if token.type in ("html_block", "html_inline")]
    assert not [content for content in html if "<!--" in content]


@given(MARKDOWN, LEVELS)
def test_text_without_structure_is_kept(text: str, under: int) -> None:
    words = [word for word in text.replace("<!--", "").split() if word in ("text", "a", "b", "#c")]
    if "<!--" not in text:
        shown = nested(text, under).split()
        assert sorted(word for word in shown if word in words) == sorted(words)


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("# a\n###### b\n#c", "### a\n###### b\n#c"),
        ("> # a\n- ## b\n1. > # c", "> ### a\n- #### b\n1. > ### c"),
        ("# a #\n#", "### a #\n###"),
        ("title\n=====", "### title"),
        ("Two\n---\nmore", "#### Two\nmore"),
        ("- two\n  lines\n  ---", "- #### two lines"),
        ("> q\n===", "> q\n==="),
        ("\n---\n", "---"),
        ("- a\n---\nb", "- a\n\n---\nb"),
        ("a\r\n# b\rc", "a\n### b\nc"),
        ("    # code", "    # code"),
        ("```\n# code\n<!-- kept -->\n```\n# text", "```\n# code\n<!-- kept -->\n```\n### text"),
        ("````\n```\n# code\n````\n# text", "````\n```\n# code\n````\n### text"),
        ("~~~ sh\n# code", "~~~ sh\n# code\n~~~"),
        ("~~~~\n# x\n~~~", "~~~~\n# x\n~~~\n~~~~"),
        ("```not `a` fence\n# text", "```not `a` fence\n### text"),
        ("> ```\n> x\n# b", "> ```\n> x\n> ```\n### b"),
        ("- ~~~\n# b", "- ~~~\n  ~~~\n### b"),
        ("1. > ```\n   > x\n\ntext", "1. > ```\n   > x\n   > ```\n\ntext"),
        ("a <!-- x --> b\n<!-- one\ntwo -->c", "a  b\n\nc"),
        ("<!-- x --> # b", "### b"),
        ("> <!-- x\n> y --> # b", ">\n> ### b"),
        ("`<!--` opens\na comment", "`<!--` opens\na comment"),
        ("<!-- never closed\n\n# b", ""),
        ("a\ud800\0b", "a?b"),
        ("<div>\n# a\nb\n---\n</div>", "<div>\n\\# a\nb\n\\---\n</div>"),
        ("see [1]\n\n[1]: https://x.org\n---", "see [1]\n\n[1]: https://x.org\n\n---"),
        ("<pre>\nnever closed", "```\n<pre>\nnever closed\n```"),
        (" \n\t", ""),
    ],
)
def test_structure_is_moved_into_the_section(given_text: str, expected: str) -> None:
    assert nested(given_text, 2) == expected


@pytest.mark.parametrize("text", ["> " * 300 + "# a", "- " * 300 + "# a", "- " * 300 + "```\n# a", ">" * 5000])
def test_text_deeper_than_readers_follow_is_shown_as_code(text: str) -> None:
    assert nested(text, 2) == f"```{'' if '```' not in text else '`'}\n{text}\n```{'' if '```' not in text else '`'}"


def test_comments_that_only_show_when_others_are_removed_are_not_hidden() -> None:
    layers = "<!" * 50 + "-- x -->" * 50
    assert "<!--" not in nested(layers, 2) or nested(layers, 2).startswith("```")


@pytest.mark.parametrize(
    "unit",
    ["Some words of a line.\n\n", "- a\n", "> ```\n", "[a]: b\n", "<!--", "<!-- x -->\n", "a\n---\n", "[", "#\n"],
)
def test_time_grows_with_the_text_alone(unit: str) -> None:
    started = time.process_time()
    nested(unit * (50_000 // len(unit)), 2)
    assert time.process_time() - started < 10

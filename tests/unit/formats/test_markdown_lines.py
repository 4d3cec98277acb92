"""Lines of Markdown: headings as CommonMark finds them, breaks for chunking, and heads of long tables in every part."""

from __future__ import annotations

import re
import time
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from opx.formats.markdown import nested
from opx.formats.markdown_lines import Break, Line, scan
from opx.formats.writing import PIECE, with_repeated_heads
from tests.support.parsing_support import MARKDOWN

calm = settings(deadline=None)  # a busy machine is no failure

COMMON_MARK = MarkdownIt("commonmark")


def lines_of(text: str) -> list[Line]:
    return list(scan(re.findall(r"[^\n]*\n|[^\n]+", text)))


def headings(text: str) -> list[tuple[int, str]]:
    return [(line.level, line.heading) for line in lines_of(text) if line.level]


def breaks(text: str) -> list[Break]:
    return [line.break_before for line in lines_of(text)]


def common_mark_headings(text: str) -> list[tuple[int, str]]:
    """Those at the top level: a heading within a list or a quote begins no section."""
    tokens = COMMON_MARK.parse(text)
    return [
        (int(token.tag[1]), tokens[at + 1].content)
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]


# -- nothing is lost -------------------------------------------------------------------------------------------------

ANY_LINE = st.text(st.sampled_from("#=-*`~|> \t1.aé😀\u2028"), max_size=8)


@calm
@given(st.lists(ANY_LINE).map("\n".join))
def test_the_lines_hold_every_character_at_its_offset(text: str) -> None:
    found = lines_of(text)
    assert "".join(line.text for line in found) == text
    assert all(text.startswith(line.text, line.start) for line in found)


@calm
@given(st.lists(st.text(st.sampled_from("#=-*`~|>\n \t1.a"), min_size=1)))
def test_lines_in_pieces_lose_nothing_either(pieces: list[str]) -> None:
    assert "".join(line.text for line in scan(pieces)) == "".join(pieces)


@calm
@given(st.lists(ANY_LINE).map("\n".join))
def test_only_a_text_of_blank_lines_has_a_blank_line(text: str) -> None:
    assert all(line.text.strip() for line in lines_of(text)) or not text.strip()


def test_blank_lines_belong_to_the_line_before_and_the_first_ones_to_the_line_after() -> None:
    assert [line.text for line in lines_of("\n\na\n\n \nb\n")] == ["\n\na\n\n \n", "b\n"]


# -- headings agree with CommonMark ----------------------------------------------------------------------------------
#
# Known differences, which the generated documents leave out: headings of several lines over an underline; HTML blocks
# and link definitions before an underline; empty list items; a fence within a list item that is left open, which
# CommonMark closes where the item ends and the scanner, lenient with code that isn't indented, doesn't; paragraphs
# right after indented code, without a blank line between.

WORDS = st.lists(
    st.sampled_from(["restart", "the", "node", "#5", "a#", "C#", "é", "`x`", "1.", "-"]), min_size=1, max_size=4
)
SENTENCE = WORDS.map(lambda words: "Then " + " ".join(words))
INDENT = st.sampled_from(["", "", " ", "   "])
ATX = st.builds(
    "{}{}{}{}{}".format,
    INDENT,
    st.integers(1, 6).map("#".__mul__),
    st.sampled_from([" ", "\t", "   "]),
    SENTENCE,
    st.sampled_from(["", " ", " #", " ####  ", "#", " \\#"]),
)
EMPTY_ATX = st.sampled_from(["#", "## ", "### ###"])
SETEXT = st.builds(
    "{}{}\n{}{}".format,
    st.sampled_from(["", " "]),
    SENTENCE,
    INDENT,
    st.sampled_from(["=", "===", "---", "--", "-", "--- "]),
)
PARAGRAPH = st.lists(SENTENCE, min_size=1, max_size=3).map("\n".join)
NO_HEADINGS = st.sampled_from(["#no", "####### no", "\t# no", "    # no", "\\# no", "```no``` heading"])
CODE_LINE = st.sampled_from(["# comment", "a", "", "===", "    ```", "~~", "- x", "| x |", "```sh", "~~~ x"])
FENCE = st.builds(
    lambda mark, code: "\n".join([mark, *(line for line in code if not line.startswith(mark[:3])), mark[:3]]),
    st.sampled_from(["``` sh", "~~~ `x`", "```"]),
    st.lists(CODE_LINE, max_size=4),
)
RULE = st.sampled_from(["***", "---", "- - -", "  ___", "*  *  *"])
LIST = st.sampled_from(
    [
        "- a\n- b",
        "1. a\n2. b",
        "* a\n  more\n\n  # within\n\n  and more",
        "1. a\n   ```sh\n   # comment\n   ```\n2. b",
        "- a\n\n      # code",
        "- a\nlazy",
        "- ```\n  # comment\n  ```",
    ]
)
QUOTE = st.sampled_from(["> quoted", "> # within\n> more"])
BLOCK = st.one_of(ATX, EMPTY_ATX, SETEXT, PARAGRAPH, NO_HEADINGS, FENCE, RULE, LIST, QUOTE)


@settings(calm, max_examples=400)
@given(st.lists(BLOCK, max_size=6).map("\n\n".join), st.booleans())
def test_headings_of_documents_are_those_of_common_mark(text: str, end: bool) -> None:
    text += "\n" if end else ""
    assert headings(text) == common_mark_headings(text)


@settings(calm, max_examples=400)
@given(st.lists(st.one_of(ATX, EMPTY_ATX, FENCE, RULE.filter(lambda rule: rule != "---")), max_size=6).map("\n".join))
def test_headings_without_blank_lines_between_are_those_of_common_mark(text: str) -> None:
    assert headings(text) == common_mark_headings(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A\n", [(1, "A")]),
        ("###### deep ######\n", [(6, "deep")]),
        ("# a \\#\n", [(1, "a \\#")]),
        ("# a#\n", [(1, "a#")]),
        ("#\n", [(1, "")]),
        ("## ##\n", [(2, "")]),
        ("#\ttab\n", [(1, "tab")]),
        ("# A", [(1, "A")]),
        ("Title\n=====\n", [(1, "Title")]),
        ("Title\n---\ntext\n", [(2, "Title")]),
        ("One\n===\nTwo\n---\n", [(1, "One"), (2, "Two")]),
        ("---\nTitle\n---\n", [(2, "Title")]),
        ("***\n---\n", []),
        ("---\n\n---\n", []),
        ("- item\n---\n", []),
        ("> quote\n---\n", []),
        ("\tcode\n---\n", []),
        ("| a | b |\n---\n", []),
        ("a | b\n--- | ---\n", []),
        ("```\n# no\n", []),
        ("```\n# no\n~~~\n# no\n```\n# yes\n", [(1, "yes")]),
        ("````\n```\n# no\n````\n# yes\n", [(1, "yes")]),
        ("```kubectl get pods```\n\n# yes\n", [(1, "yes")]),
        ("    ```\n\n# yes\n", [(1, "yes")]),
        ("```\n    ```\n# no\n```\n", []),
        ("1. step\n\n   ```sh\n   # no\n   ```\n\n# yes\n", [(1, "yes")]),
        ("- ```\n  # no\n  ```\n\n# yes\n", [(1, "yes")]),
        ("- a\n\n yes\n===\n", [(1, "yes")]),
        ("- a\n    - b\n        ```\n        # no\n        ```\n# yes\n", [(1, "yes")]),
    ],
)
def test_a_heading_is_found_where_there_is_one(text: str, expected: list[tuple[int, str]]) -> None:
    assert headings(text) == expected


@pytest.mark.parametrize(
    "line",
    [
        "#" + " " * 30_000 + "x" + " " * 30_000 + "y\n",
        "# " + "# " * 30_000 + "x\n",
        "# " + "#" * 60_000 + "x\n",
        "- " * 30_000 + "x\n",
        "-" + " " * 60_000 + "x\n",
        "|" + "-|" * 30_000 + " " * 5000 + "x\n",
        "`" * 60_000 + "\n",
        " " * 60_000 + "- x\n",
        "=" * 60_000 + " x\n",
    ],
    ids=lambda line: line[:4],
)
@pytest.mark.timeout(10)
def test_a_crafted_line_is_classified_in_time_that_grows_with_its_length(line: str) -> None:
    assert lines_of("a\n" + line * 3)


# -- where to cut ----------------------------------------------------------------------------------------------------


def test_lines_of_a_paragraph_are_as_good_as_any_place_between_words() -> None:
    assert breaks("a\nb\n\nc\n") == [Break.BLOCK, Break.TEXT, Break.BLOCK]


def test_code_is_not_cut_inside() -> None:
    assert breaks("a\n```\nx\n\ny\n```\nb\n") == [Break.BLOCK, Break.BLOCK, *[Break.INSIDE] * 3, Break.BLOCK]


def test_a_table_is_not_cut_inside() -> None:
    assert breaks("a\n| h |\n|---|\n| x |\n\nb\n") == [
        Break.BLOCK,
        Break.BLOCK,
        Break.INSIDE,
        Break.INSIDE,
        Break.BLOCK,
    ]


def test_a_table_without_outer_bars_is_not_cut_inside() -> None:
    assert breaks("h | i\n--- | ---\nx | y\n\nb | c\n") == [Break.BLOCK, Break.INSIDE, Break.INSIDE, Break.BLOCK]


def test_steps_are_blocks_and_what_is_in_them_is_nested() -> None:
    text = "1. a\n   more\n\n   ```\n   x\n   ```\n   - sub\n2. b\nlazy\n\nend\n"
    assert breaks(text) == [
        Break.BLOCK,
        Break.NESTED,
        Break.NESTED,
        Break.INSIDE,
        Break.INSIDE,
        Break.NESTED,
        Break.BLOCK,
        Break.NESTED,
        Break.BLOCK,
    ]


def test_line_after_a_heading_or_a_rule_begins_a_block() -> None:
    assert breaks("# A\na\n***\nb\n") == [Break.HEADING, Break.BLOCK, Break.BLOCK, Break.BLOCK]


def test_the_rest_of_a_very_long_line_is_never_a_heading_or_a_fence() -> None:
    found = list(scan(["text ", "# no\n", "x ", "```\n", "# yes\n"]))
    assert [(line.level, line.break_before) for line in found] == [
        (0, Break.BLOCK),
        (0, Break.INSIDE),
        (0, Break.TEXT),
        (0, Break.INSIDE),
        (1, Break.HEADING),
    ]


HEAD = "| host | state |\n| --- | --- |\n"


def rows(count: int) -> list[str]:
    return [f"| web-{number:04} | {'running ' * 4}|\n" for number in range(count)]


def joined(text: str) -> str:
    return "".join(with_repeated_heads(text.splitlines(keepends=True)))


def test_a_short_table_is_left_alone() -> None:
    text = f"# T\n\n{HEAD}{''.join(rows(5))}\nafter\n"
    assert joined(text) == text


def test_a_long_one_gets_its_head_again_and_loses_no_row() -> None:
    found = joined(HEAD + "".join(rows(200)))
    parts = found.split(HEAD)[1:]
    assert len(parts) > 5
    assert "".join(parts).replace("\n\n", "\n").count("| web-") == 200
    assert all(len(part) < 2 * PIECE for part in parts)


def test_each_table_has_its_own_head() -> None:
    other = HEAD.replace("host", "disk")
    found = joined(HEAD + "".join(rows(60)) + "\n" + other + "".join(rows(60)))
    assert found.count(HEAD) > 1
    assert found.rindex(HEAD) < found.index(other)


def test_rows_within_code_are_no_table() -> None:
    text = "```\n" + HEAD + "".join(rows(200)) + "```\n"
    assert joined(text) == text


def test_a_huge_head_is_not_repeated() -> None:
    head = f"| {'wide ' * 100}| b |\n| --- | --- |\n"
    assert joined(head + "".join(rows(100))).count("wide wide") == joined(head).count("wide wide")


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

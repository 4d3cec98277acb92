"""The fast parts of outlines agree with their slower forms: Markdown's blocks, and phrases in any case."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from opx.text.procedures.blocks import MAX_NESTING, Block, BlockKind, _parser, parse_blocks
from opx.text.procedures.phrases import Phrases

CORPUS = sorted(Path("corpus").rglob("*.md"))
MARKDOWN = st.text(st.sampled_from("#>-*+_`~|[]()<>!:=. \t\n1aR\\\"'$"), max_size=200)
LINES = st.lists(
    st.sampled_from(
        (
            "a", "- b", "1. c", "  2) d", "> e", "```", "~~~", "# f", "---", "***", "| g | h |", "|---|---|", "===", "",
            "    i", "<div>", "</div>", "[j]: k", "[j]: <k> 'l", "-", "+ ", "\tm", "> - n", "10. o", "<!-- p",
        )
    ),
    max_size=14,
)  # fmt: skip


@cache
def plain_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable("table")
    parser.core.ruler.disable(["normalize", "inline", "text_join"])
    return parser


@given(st.one_of(MARKDOWN, LINES.map("\n".join)))
def test_blocks_are_those_of_all_rules_called_on_each_line(text: str) -> None:
    assert _parser().parse(text) == plain_parser().parse(text)


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_blocks_of_a_page_are_those_of_all_rules_called_on_each_line(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert _parser().parse(text) == plain_parser().parse(text)


def test_code_has_its_commands_and_a_paragraph_its_sentences() -> None:
    paragraph, code = parse_blocks("Stop it. Then wait.\n\n```sh\ndf -h\n```\n")
    assert paragraph.sentences == ("Stop it.", "Then wait.")
    assert [one.text for one in code.commands] == ["df -h"]
    assert Block(BlockKind.CODE, 0, 0).commands == ()


SOURCES = (r"\bdata loss\b", r"\bif (?:not|that fails)\b", r"\b(?:you )?must not\b")
PHRASES = Phrases("\n".join(SOURCES))
ANYWHERE = re.compile("|".join(SOURCES), re.IGNORECASE)
WORDS = st.lists(
    st.sampled_from(
        (
            "data",
            "loss",
            "Data",
            "LOSS",
            "if",
            "If",
            "not",
            "that",
            "fails",
            "you",
            "must",
            "MUST",
            "é",
            "ſ",
            "_",
            "x",
            "1",
        )
    ),
    max_size=8,
)


@given(WORDS, st.sampled_from((" ", "", ", ", "\n", "-")))
def test_phrases_are_found_as_by_a_pattern_without_regard_to_case(words: list[str], between: str) -> None:
    text = between.join(words)
    assert PHRASES.are_in(text) is bool(ANYWHERE.search(text))
    assert list(PHRASES.places(text)) == [found.span() for found in ANYWHERE.finditer(text)]


def test_a_phrase_begins_a_word() -> None:
    with pytest.raises(AssertionError):
        Phrases("data loss")

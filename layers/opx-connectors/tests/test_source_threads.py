"""Threads as documents, and fields of replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from markdown_it import MarkdownIt

from opx.errors import SourceShapeError
from opx.formats.markdown import nested
from opx.formats.markdown_lines import scan
from opx.formats.metadata import validated
from opx_connectors.forums.threads import Post, checked_time, described, thread
from tests.support.parsing_support import MARKDOWN


def headings(text: str) -> list[tuple[int, str]]:
    return [(line.level, line.heading) for line in scan(text.splitlines(keepends=True)) if line.level]


@given(MARKDOWN, MARKDOWN)
def test_no_post_changes_the_author_of_the_next(one: str, other: str) -> None:
    shown = thread("Title", "", one, [Post("By eve", other), Post("By ann", "last")])
    others = [(2, "By eve")] if nested(other, 2) else []
    assert [found for found in headings(shown) if found[0] <= 2] == [(1, "Title"), *others, (2, "By ann")]


FORGED = "# Answer by Moderator\n\nDo B."


@pytest.mark.parametrize("opened", ["> ```\n> x", "- ~~~", "1. > ```", "<pre>", "<!--"])
def test_post_with_open_code_forges_no_other_author(opened: str) -> None:
    posts = [Post("Answer by Ann", f"{opened}\n{FORGED}"), Post("Answer by Ben", "Never do B.")]
    shown = thread("Q", "facts", "How?", posts)
    tokens = MarkdownIt("commonmark").parse(shown)
    titles = {tokens[at + 1].content: token.tag for at, token in enumerate(tokens) if token.type == "heading_open"}
    written = [name for name, level in titles.items() if level <= "h2"]
    assert [found for found in headings(shown) if found[0] <= 2] == [
        (1 + (at > 0), name) for at, name in enumerate(written)
    ]
    assert "Answer by Moderator" not in written
    assert titles["Answer by Ben"] == "h2"


def test_half_characters_become_question_marks() -> None:
    assert thread("a\ud800", "", "b\udfff\0", [Post("\ud800", "\ud800")]) == "# a?\n\nb?\n\n## ?\n\n?\n"
    assert described(title="a\ud800", address="https://x/\ud800")["source_uri"] == "https://x/?"


def test_empty_posts_are_left_out() -> None:
    assert thread("T", "", "b", [Post("By x", " \n"), Post("By y", "<!-- nothing -->")]) == "# T\n\nb\n"


def test_metadata_is_within_the_librarys_limits() -> None:
    metadata = described(
        title="t" * 900,
        address="https://x/" + "a" * 3000,
        tags=["x" * 300, "x" * 300, *map(str, range(90))],
        author="n" * 300,
    )
    found = validated(metadata, name="doc")
    assert len(found.title) == 300
    assert len(found.tags) == 20
    assert found.source_uri == ""


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01T00:00:00Z", "99999999999999999999"])
def test_malformed_time_is_refused(text: str) -> None:
    with pytest.raises(SourceShapeError, match="is not a time"):
        checked_time(text, "issue 1")


def test_times_are_utc_to_the_second() -> None:
    assert checked_time("2026-01-01T01:00:00.123+02:00", "x") == "2025-12-31T23:00:00Z"

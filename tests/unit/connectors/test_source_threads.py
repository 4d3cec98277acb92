"""Threads as documents, and fields of replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.connectors.forums.threads import Post, checked_time, described, nested, thread
from opx.errors import SourceShapeError
from opx.formats.markdown_lines import scan
from opx.formats.metadata import validated

MARKDOWN = st.lists(
    st.sampled_from(
        ["# a", "## b", "text", "", "```", "~~~~", "===", "---", "<!--", "-->", "> q", "- i", "    c", "`x`"]
    ),
    max_size=12,
).map("\n".join)


def headings(text: str) -> list[tuple[int, str]]:
    return [(line.level, line.heading) for line in scan(text.splitlines(keepends=True)) if line.level]


@given(MARKDOWN, MARKDOWN)
def test_no_post_changes_the_author_of_the_next(one: str, other: str) -> None:
    shown = thread("Title", "", one, [Post("By eve", other), Post("By ann", "last")])
    others = [(2, "By eve")] if nested(other) else []
    assert [found for found in headings(shown) if found[0] <= 2] == [(1, "Title"), *others, (2, "By ann")]


def test_headings_move_below_the_posts_own() -> None:
    assert nested("# One\n###### Six\nTwo\n---\n#no") == "### One\n###### Six\n#### Two\n#no"


def test_code_keeps_its_headings_and_comments() -> None:
    code = "```sh\n# not a heading\n<!-- kept -->\n```"
    assert nested(code) == code


def test_open_code_block_is_closed() -> None:
    assert nested("~~~~\n# x\n~~~") == "~~~~\n# x\n~~~\n~~~~"


def test_comments_are_left_out() -> None:
    assert nested("a <!-- x --> b\n<!-- one\ntwo -->c") == "a  b\n\nc"


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

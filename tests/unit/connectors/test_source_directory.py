"""Patterns of a directory's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx.domain.sources import PullRequest
from opx.errors import InvalidInputError
from tests.support.web_support import a_directory


@pytest.mark.parametrize(
    "pattern",
    ["", "/", "/etc/*.md", "docs/", "a//b", "..", "../*.md", "a/../../b.md", "a**/x", "**.md", "***", "./.", "x" * 256],
)
def test_a_pattern_that_can_not_be_followed_is_refused_by_its_name(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(InvalidInputError, match="pattern "):
        a_directory(tmp_path, pattern=pattern)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.md", ["a/b/deep.md", "a/one.md", "top.md"]),
        ("a/*.md", ["a/one.md"]),
        ("./*.md", ["top.md"]),
        ("**/*.md", ["a/b/deep.md", "a/one.md", "top.md"]),
        ("a/**/d..p.txt", ["a/b/d..p.txt"]),
        ("[t]op.*", ["top.md"]),
        ("[", []),
        ("a\0b", []),
    ],
)
def test_a_pattern_is_of_names_or_of_paths(tmp_path: Path, pattern: str, found: list[str]) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("top.md", "a/one.md", "a/b/deep.md", "a/b/d..p.txt"):
        (tmp_path / name).write_text("# Title")
    pages = list(a_directory(tmp_path, pattern=pattern).pull(PullRequest()))
    assert [document.key for page in pages for document in page.documents] == found

"""Checks the sentences of documentation pages: `python .ci/sentences.py [PAGE ...]` lists those that are hard to read.

A sentence is too long with more than 30 words, and hard to follow with two negations. Code, tables, HTML comments and
link targets don't count.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/README.md",
    "docs/install.md",
    "docs/commands.md",
    "docs/searching.md",
    "docs/confidence.md",
    "docs/procedures.md",
    "docs/learning.md",
    "docs/connect.md",
    "docs/alertmanager.md",
    "docs/wrong-answers.md",
    "docs/plugins.md",
)
MOST_WORDS = 30

EXCEPTIONS: dict[str, str] = {}
"""Beginning of a sentence that stays as it is, and the reason."""

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|nowhere|neither|nor|without|cannot|unless)\b|n['’]t\b", re.IGNORECASE
)
_END = re.compile(r"(?<=[.!?])[\"'”)»]*\s+(?=[^\sa-z])")
_WORD = re.compile(r"\S*[^\W_]\S*")
_CODE = "``"
"""Stands for a code span: a sentence may begin with it, and it is no word."""


def problems(text: str) -> Iterator[tuple[int, str]]:
    """Line and reason of each sentence of a Markdown page that is hard to read."""
    for line, sentence in sentences(text):
        words, negations = len(_WORD.findall(sentence)), [found[0] for found in _NEGATION.finditer(sentence)]
        if any(sentence.startswith(beginning) for beginning in EXCEPTIONS):
            continue
        if words > MOST_WORDS:
            yield line, f"{words} words, {MOST_WORDS} at most: {_shortened(sentence)}"
        if len(negations) > 1:
            yield line, f"{len(negations)} negations ({', '.join(negations)}): {_shortened(sentence)}"


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences of a Markdown page in their order, each with its line. A list item begins a sentence of its own."""
    in_table = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
        elif token.type == "inline" and not in_table:
            yield from _split(_prose(token), (token.map or [0])[0] + 1)


def _prose(token: Token) -> str:
    """The text of a paragraph, with its line breaks."""
    breaks = {"softbreak": "\n", "hardbreak": "\n", "code_inline": _CODE}
    return "".join(breaks.get(part.type, part.content if part.type == "text" else "") for part in token.children or ())


def _split(prose: str, line: int) -> Iterator[tuple[int, str]]:
    start = 0
    for end in [*(found.end() for found in _END.finditer(prose)), len(prose)]:
        sentence = prose[start:end]
        if sentence.strip():
            yield line + prose.count("\n", 0, start), " ".join(sentence.split())
        start = end


def _shortened(sentence: str) -> str:
    return sentence if len(sentence) <= 100 else f"{sentence[:97]}..."


def main(pages: list[str]) -> int:
    """Prints the problems of these pages, or of `PAGES`; returns 1 if there are any."""
    files = [Path(page) for page in pages] or [ROOT / page for page in PAGES]
    found = [
        f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file}:{line}: {problem}"
        for file in files
        for line, problem in problems(file.read_text(encoding="utf-8"))
    ]
    print("\n".join(found) or f"sentences: {len(files)} pages are easy to read")  # noqa: T201
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

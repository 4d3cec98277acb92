"""The few lines of a chunk that show why it was found."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence

from opx.text.analyzer import analyze

WIDTH = 96
LINES = 3

_NOISE = re.compile(r"\s*(?:```|~~~|\|?[\s:|-]*-{3}[\s:|-]*$)")
_HEADING = re.compile(r"\s{0,3}#{1,6}(?:\s|$)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"\*\*|__|`|^\s*>\s?")
_BULLET = re.compile(r"^\s*[*+-]\s+")


def excerpt(content: str, query: str, *, width: int = WIDTH, lines: int = LINES) -> list[str]:
    """Up to `lines` lines of at most `width` characters, Markdown marks removed: those with most of the query's terms.

    Among equals the first. Empty only for a chunk without text.
    """
    cleaned = [piece for line in clean_lines(content) for piece in textwrap.wrap(line, width)]
    wanted = set(analyze(query))
    terms = [wanted.intersection(analyze(line)) for line in cleaned]
    starts = range(max(1, len(cleaned) - lines + 1))
    best = max(starts, key=lambda at: (len(set().union(*terms[at : at + lines])), -at))
    return cleaned[best : best + lines]


def clean_lines(content: str) -> list[str]:
    """The lines that say something, without Markdown's marks. Headings only if there is nothing else."""
    said = [line for line in content.splitlines() if line.strip() and not _NOISE.match(line)]
    body = [line for line in said if not _HEADING.match(line)] or [line.lstrip("# ") for line in said]
    return [text for line in body if (text := _clean(line))]


def _clean(line: str) -> str:
    line = _BULLET.sub("- ", _MARKS.sub("", _LINK.sub(r"\1", line)))
    if line.lstrip().startswith("|"):
        line = " | ".join(cell.strip() for cell in line.strip().strip("|").split("|"))
    return " ".join(line.split())


def highlighted(line: str, query: str, mark: Callable[[str], str]) -> str:
    """`line` with the words that share a term with the query passed through `mark`."""
    wanted = set(analyze(query))
    return re.sub(r"\S+", lambda word: _marked(word.group(), wanted, mark), line)


def _marked(word: str, wanted: set[str], mark: Callable[[str], str]) -> str:
    return mark(word) if wanted.intersection(analyze(word)) else word


def shared_terms(query: str, texts: Sequence[str]) -> set[str]:
    """The search terms that a question has in common with some texts; stop words don't count."""
    return set(analyze(query)) & {term for text in texts for term in analyze(text)}

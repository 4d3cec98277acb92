"""The few lines of a chunk that show why it was found."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from itertools import groupby

from opx.text.analyzer import analyze, cjk_runs
from opx.text.languages import question_languages

WIDTH = 96
LINES = 3

_WORD = re.compile(r"\w")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"\s{0,3}#{1,6}(?:\s|$)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"\*\*|__|`|^\s*>\s?")
_BULLET = re.compile(r"^\s*[*+-]\s+")


def excerpt(content: str, query: str, *, width: int = WIDTH, lines: int = LINES) -> list[str]:
    """Up to `lines` lines of at most `width` characters, Markdown marks removed: those with most of the query's terms.

    Among equals those that begin where a line of the text does, then the first. Empty for a chunk without words.
    """
    wrapped = [textwrap.wrap(line, width) for line in clean_lines(content)]
    cleaned = [piece for pieces in wrapped for piece in pieces]
    begins = [part == 0 for pieces in wrapped for part in range(len(pieces))]
    languages = question_languages(query)
    wanted = set(analyze(query, languages))
    terms = [wanted.intersection(analyze(line, languages)) for line in cleaned]

    def worth(at: int) -> tuple[int, bool, int]:
        return len(set().union(*terms[at : at + lines])), begins[at], -at

    best = max(range(max(0, len(cleaned) - lines) + 1), key=worth) if cleaned else 0
    return cleaned[best : best + lines]


def clean_lines(content: str) -> list[str]:
    """The lines that say something, without Markdown's marks. Headings only if there is nothing else."""
    said = [line for line in content.splitlines() if _WORD.search(line) and not _FENCE.match(line)]
    body = [line for line in said if not _HEADING.match(line)] or [line.lstrip("# ") for line in said]
    return [text for line in body if (text := _clean(line))]


def _clean(line: str) -> str:
    line = _BULLET.sub("- ", _MARKS.sub("", _LINK.sub(r"\1", line)))
    if line.lstrip().startswith("|"):
        line = " | ".join(cell.strip() for cell in line.strip().strip("|").split("|"))
    return " ".join(line.split())


def highlighted(line: str, query: str, mark: Callable[[str], str]) -> str:
    """`line` with the words that share a term with the query passed through `mark`; of a text without blanks, the parts
    that the query has, too."""
    languages = question_languages(query)
    wanted = set(analyze(query, languages))

    def marked(word: str) -> str:
        if wanted.isdisjoint(analyze(word, languages)):
            return word
        return "".join(_marked_parts(word, wanted, mark)) if cjk_runs().search(word) else mark(word)

    return re.sub(r"\S+", lambda word: marked(word.group()), line)


def _marked_parts(word: str, wanted: set[str], mark: Callable[[str], str]) -> Iterator[str]:
    found = [(at.start(), len(term)) for term in wanted for at in re.finditer(f"(?={re.escape(term)})", word)]
    covered = {start + offset for start, length in found for offset in range(length)}
    for inside, part in groupby(range(len(word)), key=covered.__contains__):
        text = "".join(word[at] for at in part)
        yield mark(text) if inside else text

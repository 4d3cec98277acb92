"""An answer for people: ranked passages, why each is there, and where it comes from."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import click

from opx.cli.output import aligned
from opx.domain.results import Answer, RetrievalResult, ScoreParts
from opx.text.analyzer import analyze, cjk_runs
from opx.text.languages import question_languages

# -- excerpts: the few lines of a chunk that show why it was found

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


# -- hits

_INDENT = "   "


def hit_lines(rank: int, hit: RetrievalResult, query: str, *, explain: bool = False) -> Iterator[str]:
    """A hit: title and section, category and score, excerpt, citation; with `explain`, a table of the score's parts."""
    yield click.style(f"{rank}. {heading(hit)}", bold=True)
    yield _INDENT + score_line(hit)
    if hit.outcome:
        yield _INDENT + f"outcomes: {hit.outcome.get('text', '')}"
    yield from (_INDENT + line for line in warning_lines(hit))
    for line in excerpt(hit.content, query):
        yield f"{_INDENT}| {highlighted(line, query, _mark)}"
    if explain and hit.parts:
        yield from (_INDENT + line for line in explanation(hit.parts))
    yield _INDENT + click.style(f"{hit.source}  [Document ID: {hit.document_id}]", dim=True)
    for copy in hit.copies:
        yield _INDENT + click.style(f"also in: {copy['title']}  {copy['source']}", dim=True)


def warning_lines(hit: RetrievalResult) -> Iterator[str]:
    """That it comes from outside, what its flags say, and which of its steps were tried before."""
    if hit.untrusted:
        yield click.style(f"untrusted: from outside ({hit.tier})", fg="yellow")
    if not (hit.flags or hit.warnings):
        return
    from opx.retrieval.citations import WARNINGS, warning_line

    for flag in hit.flags:
        yield click.style(f"warning: {WARNINGS.get(flag, flag)}", fg="red")
    for warning in hit.warnings:
        yield click.style(warning_line(warning), fg="red")


def heading(hit: RetrievalResult) -> str:
    """`Title > Section > Subsection`, on one line."""
    return " ".join(" > ".join(part for part in (hit.title, hit.section) if part).split())


def score_line(hit: RetrievalResult) -> str:
    """`runbooks/procedures, score 0.81 = confidence 0.81 x trust 1.00 (by words #1, by meaning #4, fused 0.97)`."""
    parts = hit.parts
    if parts is None:
        return f"{hit.category}, score {hit.score:.2f}"
    total = f"score {parts.final:.2f} = confidence {parts.confidence:.2f} x trust {parts.trust:.2f}"
    total += f" x outcomes {parts.outcome:.2f}" if parts.outcome not in (None, 1.0) else ""
    legs = f"by words {_rank(parts.lexical_rank)}, by meaning {_rank(parts.vector_rank)}"
    return f"{hit.category}, {total} ({legs}, fused {parts.fused:.2f})"


def explanation(parts: ScoreParts) -> Iterator[str]:
    """A table of the score's parts, then in words how the hit was found."""
    rows = [
        ("", "rank", "value", ""),
        ("by words", _rank(parts.lexical_rank), _value(parts.lexical_score), "BM25 over title and text"),
        ("by meaning", _rank(parts.vector_rank), _value(parts.vector_score), "cosine with the question"),
        ("fused", "", _value(parts.fused), "both together; gives the order within a question"),
        ("reranked", "", _value(parts.rerank), ""),
        ("confidence", "", _value(parts.confidence), "estimated probability that this answers the question"),
        ("trust", "", _value(parts.trust), "of the category"),
        ("outcomes", "", _value(parts.outcome), "what came of acting upon the document"),
        ("final", "", _value(parts.final), "confidence x trust" + (" x outcomes" if parts.outcome is not None else "")),
    ]
    absent = {name for name, value in (("reranked", parts.rerank), ("outcomes", parts.outcome)) if value is None}
    yield from aligned([row for row in rows if row[0] not in absent])
    yield found_by(parts)


def found_by(parts: ScoreParts) -> str:
    """`found by words at rank 1 and by meaning at rank 4`."""
    legs = (("by words", parts.lexical_rank), ("by meaning", parts.vector_rank))
    found = [f"{leg} at rank {rank}" for leg, rank in legs if rank is not None]
    missed = [f"not {leg}" for leg, rank in legs if rank is None]
    return "found " + " and ".join(found) + "".join(f", {text}" for text in missed)


def no_answer_lines(answer: Answer, min_confidence: float, option: str = "") -> Iterator[str]:
    """What to say when nothing is good enough: the bar, what came closest and, if `option` is given, how to see it."""
    yield f"No good answer: nothing reaches confidence {min_confidence:.2f}."
    closest = answer.best_rejected
    if closest is not None:
        hint = f"; see it with {option} {_below(closest.confidence)}" if option else ""
        yield f"Closest: {heading(closest)} ({closest.confidence:.2f}){hint}"


def answer_lines(results: Sequence[RetrievalResult], query: str, *, explain: bool = False) -> Iterator[str]:
    """All hits with an empty line between them."""
    for rank, hit in enumerate(results, start=1):
        if rank > 1:
            yield ""
        yield from hit_lines(rank, hit, query, explain=explain)


def _below(confidence: float) -> str:
    """A round number that this confidence reaches."""
    digits = 1 if confidence >= 0.1 else 2
    return f"{math.floor(confidence * 10**digits) / 10**digits:g}"


def _rank(rank: int | None) -> str:
    return "-" if rank is None else f"#{rank}"


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _mark(word: str) -> str:
    return click.style(word, fg="yellow", bold=True)

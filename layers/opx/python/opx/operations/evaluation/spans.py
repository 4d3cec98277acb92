"""Gold spans of questions: the exact lines of a page that help, by their text or by their position in it.

Spans of a corpus that must not be copied are character offsets, with the beginning of the SHA-256 of their text: a page that
has changed since is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opx.errors import InvalidInputError

ENOUGH = 2
"""The grade of a span with which a reader can act; 1 helps and isn't enough."""

HASH_DIGITS = 12

TextOf = Callable[[str], str | None]
"""The text of a page, None if there is no such page."""


@dataclass(frozen=True, slots=True)
class Span:
    page: str
    grade: int
    text: str


def read_spans(question: str, records: object, text_of: TextOf) -> tuple[Span, ...]:
    """The spans of a question, from `{"page", "grade", "text"}` or `{"page", "grade", "start", "end", "sha256"}` each.

    Raises `InvalidInputError` that names question and span for a malformed one, and for one that its page doesn't have.
    """
    if not isinstance(records, Sequence) or isinstance(records, str):
        raise InvalidInputError(f"question {question}: spans are a list of objects")
    return tuple(_span(f"question {question}, span {number}", one, text_of) for number, one in enumerate(records, 1))


def _span(name: str, record: Any, text_of: TextOf) -> Span:
    try:
        page, grade = str(record["page"]), int(record["grade"])
        given = record.get("text")
        start, end, digest = (0, 0, "") if given else (int(record["start"]), int(record["end"]), str(record["sha256"]))
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise InvalidInputError(f"{name}: expected page, grade, and text or start, end and sha256 ({exc!r})") from exc
    text = text_of(page)
    if text is None:
        raise InvalidInputError(f"{name}: the corpus has no page {page}")
    if grade not in (1, ENOUGH):
        raise InvalidInputError(f"{name}: the grade is 1 or {ENOUGH}, not {grade}")
    if given:
        if not _visible(str(given)) or str(given) not in text:
            raise InvalidInputError(f"{name}: {page} doesn't have the text {given!r}")
        return Span(page, grade, str(given))
    found = text[start:end] if 0 <= start < end else ""
    if not _visible(found) or span_hash(found) != digest:
        raise InvalidInputError(f"{name}: {page} has another text from {start} to {end}: its hash is not {digest}")
    return Span(page, grade, found)


def span_hash(text: str) -> str:
    """The beginning of the SHA-256 of a span's text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]


def labels_of(spans: Sequence[Span]) -> dict[str, int]:
    """The pages that spans are of, each with its best grade."""
    labels: dict[str, int] = {}
    for span in spans:
        labels[span.page] = max(labels.get(span.page, 0), span.grade)
    return labels


def spans_json(spans: Sequence[Span]) -> list[Mapping[str, Any]]:
    return [{"page": span.page, "grade": span.grade, "text": span.text} for span in spans]


def _visible(text: str) -> bool:
    return bool(text.strip())

"""Counts what the cleaning of documents masks, and what it should mask."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opx.hygiene.cleaning import Cleaner
from tests.quality.secrets.samples import Sample

MASK = re.compile(r"\[masked (?P<kind>[a-z0-9-]+) (?P<fingerprint>[0-9a-f]{2,4})\]")
_MOST_SPILLED = 8
"""Characters that a mask may cover beside a secret: quotes, a prefix."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Judged:
    """Spans of a sample that were missed, and spans that were masked and are no secret."""

    sample: Sample
    missed: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def found(self) -> int:
        return len(self.sample.spans) - len(self.missed)


def cleaned(text: str) -> str:
    """The text as it is indexed."""
    return "".join(Cleaner().clean(text.splitlines(keepends=True)))


def masked_spans(text: str, output: str | None = None) -> list[tuple[Span, str]]:
    """Spans of the text that are masked in the output, with the kind of the mask."""
    output = cleaned(text) if output is None else output
    spans: list[tuple[Span, str]] = []
    marks = list(MASK.finditer(output))
    at = marks[0].start() if marks else len(text)
    for mark, following in zip(marks, (*marks[1:], None)[: len(marks)], strict=True):
        literal = output[mark.end() : following.start() if following else len(output)]
        end = _end(text, at, literal, mark)
        spans.append(((at, end), mark["kind"]))
        at = end + len(literal)
    return spans


def _end(text: str, start: int, literal: str, mark: re.Match[str]) -> int:
    """The end of what a mask replaced: where the following text stands, and the fingerprint fits."""
    if not literal:
        return len(text)
    if mark["kind"] == "private-key":
        start = max(start, text.find("-----END", start))
    first = end = text.find(literal, start + 1)
    while end >= 0 and mark["kind"] != "private-key":
        digest = hashlib.sha256(text[start:end].encode("utf-8", "surrogatepass")).hexdigest()
        if digest.startswith(mark["fingerprint"]):
            return end
        end = text.find(literal, end + 1)
    return first if first >= 0 else len(text)


def judge(sample: Sample) -> Judged:
    """Compares the masks in a cleaned sample with its labels."""
    masks = [span for span, _ in masked_spans(sample.text)]
    missed = [
        sample.text[start:end] for start, end in sample.spans if not _is_covered(sample.text, (start, end), masks)
    ]
    wrong = [sample.text[start:end] for start, end in masks if _spilled((start, end), sample.spans) > _MOST_SPILLED
             or not any(start < b and a < end for a, b in sample.spans)]  # fmt: skip
    return Judged(sample, tuple(missed), tuple(wrong))


def _is_covered(text: str, span: Span, masks: Sequence[Span]) -> bool:
    """True if each character is masked, but for line breaks and indentation between masked lines."""
    return all(text[at].isspace() or any(start <= at < end for start, end in masks) for at in range(*span))


def _spilled(mask: Span, spans: Iterable[Span]) -> int:
    inside = sum(max(0, min(mask[1], end) - max(mask[0], start)) for start, end in spans)
    return mask[1] - mask[0] - inside


def recall(judged: Iterable[Judged]) -> float:
    judged = tuple(judged)
    return sum(one.found for one in judged) / sum(len(one.sample.spans) for one in judged)

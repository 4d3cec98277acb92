"""Counts what the cleaning of documents masks, and what it should mask."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opx.hygiene.cleaning import Cleaner
from tests.quality.secrets.samples import FORMS, HALVES, Sample, samples

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


PAGE = Path(__file__).parents[3] / "docs" / "secrets.md"
_MARKS = ("<!-- {}: begin -->\n", "<!-- {}: end -->")


def with_tables(page: str) -> str:
    """The page with its two tables as the code is now."""
    judged = [judge(sample) for sample in samples()]
    for name, lines in (("halves", _halves(judged)), ("kinds", _kinds(judged))):
        begin, end = (mark.format(name) for mark in _MARKS)
        before, _, rest = page.partition(begin)
        page = before + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2]
    return page


def _halves(judged: Sequence[Judged]) -> Iterator[str]:
    yield "| Half | Kinds | Samples | Secrets | Recall | structure | issued | free | Wrong masks | Precision |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for half in HALVES:
        mine = [one for one in judged if one.sample.half == half]
        kinds = len({one.sample.kind for one in mine})
        by_form = [_figure(recall(one for one in mine if one.sample.form == form)) for form in FORMS]
        counts = f"{kinds} | {len(mine)} | {_secrets(mine)} | {_figure(recall(mine))}"
        yield f"| {half} | {counts} | {' | '.join(by_form)} | {_wrong(mine)} | {_figure(_precision(mine))} |"


def _kinds(judged: Sequence[Judged]) -> Iterator[str]:
    by_kind: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        by_kind[one.sample.kind].append(one)
    yield "| Kind | Form | Half | Secrets | Found | Recall | Wrong masks |"
    yield "|---|---|---|---|---|---|---|"
    for kind, mine in sorted(by_kind.items(), key=lambda item: (FORMS.index(item[1][0].sample.form), item[0])):
        sample = mine[0].sample
        found = sum(one.found for one in mine)
        figures = f"{_secrets(mine)} | {found} | {_figure(recall(mine))} | {_wrong(mine)}"
        yield f"| {kind} | {sample.form} | {sample.half} | {figures} |"


def _secrets(judged: Iterable[Judged]) -> int:
    return sum(len(one.sample.spans) for one in judged)


def _wrong(judged: Iterable[Judged]) -> int:
    return sum(len(one.wrong) for one in judged)


def _precision(judged: Sequence[Judged]) -> float:
    found = sum(one.found for one in judged)
    return found / (found + _wrong(judged))


def _figure(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")

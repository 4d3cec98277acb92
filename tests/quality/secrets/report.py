"""Writes recall and precision into docs/secrets.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.quality.secrets.measuring import Judged, judge, recall
from tests.quality.secrets.samples import FORMS, HALVES, samples

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

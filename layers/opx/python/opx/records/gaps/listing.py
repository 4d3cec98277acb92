"""Gaps for people: those that matter most first, with their owners; as Markdown too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from opx.domain.record import Record
from opx.domain.results import Absent
from opx.records.gaps.model import MAX_CALLERS, Gap, GapStatus

if TYPE_CHECKING:
    from opx.records.gaps.owners import Owners

NOBODY = "nobody"
"""Who owns what nobody does."""

_TITLE = "# Questions without a good answer"


class GapView(Record, frozen=True, kw_only=True):
    """A gap as it is shown, with who is to close it, "" for nobody."""

    gap_id: str
    scope: str
    status: GapStatus
    question: Annotated[str, Meta(description="The first wording, without secrets.")]
    examples: tuple[str, ...]
    missing: Annotated[tuple[str, ...], Meta(description="What those who reported it lacked.")]
    absent: Annotated[
        Absent | None, Meta(description="Where that is the gap: what the questions name and no page is about.")
    ] = None
    count: int
    callers: Annotated[int, Meta(description="How many different ones asked; 20 stands for more, too.")]
    first_asked_at: str
    last_asked_at: str
    services: tuple[str, ...]
    categories: tuple[str, ...]
    owner: str
    nearest_id: str
    nearest_title: str
    nearest_category: str
    nearest_confidence: float
    because: str
    closed_by: Annotated[str, Meta(description="The document that answers it.")]
    closed_by_title: str
    closed_at: str


def listed(
    gaps: Iterable[Gap], owners: Owners, *, service: str = "", owner: str = "", settled: bool = False
) -> list[GapView]:
    """The gaps of a service and of an owner (`NOBODY` for those of nobody), those that matter most first; closed and
    ignored ones only if `settled`, and after the open ones."""
    wanted = [gap for gap in gaps if settled or gap.status is GapStatus.OPEN]
    wanted.sort(key=lambda gap: (gap.status is not GapStatus.OPEN, -gap.weight, gap.gap_id))
    views = (_view(gap, owners.of(gap)) for gap in wanted)
    return [
        view
        for view in views
        if (not service or service.casefold() in map(str.casefold, view.services))
        and (not owner or owner.casefold() == (view.owner or NOBODY).casefold())
    ]


def _view(gap: Gap, owner: str) -> GapView:
    return GapView(
        gap_id=gap.gap_id,
        scope=gap.scope_key,
        status=gap.status,
        question=gap.question,
        examples=tuple(example.text for example in gap.examples),
        missing=gap.missing,
        absent=gap.absent,
        count=gap.count,
        callers=len(gap.callers),
        first_asked_at=gap.first_asked_at,
        last_asked_at=gap.last_asked_at,
        services=gap.services,
        categories=gap.categories,
        owner=owner,
        nearest_id=gap.nearest.document_id,
        nearest_title=gap.nearest.title,
        nearest_category=gap.nearest.category,
        nearest_confidence=gap.nearest.confidence,
        because=gap.because,
        closed_by=gap.closed_by,
        closed_by_title=gap.closed_by_title,
        closed_at=gap.closed_at,
    )


def report_lines(gaps: Sequence[GapView]) -> Iterator[str]:
    """A report in Markdown, by owner."""
    yield _TITLE
    if not gaps:
        yield from ("", "There are none.")
    for owner in dict.fromkeys(gap.owner or NOBODY for gap in gaps):
        yield from ("", f"## {_plain(owner)}")
        for gap in gaps:
            if (gap.owner or NOBODY) == owner:
                yield from _item_lines(gap)


def _item_lines(gap: GapView) -> Iterator[str]:
    services = f" ({_plain(', '.join(gap.services))})" if gap.services else ""
    state = "" if gap.status is GapStatus.OPEN else f" [{gap.status}]"
    yield from ("", f"- **{_plain(headline(gap))}**{services}{state}")
    yield f"  - {times(gap)}; `{gap.gap_id[:12]}`"
    for example in gap.examples if gap.absent else gap.examples[1:]:
        yield f"  - {'asked' if gap.absent else 'also'}: {_plain(example)}"
    for text in gap.missing:
        yield f"  - missing: {_plain(text)}"
    if gap.nearest_id and not gap.absent:
        yield f"  - nearest: {_plain(gap.nearest_title)} ({gap.nearest_confidence:.2f})"
    if gap.status is not GapStatus.OPEN:
        yield f"  - {gap.status}: {_plain(settled_because(gap))}"


def headline(gap: GapView) -> str:
    """The first wording, or what is absent: `no page for alert QueueHighCritical; nearest sibling: QueueHighWarning`."""
    return gap.absent.text if gap.absent else gap.question


def settled_because(gap: GapView) -> str:
    """Why it isn't open any more: `a document answers it: Restart the gateway`."""
    return ": ".join(filter(None, (gap.because, gap.closed_by_title)))


def times(gap: GapView) -> str:
    """`asked 3 times by 2 callers, last on 2026-11-22`."""
    often = "once" if gap.count == 1 else f"{gap.count} times"
    who = "1 caller" if gap.callers == 1 else f"{gap.callers}{' or more' * (gap.callers >= MAX_CALLERS)} callers"
    return f"asked {often} by {who}, last on {gap.last_asked_at[:10]}"


def _plain(text: str) -> str:
    """Text of others, so that it changes nothing of the report around it."""
    cleaned = " ".join(text.split())
    for character in "\\`*_[]<>#|":
        cleaned = cleaned.replace(character, f"\\{character}")
    return cleaned

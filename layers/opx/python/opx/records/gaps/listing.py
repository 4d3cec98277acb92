"""Lists gaps with their owners, by weight; as Markdown, too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from opx.domain.knowledge import KnowledgeModel
from opx.domain.record import Record, about, like
from opx.domain.results import Absent
from opx.records.gaps.model import MAX_CALLERS, Gap, GapStatus
from opx.runtime.knowledge_file import read_section

NOBODY = "nobody"
"""Label for gaps without an owner."""

_TITLE = "# Questions without a good answer"


class GapView(Record, frozen=True, kw_only=True):
    """A gap as operations return it, with its owner, "" for none."""

    gap_id: str
    scope: str
    status: GapStatus
    question: Annotated[str, about("The first wording, without secrets.")]
    examples: tuple[str, ...]
    missing: Annotated[tuple[str, ...], about("Information that reporters of the gap missed.")]
    absent: Annotated[
        Absent | None, about("The identifier in the questions that no page is about, if that is the gap.")
    ] = None
    count: int
    callers: Annotated[int, about("Number of different callers, counted up to 20.")]
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
    closed_by: Annotated[str, about("The document that answers it.")]
    closed_by_title: str
    closed_at: str
    settled_by: Annotated[str, about("The principal that closed or ignored it by hand.")] = ""


def listed(
    gaps: Iterable[Gap], owners: Owners, *, service: str = "", owner: str = "", settled: bool = False
) -> list[GapView]:
    """The gaps of a service and of an owner (`NOBODY` for none), by weight; closed and ignored ones only if `settled`, and
    after the open ones."""
    wanted = [gap for gap in gaps if settled or gap.status is GapStatus.OPEN]
    wanted.sort(key=lambda gap: (gap.status is not GapStatus.OPEN, -gap.weight, gap.gap_id))
    views = (_view(gap, gap.owner or owners.of(gap)) for gap in wanted)
    return [
        view
        for view in views
        if (not service or service.casefold() in map(str.casefold, view.services))
        and (not owner or owner.casefold() == (view.owner or NOBODY).casefold())
    ]


def _view(gap: Gap, owner: str) -> GapView:
    return like(
        GapView,
        gap,
        scope=gap.scope_key,
        question=gap.question,
        examples=tuple(example.text for example in gap.examples),
        callers=len(gap.callers),
        services=gap.services,
        owner=owner,
        nearest_id=gap.nearest.document_id,
        nearest_title=gap.nearest.title,
        nearest_category=gap.nearest.category,
        nearest_confidence=gap.nearest.confidence,
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
    """Reason for the status: `a document answers it: Restart the gateway`."""
    return ": ".join(filter(None, (gap.because, gap.closed_by_title)))


def times(gap: GapView) -> str:
    """Frequency of a gap in words, with its number of callers and last date."""
    often = "once" if gap.count == 1 else f"{gap.count} times"
    callers = "1 caller" if gap.callers == 1 else f"{gap.callers}{' or more' * (gap.callers >= MAX_CALLERS)} callers"
    return f"asked {often} by {callers}, last on {gap.last_asked_at[:10]}"


def _plain(text: str) -> str:
    """Untrusted text on one line, escaped for Markdown."""
    cleaned = " ".join(text.split())
    for character in "\\`*_[]<>#|":
        cleaned = cleaned.replace(character, f"\\{character}")
    return cleaned


# -- owners


_WORDS = re.compile(r"[\w.-]+")
MAX_OWNER = 100


class Owners:
    """Finds owners by service, and by the category of the nearest document."""

    def __init__(self, services: Mapping[str, str], categories: Mapping[str, str]) -> None:
        self._services = {name.casefold(): owner for name, owner in services.items()}
        self._categories = dict(categories)

    @property
    def names(self) -> tuple[str, ...]:
        """Every owner, once."""
        return tuple(sorted({*self._services.values(), *self._categories.values()}))

    def services_in(self, question: str) -> tuple[str, ...]:
        """Known services whose names are words of a question, sorted."""
        words = {word.strip(".-") for word in _WORDS.findall(question.casefold())}
        return tuple(sorted(words & self._services.keys()))

    def of(self, gap: Gap) -> str:
        """The owner of a gap, "" for none."""
        for service in gap.services:
            if service.casefold() in self._services:
                return self._services[service.casefold()]
        category = gap.nearest.category or next(iter(gap.categories), "")
        return self._of_category(category) or gap.nearest.author

    def _of_category(self, path: str) -> str:
        """The owner of the longest prefix of the path that has one."""
        names = path.split("/")
        beginnings = ("/".join(names[:count]) for count in range(len(names), 0, -1))
        return next((self._categories[path] for path in beginnings if path in self._categories), "")


def read_owners(knowledge: KnowledgeModel, path: Path | None = None) -> Owners:
    """The owners in knowledge.yaml. Raises `KnowledgeConfigError` for a value that is no string or too long, and for a key
    with a `/` that is no prefix of a category's path."""
    section = read_section("owners", path)
    services: dict[str, str] = {}
    categories: dict[str, str] = {}
    known = {
        "/".join(path.split("/")[:count]) for path in knowledge.categories for count in range(1, path.count("/") + 2)
    }
    for name, value in section.entries().items() if section else ():
        owner = value.text()
        if len(owner) > MAX_OWNER:
            raise value.error(f"an owner has at most {MAX_OWNER} characters")
        if "/" in name and name not in known:
            raise value.error(f"no category is {name!r} or below it; allowed: {', '.join(sorted(known))}")
        (categories if name in known else services)[name] = owner
    return Owners(services, categories)

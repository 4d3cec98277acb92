"""A gap: what was asked and not answered, in how many ways and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from opx.domain.record import replace
from opx.ports import Item
from opx.records.gaps.likeness import Wording, likeness

MAX_EXAMPLES = 5
MAX_CALLERS = 20
_FAR_OFF = 0.1
"""Weight of a question that nothing is near to: mostly something else than operations."""


class GapStatus(StrEnum):
    """`CLOSED`: a document answers it, or somebody said so. `IGNORED`: nobody is going to write that document."""

    OPEN = "open"
    CLOSED = "closed"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Nearest:
    """The best of what was not good enough."""

    document_id: str = ""
    title: str = ""
    category: str = ""
    author: str = ""
    confidence: float = 0.0
    services: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """A cluster of questions of one scope. `examples` are the first wordings, `callers` hashes of the first callers.

    `named` are the services that the questions are about, because they say so. `config` is how the last one was to be
    answered (as JSON). `revision` counts writes.
    """

    scope_key: str
    gap_id: str
    examples: tuple[Wording, ...]
    first_asked_at: str
    last_asked_at: str
    status: GapStatus = GapStatus.OPEN
    count: int = 1
    callers: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    nearest: Nearest = Nearest()
    config: Mapping[str, Any] = field(default_factory=dict)
    because: str = ""
    closed_by: str = ""
    closed_by_title: str = ""
    closed_at: str = ""
    revision: int = 1

    @property
    def question(self) -> str:
        return self.examples[0].text

    @property
    def services(self) -> tuple[str, ...]:
        """What the questions name, else what the nearest document is about."""
        return self.named or self.nearest.services

    @property
    def weight(self) -> float:
        """How much it matters: how often it was asked, and how near knowledge came to it."""
        return self.count * (_FAR_OFF + self.nearest.confidence)

    def likeness(self, wording: Wording, named: Sequence[str]) -> float:
        """To the most alike of its examples; below 0 if it asks for something else."""
        if tuple(named) != self.named:
            return -1.0
        return max(likeness(wording, example) for example in self.examples)

    def asked_again(self, other: Gap) -> Gap:
        """With another gap's single question counted in. A closed one is open again: it was not answered."""
        known = {example.terms_key for example in self.examples}
        fresh = [example for example in other.examples if example.terms_key not in known]
        examples = (*self.examples, *fresh)[:MAX_EXAMPLES]
        nearer = other.nearest if other.nearest.confidence >= self.nearest.confidence else self.nearest
        reopened = self.status is GapStatus.CLOSED
        found = replace(
            self,
            examples=examples,
            last_asked_at=max(self.last_asked_at, other.last_asked_at),
            status=GapStatus.OPEN if reopened else self.status,
            count=self.count + 1,
            callers=tuple(dict.fromkeys((*self.callers, *other.callers)))[:MAX_CALLERS],
            categories=tuple(sorted({*self.categories, *other.categories})),
            nearest=other.nearest if reopened else nearer,
            config=other.config,
            revision=self.revision + 1,
        )
        return replace(found, because="", closed_by="", closed_by_title="", closed_at="") if reopened else found


def to_item(gap: Gap, expires_at: int) -> Item:
    """The item of the table of gaps."""
    nearest = gap.nearest
    return {
        "scopeKey": gap.scope_key,
        "gapId": gap.gap_id,
        "statusKey": f"{gap.scope_key}#{gap.status}",
        "status": gap.status.value,
        "texts": [example.text for example in gap.examples],
        "termsKeys": [example.terms_key for example in gap.examples],
        "signs": [example.signs for example in gap.examples],
        "models": [example.model for example in gap.examples],
        "firstAskedAt": gap.first_asked_at,
        "lastAskedAt": gap.last_asked_at,
        "count": gap.count,
        "callers": list(gap.callers),
        "named": list(gap.named),
        "categories": list(gap.categories),
        "nearest": {**asdict(nearest), "services": list(nearest.services)},
        "config": dict(gap.config),
        "because": gap.because,
        "closedBy": gap.closed_by,
        "closedByTitle": gap.closed_by_title,
        "closedAt": gap.closed_at,
        "revision": gap.revision,
        "expiresAt": expires_at,
    }


def from_item(item: Item) -> Gap:
    """The gap that `to_item` was given."""
    wordings = zip(item["texts"], item["termsKeys"], item["signs"], item["models"], strict=True)
    return Gap(
        scope_key=item["scopeKey"],
        gap_id=item["gapId"],
        examples=tuple(Wording(text, key, bytes(signs), model) for text, key, signs, model in wordings),
        first_asked_at=item["firstAskedAt"],
        last_asked_at=item["lastAskedAt"],
        status=GapStatus(item["status"]),
        count=item["count"],
        callers=tuple(item["callers"]),
        named=tuple(item["named"]),
        categories=tuple(item["categories"]),
        nearest=Nearest(**{**item["nearest"], "services": tuple(item["nearest"]["services"])}),
        config=item["config"],
        because=item["because"],
        closed_by=item["closedBy"],
        closed_by_title=item["closedByTitle"],
        closed_at=item["closedAt"],
        revision=item["revision"],
    )

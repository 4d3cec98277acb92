"""Where the pulls of a source are: kept after every page, so that one which is interrupted goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from opx.domain.sources import Cursor, Health, Refused

MAX_REFUSED = 50
"""Documents that a state names as unreadable; it counts all."""


@dataclass(frozen=True, slots=True)
class PullState:
    """`since` is from when the next pull asks, or the one under way does (`run` is its mark, "" for none).

    `flag` says why nothing was withdrawn although documents are missing, until a listing is whole again or a person
    agrees. `left` is the last cursor of the last finished pull. `definition` is a hash of what the source
    was when its documents were read, `everything`: all are put again. Counts are of the last pull. Times are ISO 8601, the
    lease is in seconds since the epoch.
    """

    source_id: str
    since: str = ""
    run: str = ""
    started: str = ""
    cursor: Cursor = field(default_factory=dict)
    left: Cursor = field(default_factory=dict)
    seen_until: str = ""
    owner: str = ""
    lease_until: float = 0.0
    put: int = 0
    unchanged: int = 0
    withdrawn: int = 0
    refused: int = 0
    refusals: tuple[Refused, ...] = ()
    last_attempt: str = ""
    last_success: str = ""
    error: str = ""
    failures: int = 0
    retry_at: float = 0.0
    flag: str = ""
    definition: str = ""
    everything: bool = False

    def to_item(self) -> dict[str, Any]:
        item = {each.name: getattr(self, each.name) for each in fields(self)}
        item["refusals"] = [[one.key, one.reason] for one in self.refusals]
        return item

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> PullState:
        known = {each.name: item[each.name] for each in fields(cls) if each.name in item}
        known["refusals"] = tuple(Refused(key, reason) for key, reason in item.get("refusals", ()))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source and how it stands, for people. `health` only where it was asked for."""

    source_id: str
    kind: str
    category: str
    tier: str
    schedule: str
    time_zone: str
    enabled: bool
    declared: bool
    state: PullState
    health: Health | None = None

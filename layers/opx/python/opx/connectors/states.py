"""How far the pulls of a source are: kept after every page, so that one which is interrupted goes on, and shown to people."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from opx.domain.record import Record
from opx.domain.sources import Cursor, Health, Refused, SourceDefinition

MAX_REFUSED = 50
"""Documents that a state names as unreadable; it counts all."""


class PullState(Record, frozen=True, rename=None):
    """`since` is from when the next pull asks, or the one under way does (`run` is its mark, "" for none).

    `flag` says why nothing was withdrawn although documents are missing, until a listing is whole again or a person
    agrees. `left` is the last cursor of the last finished pull. `definition` is a hash of what the source
    was when its documents were read, `everything`: all are put again. Counts are of the last pull; `refusals` are pairs of
    key and reason. Times are ISO 8601, the lease is in seconds since the epoch.
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
    refusals: tuple[tuple[str, str], ...] = ()
    last_attempt: str = ""
    last_success: str = ""
    error: str = ""
    failures: int = 0
    retry_at: float = 0.0
    flag: str = ""
    definition: str = ""
    everything: bool = False


class Standing(Record, frozen=True, kw_only=True):
    """How the pulls of a source stand, without cursors and leases."""

    pulling: bool
    unfinished: Annotated[bool, Meta(description="True if its last pull goes on with the next one.")]
    since: Annotated[str, Meta(description="From when the next pull asks, empty for everything.")]
    last_attempt: str
    last_success: str
    put: int
    unchanged: int
    withdrawn: int
    refused: Annotated[int, Meta(description="Documents that could not be read; `refusals` names some.")]
    refusals: tuple[Refused, ...]
    error: Annotated[str, Meta(description="Why the last pull stopped, empty if it didn't.")]
    failures: int
    flag: Annotated[str, Meta(description="Why nothing was withdrawn although documents are missing.")]

    @classmethod
    def of(cls, state: PullState) -> Standing:
        others = set(cls.__struct_fields__) - {"pulling", "unfinished", "refusals"}
        return cls(
            pulling=bool(state.owner),
            unfinished=bool(state.run),
            refusals=tuple(Refused(key, reason) for key, reason in state.refusals),
            **{name: getattr(state, name) for name in others},
        )


class SourceView(Record, frozen=True, omit_defaults=True):
    """A source and how its pulls stand, for people. `health` only where it was checked."""

    source_id: str
    kind: str
    category: str
    tier: str
    schedule: Annotated[str, Meta(description="Five cron fields, empty for one that is pulled by hand alone.")]
    time_zone: str
    enabled: bool
    declared: Annotated[bool, Meta(description="True for one of knowledge.yaml, which is changed there.")]
    state: Standing
    health: Health | None = None

    @classmethod
    def of(cls, definition: SourceDefinition, state: PullState, *, declared: bool) -> SourceView:
        return cls(
            source_id=definition.source_id,
            kind=definition.kind,
            category=definition.category,
            tier=definition.tier.value,
            schedule=definition.schedule,
            time_zone=definition.time_zone,
            enabled=definition.enabled,
            declared=declared,
            state=Standing.of(state),
        )

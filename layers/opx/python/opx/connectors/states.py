"""State of a source's pulls, kept after every page so that an interrupted pull resumes; and their schedules and
retries."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import field

from opx.domain.ids import stable_hash
from opx.domain.record import Record, about
from opx.domain.sources import Cursor, Health, Refused, SourceDefinition
from opx.errors import InvalidInputError

BY_HAND = "by_hand"
"""Mark of the message of a pull that a caller requested: a paused source is pulled for no other."""

MAX_REFUSED = 50
"""Refused documents that a state lists; the count includes all."""


class PullState(Record, frozen=True, rename=None):
    """Progress and result of a source's pulls. `since` is the time from which the next pull, or the current one, queries
    changes; `run` identifies the current pull, "" for none.

    `flag` explains why nothing was withdrawn although documents are missing, until a listing is complete again or an
    operator accepts it. `left` is the last cursor of the last finished pull. `definition` is a hash of the source's
    definition when its documents were read, `everything`: all are put again. Counts are of the last pull, but for
    `kept_out_in_all`: documents of the source that the retention `kept_out_by` keeps out. `refusals` are pairs of key and
    reason. Times are ISO 8601, the lease is in seconds since the epoch.
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
    added: int = 0
    unchanged: int = 0
    withdrawn: int = 0
    refused: int = 0
    kept_out: int = 0
    kept_out_in_all: int = 0
    kept_out_by: str = ""
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
    """Progress of a source's pulls, without cursors and leases."""

    pulling: bool
    unfinished: Annotated[bool, about("True if the last pull was interrupted; the next one resumes it.")]
    since: Annotated[str, about("Start of the changes that the next pull requests; empty for everything.")]
    last_attempt: str
    last_success: str
    put: Annotated[int, about("Documents that were new or had changed.")]
    added: Annotated[int, about("Documents of these that were new.")]
    unchanged: int
    withdrawn: int
    refused: Annotated[int, about("Documents that could not be read; `refusals` lists some.")]
    refusals: tuple[Refused, ...]
    kept_out: Annotated[int, about("Documents of the last pull that were past their retention.")] = 0
    kept_out_in_all: Annotated[int, about("Documents of the source that are past their retention, and not stored.")] = 0
    kept_out_by: Annotated[str, about("The retention that keeps them out, such as 2y.")] = ""
    error: Annotated[str, about("Reason why the last pull stopped; empty if it finished.")]
    failures: int
    flag: Annotated[str, about("Reason why nothing was withdrawn although documents are missing.")]

    @classmethod
    def of(cls, state: PullState) -> Standing:
        others = set(cls.__struct_fields__) - {"pulling", "unfinished", "refusals"}
        return cls(
            pulling=bool(state.owner),
            unfinished=bool(state.run),
            refusals=tuple(Refused(key, reason) for key, reason in state.refusals),
            **{name: getattr(state, name) for name in others},
        )


class Freshness(StrEnum):
    """FRESH: pulled since the last scheduled time. OVERDUE: a scheduled pull is missing, or didn't succeed. NEVER: not
    pulled yet. BY_HAND: paused, or without a schedule."""

    FRESH = "fresh"
    OVERDUE = "overdue"
    NEVER = "never"
    BY_HAND = "by hand"


class SourceView(Record, frozen=True, omit_defaults=True):
    """A source and the progress of its pulls, as shown to users. `health` only where it was checked."""

    source_id: str
    kind: str
    category: str
    tier: str
    schedule: Annotated[str, about("Five cron fields; empty for a source that is pulled only on request.")]
    time_zone: str
    enabled: bool
    declared: Annotated[bool, about("True for a source of knowledge.yaml, which is changed there, but for `enabled`.")]
    options: Annotated[dict[str, Any], about("Options that were given; secrets are names.")]
    tags: Annotated[tuple[str, ...], about("Tags of all its documents.")]
    max_missing_share: float
    state: Standing
    next_pull: Annotated[str, about("The time of the next scheduled pull; empty for none.")] = ""
    freshness: Freshness = Freshness.BY_HAND
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
            options=dict(definition.options),
            tags=definition.tags,
            max_missing_share=definition.max_missing_share,
            state=Standing.of(state),
        )


# -- schedules


JITTER_MINUTES = 10
"""Window after a scheduled time in which pulls start, so that those of the same hour don't start together."""

_ANY_DAY = "?"
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def scheduler_cron(text: str) -> str:
    """Converts a five-field cron expression to EventBridge Scheduler's form: `0 5 * * 0` becomes `cron(0 5 ? * SUN *)`.

    The scheduler has a sixth field for the year, counts weekdays differently, and requires `?` in one of its two day
    fields. Raises `InvalidInputError` for an invalid expression, and for one that the scheduler can't express: both a day
    of the month and a weekday, and days such as `L` or `1#2`.

    Source of the target's form: EventBridge Scheduler user guide, "Cron-based schedules".
    """
    minutes, hours, days, months, weekdays = _fields(text)
    if any(not isinstance(value, int) or value < 0 for value in (*days, *weekdays)):
        raise InvalidInputError(f"schedule {text!r}: days counted from an end, as L and # do, can't be scheduled")
    every_day, every_weekday = len(days) == 31, len(weekdays) == 8
    if not (every_day or every_weekday):
        raise InvalidInputError(
            f"schedule {text!r} restricts both the day of the month and the weekday, which can't be scheduled as one: "
            "make two schedules of it"
        )
    day = _ANY_DAY if not every_weekday else _listed(days, whole=31)
    weekday = _ANY_DAY if every_weekday else ",".join(_WEEKDAYS[n] for n in sorted({n % 7 for n in weekdays}))
    return (
        f"cron({_listed(minutes, whole=60)} {_listed(hours, whole=24)} {day} {_listed(months, whole=12)} {weekday} *)"
    )


def checked_cron(text: str) -> str:
    """Returns the normalised five-field cron expression if EventBridge Scheduler supports it. Raises as
    `scheduler_cron`."""
    scheduler_cron(text)
    return " ".join(text.split())


def checked_zone(name: str) -> str:
    """Returns the name of a time zone, such as `Europe/Vienna`. Raises `InvalidInputError`."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise InvalidInputError(f"unknown time zone {name!r}; allowed are names such as UTC or Europe/Vienna") from exc
    return name


def next_time(schedule: str, time_zone: str, after: float) -> float:
    """Next time that a five-field cron expression is due, in seconds since the epoch.

    A time that the zone skips in spring is due at the next existing one; one that occurs twice is due once.
    """
    from cronsim import CronSim

    return float(next(CronSim(schedule, datetime.fromtimestamp(after, ZoneInfo(time_zone)))).timestamp())


def _fields(text: str) -> tuple[set[int], set[int], set[int], set[int], set[Any]]:
    """Values of minute, hour, day of month, month and weekday (Sunday is 0 and 7, `1#2` is a pair)."""
    from cronsim import CronSim, CronSimError

    if len(text.split()) != 5:
        raise InvalidInputError(f"schedule {text!r}: needed are minute hour day-of-month month day-of-week")
    try:
        parsed = CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as exc:
        raise InvalidInputError(f"schedule {text!r} is not a cron expression: {str(exc).lower()}") from exc
    return parsed.minutes, parsed.hours, parsed.days, parsed.months, parsed.weekdays


def _listed(values: Iterable[int], *, whole: int) -> str:
    chosen = sorted(values)
    return "*" if len(chosen) == whole else ",".join(map(str, chosen))


MAX_RETRIES = 3
"""Retries of a failed pull before its next scheduled time."""

FIRST_PAUSE_SECONDS = 60.0
JITTER_SECONDS = 60


def due_at(definition: SourceDefinition, state: PullState) -> float | None:
    """Time of the source's next pull, in seconds since the epoch; None if it is pulled only on request.

    At once if it was never pulled or if its last pull was interrupted; after a failure when the source states or after a
    pause that doubles, up to three times; else at the first scheduled time after the last attempt, and up to a minute
    later, so that not all sources start together.
    """
    if not (definition.schedule and definition.enabled):
        return None
    if not state.last_attempt:
        return 0.0
    tried = datetime.fromisoformat(state.last_attempt).timestamp()
    if state.error and state.failures <= MAX_RETRIES:
        return tried + retry_delay(state, tried)
    if state.run and not state.error:
        return tried
    return next_time(definition.schedule, definition.time_zone, tried) + _jitter(definition.source_id)


OVERDUE_AFTER = 3600.0
"""Seconds after its time after which a pull that hasn't succeeded is overdue."""


def freshness_of(definition: SourceDefinition, state: PullState, now: float) -> Freshness:
    """Judges the last successful pull by the source's schedule."""
    if not (definition.schedule and definition.enabled):
        return Freshness.BY_HAND
    if not state.last_success:
        return Freshness.NEVER
    succeeded = datetime.fromisoformat(state.last_success).timestamp()
    due = next_time(definition.schedule, definition.time_zone, succeeded)
    return Freshness.OVERDUE if due + OVERDUE_AFTER < now else Freshness.FRESH


def retry_delay(state: PullState, now: float) -> float:
    """Seconds until a failed pull is retried: as the source requested, or a minute, two, four."""
    return max(state.retry_at - now, FIRST_PAUSE_SECONDS * 2.0 ** min(max(0, state.failures - 1), 10))


def _jitter(source_id: str) -> int:
    return int(stable_hash("jitter", source_id), 16) % JITTER_SECONDS

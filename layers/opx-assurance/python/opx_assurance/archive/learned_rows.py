"""Kinds of rows of learning and of records: captured entries, patterns, outcomes, gaps, baselines, the audit log."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from opx.domain.ids import stable_hash
from opx.domain.learning import PatternOccurrence, StagingEntry
from opx.domain.outcomes import DocumentOutcomes, RecordedOutcome
from opx.domain.record import Record
from opx.domain.record import from_json as read
from opx.domain.scopes import scope_of_key
from opx.errors import InvalidInputError
from opx.learning.learned_words import ReportedIncident
from opx.learning.outcome_store import KINDS as RECORDED_KINDS
from opx.learning.outcome_store import head_key, known_key, resolved_key, warned_partition
from opx.learning.pattern_rows import (
    fresh_partition,
    heads_partition,
    keys_partition,
    lock_partition,
    occurrences_partition,
    pattern_in,
    projects_partition,
)
from opx.learning.staging import waiting_partition
from opx.learning.warnings import TriedStep
from opx.ports import Item
from opx.ports.tables import AUDIT, BASELINES, GAPS, OUTCOMES, PATTERNS, STAGING
from opx.records.audit import SCOPES as AUDIT_SCOPES
from opx.records.audit import record_in
from opx.records.gaps.log import DROPPED, SCOPES
from opx.records.gaps.model import from_item, status_key
from opx.telemetry.baselines.items import SCOPES as BASELINE_SCOPES
from opx.telemetry.baselines.items import Series, part_from, record_key, recorded_partition, series_partition
from opx.telemetry.baselines.readings import TimeWindow
from opx.telemetry.baselines.summary import Summary
from opx_assurance.archive.evaluation_rows import EVALUATION_KINDS
from opx_assurance.archive.rows import (
    Revision,
    RowKind,
    require_bytes,
    require_number,
    require_text,
    require_time,
    scope_key,
    whole,
)

LEARNED_KINDS: dict[str, tuple[RowKind, ...]] = {}
"""Kinds of rows by the name of their table."""


# -- captured entries


class _StagingRow(Record, frozen=True):
    revision: Revision


def _entry(item: Item) -> Mapping[str, Any]:
    entry = read(StagingEntry, item)
    read(_StagingRow, item)
    waits = waiting_partition(entry)
    key = {"id": entry.id, "scope": scope_key(entry.scope_key), "scopeKey": entry.scope_key, "state": entry.state.value}
    return {**key, "project_id": entry.project_id, **({"waitingPlace": waits} if waits else {})}


LEARNED_KINDS[STAGING.name] = (RowKind(lambda _: True, _entry, expires=True, times=("timestamp", "embedded_at")),)


# -- patterns


class _HeadRow(Record, frozen=True):
    revision: Revision
    last_batch: tuple[PatternOccurrence, ...] = ()
    document_at: str = ""
    merged_into: str = ""


class _KeyRow(Record, frozen=True):
    pattern_id: str


class _LockRow(Record, frozen=True):
    holder: str


def _part(item: Item, name: str) -> bool:
    return bool(item["place"].partition("|")[2] == name)


def _scope(item: Item) -> str:
    return scope_key(item["place"].partition("|")[0])


def _head(item: Item) -> Mapping[str, Any]:
    row = read(_HeadRow, item)
    for fact in item.get("lastBatch", ()):
        _occurrence_in(fact)
    pattern = pattern_in(item)
    for time in (row.document_at, pattern.embedded_at, pattern.first_seen):
        require_time(time, "the time of a pattern")
    return {"place": heads_partition(_scope(item)), "success_count": pattern.success_count}


def _occurrence_in(fact: Any) -> PatternOccurrence:
    occurrence = read(PatternOccurrence, fact)
    require_text(fact["key"], "key")
    require_time(occurrence.at, "at")
    return occurrence


def _occurrence(item: Item) -> Mapping[str, Any]:
    occurrence = _occurrence_in(item)
    pattern_id = item["place"].partition("|")[2]
    return {"place": occurrences_partition(_scope(item), pattern_id), "entry": occurrence.entry_id}


def _fresh(item: Item) -> Mapping[str, Any]:
    pattern = pattern_in(item["pattern"])
    at, _, named = item["entry"].rpartition("#")
    require_time(at, "entry")
    if (pattern.pattern_id, pattern.scope_key) != (named, _scope(item)):
        raise InvalidInputError("the pattern in it is another one")
    return {"place": fresh_partition(pattern.scope_key)}


LEARNED_KINDS[PATTERNS.name] = (
    RowKind(lambda item: "|" not in item["place"], _head),
    RowKind(lambda item: _part(item, "keys"), lambda item: _of(_KeyRow, item, keys_partition)),
    RowKind(lambda item: _part(item, "lock"), lambda item: _of(_LockRow, item, lock_partition)),
    RowKind(lambda item: _part(item, "projects"), lambda item: {"place": projects_partition(_scope(item))}),
    RowKind(lambda item: _part(item, "fresh"), _fresh, expires=True),
    RowKind(lambda item: bool(re.search(r"\|[0-9a-f]{32}\Z", item["place"])), _occurrence),
)


def _of(kind: type[Record], item: Item, partition: Callable[[str], str]) -> Mapping[str, Any]:
    read(kind, item)
    return {"place": partition(_scope(item))}


# -- outcomes


class _CountsRow(Record, frozen=True):
    last: RecordedOutcome
    revision: Revision


class _KnownRow(Record, frozen=True):
    mark: str


def _after(item: Item, prefix: str) -> str:
    return str(item["place"]).removeprefix(prefix)


def _counts(item: Item) -> Mapping[str, Any]:
    known, row = read(DocumentOutcomes, item), read(_CountsRow, item)
    require_time(known.updated_at, "updatedAt")
    require_time(row.last.at, "at")
    return head_key(scope_key(_after(item, "scores#")), item["entry"])


def _outcome(item: Item) -> Mapping[str, Any]:
    outcome = read(RecordedOutcome, item)
    read(_StagingRow, item)
    scope_of_key(_after(item, "told#").rpartition("#")[0])
    return {"entry": outcome.outcome_id}


def _warning(item: Item) -> Mapping[str, Any]:
    row = whole(TriedStep, item)
    if not re.fullmatch(re.escape(row.entry_id) + r"#\d{3,}", item["entry"]):
        raise InvalidInputError("entry does not follow from the rest of the row")
    return {"place": warned_partition(scope_key(_after(item, "warnings#")))}


def _learnt(item: Item) -> Mapping[str, Any]:
    scope_of_key(whole(ReportedIncident, item).page_scope)
    return resolved_key(scope_key(_after(item, "resolved#")), item["entry"])


def _known(item: Item) -> Mapping[str, Any]:
    read(_KnownRow, item)
    if item["entry"] not in RECORDED_KINDS:
        raise InvalidInputError("entry is of no kind that the program writes")
    return known_key(scope_key(_after(item, "known#")), item["entry"])


def _begins(prefix: str) -> Callable[[Item], bool]:
    return lambda item: item["place"].startswith(prefix)


LEARNED_KINDS[OUTCOMES.name] = (
    RowKind(_begins("scores#"), _counts),
    RowKind(_begins("told#"), _outcome, expires=True, times=("at",)),
    RowKind(_begins("warnings#"), _warning, expires=True, times=("at",)),
    RowKind(_begins("resolved#"), _learnt, expires=True, times=("at",)),
    RowKind(_begins("known#"), _known),
)


# -- gaps


class _GapRow(Record, frozen=True):
    texts: tuple[str, ...]
    terms_keys: tuple[str, ...]
    models: tuple[str, ...]
    first_asked_at: str
    last_asked_at: str


def _gap(item: Item) -> Mapping[str, Any]:
    row = read(_GapRow, item)
    for signs in item["signs"]:
        require_bytes(signs, "signs")
    if not row.texts:
        raise InvalidInputError("a gap without a question")
    gap = from_item(item)
    return {"scopeKey": scope_key(gap.scope_key), "statusKey": status_key(gap)}


def _dropped(item: Item) -> Mapping[str, Any]:
    require_number(item["count"], "count")
    return {"gapId": scope_key(item["gapId"])}


def _key(item: Item) -> Mapping[str, Any]:
    if len(require_bytes(item["key"], "key")) < 16:
        raise InvalidInputError("key is too short")
    return {"gapId": "key"}


LEARNED_KINDS[GAPS.name] = (
    RowKind(lambda item: item["scopeKey"] == SCOPES, lambda item: {"gapId": scope_key(item["gapId"])}),
    RowKind(lambda item: item["scopeKey"] == DROPPED, _dropped),
    RowKind(
        lambda item: not item["scopeKey"].startswith("#"),
        _gap,
        expires=True,
        times=("firstAskedAt", "lastAskedAt", "closedAt"),
    ),
    *EVALUATION_KINDS,
)
KEY_KINDS = (RowKind(lambda _: True, _key),)


# -- the audit log


def _audited(item: Item) -> Mapping[str, Any]:
    record = record_in(item)
    return {"receiptId": record.receipt_id, "who": scope_key(record.who), "askedAt": record.asked_at}


def _audited_scope(item: Item) -> Mapping[str, Any]:
    return {
        "receiptId": f"{AUDIT_SCOPES} {item['askedAt']}",
        "who": AUDIT_SCOPES,
        "askedAt": scope_key(item["askedAt"]),
    }


LEARNED_KINDS[AUDIT.name] = (
    RowKind(lambda item: item["who"] == AUDIT_SCOPES, _audited_scope),
    RowKind(lambda item: not item["who"].startswith("#"), _audited, expires=True, times=("askedAt",)),
)


# -- baselines


class _SeriesRow(Record, frozen=True):
    node: str
    metric: str
    unit: str


class _DayRow(Record, frozen=True):
    hours: dict[str, Any]
    version: Revision


class _RecordRow(Record, frozen=True):
    mean: str
    stddev: str
    samples: int


def _series(item: Item, scope: str) -> Series:
    row = whole(_SeriesRow, item)
    return Series(scope_key(scope), row.node, row.metric)


def _series_note(item: Item) -> Mapping[str, Any]:
    series = _series(item, item["seriesKey"].rpartition("#")[0])
    require_time(item["lastSeen"], "lastSeen")
    day = stable_hash("series", series.node, series.metric)
    return {"seriesKey": series_partition(series.scope_key), "day": day}


def _record_note(item: Item) -> Mapping[str, Any]:
    scope = scope_key(item["seriesKey"].rpartition("#")[0])
    scope_of_key(item["day"].rpartition("#")[0])
    return {"seriesKey": recorded_partition(scope)}


def _recorded(item: Item) -> Mapping[str, Any]:
    row = whole(_RecordRow, item)
    float(row.mean), float(row.stddev), require_number(item["lastSeen"], "lastSeen")
    window = item["day"].removeprefix("record#")
    TimeWindow.ending(0.0, window)
    return record_key(_series(item, item["seriesKey"].rpartition("#")[0]), window)


def _day(item: Item) -> Mapping[str, Any]:
    series, row = _series(item, item["seriesKey"].rpartition("#")[0]), whole(_DayRow, item)
    require_number(item["lastSeen"], "lastSeen")
    part = part_from(item, series)
    require_time(part.day, "day")
    if len(part.day) != len("2026-11-24") or len(require_bytes(part.marks, "marks")) % 8:
        raise InvalidInputError("day or marks are malformed")
    for hour, data in row.hours.items():
        if not re.fullmatch(r"[01]\d|2[0-3]", hour):
            raise InvalidInputError("hours has an unknown hour")
        Summary.from_bytes(require_bytes(data, "hours"))
    return part.key


LEARNED_KINDS[BASELINES.name] = (
    RowKind(lambda item: item["seriesKey"] == BASELINE_SCOPES, lambda item: {"day": scope_key(item["day"])}),
    RowKind(lambda item: item["seriesKey"].endswith("#series"), _series_note, expires=True),
    RowKind(lambda item: item["seriesKey"].endswith("#records"), _record_note, expires=True),
    RowKind(lambda item: item["day"].startswith("record#"), _recorded, expires=True),
    RowKind(lambda item: "#" in item["seriesKey"], _day, expires=True),
)

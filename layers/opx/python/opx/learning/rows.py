"""Rows of learning: captured entries, patterns with their occurrences, outcomes and warnings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from opx.domain.learning import PatternOccurrence, StagingEntry
from opx.domain.outcomes import DocumentOutcomes, RecordedOutcome
from opx.domain.record import from_json as read
from opx.domain.scopes import scope_of_key
from opx.errors import InvalidInputError
from opx.learning import outcome_store, pattern_rows
from opx.learning.learned_words import ReportedIncident
from opx.learning.staging import waiting_partition
from opx.learning.warnings import TriedStep
from opx.ports import Item
from opx.ports.rows import REVISION, RowKind, Rows, of_scopes, require_text, require_time, scope_key, whole
from opx.ports.tables import OUTCOMES, PATTERNS, STAGING

# -- captured entries


def _entry(item: Item) -> Mapping[str, Any]:
    entry = read(StagingEntry, item)
    waits = waiting_partition(entry)
    key = {"id": entry.id, "scope": scope_key(entry.scope_key), "scopeKey": entry.scope_key, "state": entry.state.value}
    return {**key, "project_id": entry.project_id, **({"waitingPlace": waits} if waits else {})}


CAPTURED = Rows(
    table=STAGING,
    name="captured entries",
    kinds=(RowKind(lambda _: True, _entry, REVISION, expires=True, times=("timestamp", "embedded_at")),),
    items=of_scopes(lambda table, scope: table.query(scope, index="scope-index")),
)


# -- patterns


def _part(item: Item, name: str) -> bool:
    return bool(item["place"].partition("|")[2] == name)


def _scope(item: Item) -> str:
    return scope_key(item["place"].partition("|")[0])


def _head(item: Item) -> Mapping[str, Any]:
    require_text(item.get(pattern_rows.MERGED_INTO, ""), pattern_rows.MERGED_INTO)
    for fact in item.get("lastBatch", ()):
        _occurrence_in(fact)
    pattern = pattern_rows.pattern_in(item)
    for time in (item.get("documentAt", ""), pattern.embedded_at, pattern.first_seen):
        require_time(time, "the time of a pattern")
    return {"place": pattern_rows.heads_partition(_scope(item)), "success_count": pattern.success_count}


def _occurrence_in(fact: Any) -> PatternOccurrence:
    occurrence = read(PatternOccurrence, fact)
    require_text(fact["key"], "key")
    require_time(occurrence.at, "at")
    return occurrence


def _occurrence(item: Item) -> Mapping[str, Any]:
    occurrence = _occurrence_in(item)
    pattern_id = item["place"].partition("|")[2]
    return {"place": pattern_rows.occurrences_partition(_scope(item), pattern_id), "entry": occurrence.entry_id}


def _fresh(item: Item) -> Mapping[str, Any]:
    pattern = pattern_rows.pattern_in(item["pattern"])
    at, _, named = item["entry"].rpartition("#")
    require_time(at, "entry")
    if (pattern.pattern_id, pattern.scope_key) != (named, _scope(item)):
        raise InvalidInputError("the pattern in it is another one")
    return {"place": pattern_rows.fresh_partition(pattern.scope_key)}


def _in(partition: Callable[[str], str]) -> Callable[[Item], Mapping[str, Any]]:
    return lambda item: {"place": partition(_scope(item))}


PATTERN_ROWS = Rows(
    table=PATTERNS,
    name="patterns and their occurrences",
    kinds=(
        RowKind(lambda item: "|" not in item["place"], _head, REVISION),
        RowKind(lambda item: _part(item, "keys"), _in(pattern_rows.keys_partition), {"patternId": str}),
        RowKind(lambda item: _part(item, "lock"), _in(pattern_rows.lock_partition), {"holder": str}),
        RowKind(lambda item: _part(item, "projects"), _in(pattern_rows.projects_partition)),
        RowKind(lambda item: _part(item, "fresh"), _fresh, expires=True),
        RowKind(lambda item: bool(re.search(r"\|[0-9a-f]{32}\Z", item["place"])), _occurrence),
    ),
    items=of_scopes(pattern_rows.rows_of),
)


# -- outcomes


def _after(item: Item, prefix: str) -> str:
    return str(item["place"]).removeprefix(prefix)


def _counts(item: Item) -> Mapping[str, Any]:
    require_time(read(DocumentOutcomes, item).updated_at, "updatedAt")
    require_time(item["last"]["at"], "at")
    return outcome_store.head_key(scope_key(_after(item, "scores#")), item["entry"])


def _outcome(item: Item) -> Mapping[str, Any]:
    outcome = read(RecordedOutcome, item)
    scope_of_key(_after(item, "told#").rpartition("#")[0])
    return {"entry": outcome.outcome_id}


def _warning(item: Item) -> Mapping[str, Any]:
    row = whole(TriedStep, item)
    if not re.fullmatch(re.escape(row.entry_id) + r"#\d{3,}", item["entry"]):
        raise InvalidInputError("entry does not follow from the rest of the row")
    return {"place": outcome_store.warned_partition(scope_key(_after(item, "warnings#")))}


def _learnt(item: Item) -> Mapping[str, Any]:
    scope_of_key(whole(ReportedIncident, item).page_scope)
    return outcome_store.resolved_key(scope_key(_after(item, "resolved#")), item["entry"])


def _known(item: Item) -> Mapping[str, Any]:
    if item["entry"] not in outcome_store.KINDS:
        raise InvalidInputError("entry is of no kind that the program writes")
    return outcome_store.known_key(scope_key(_after(item, "known#")), item["entry"])


def _begins(prefix: str) -> Callable[[Item], bool]:
    return lambda item: item["place"].startswith(prefix)


OUTCOME_ROWS = Rows(
    table=OUTCOMES,
    name="outcomes and warnings",
    kinds=(
        RowKind(_begins("scores#"), _counts, {"last": RecordedOutcome, **REVISION}),
        RowKind(_begins("told#"), _outcome, REVISION, expires=True, times=("at",)),
        RowKind(_begins("warnings#"), _warning, expires=True, times=("at",)),
        RowKind(_begins("resolved#"), _learnt, expires=True, times=("at",)),
        RowKind(_begins("known#"), _known, {"mark": str}),
    ),
    items=of_scopes(outcome_store.rows_of),
)

ROWS = (CAPTURED, PATTERN_ROWS, OUTCOME_ROWS)

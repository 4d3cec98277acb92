"""Records of learning and outcomes: JSON both ways, and rows, also those that earlier versions wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.learning import (
    CheckpointReport,
    CheckpointType,
    EntryState,
    EntryType,
    Pattern,
    PatternOccurrence,
    PatternView,
    RAGPattern,
    Refusal,
    StagingEntry,
)
from opx.domain.outcomes import Counts, RecordedOutcome, Tally
from opx.learning.outcome_store import head_item, outcome_item, read_head
from opx.learning.pattern_rows import fresh_in, fresh_row, head_row, occurrence_row, pattern_in
from opx.learning.staging import KEPT_SECONDS, Staging
from opx.ports.tables import STAGING

PATTERN = Pattern(
    pattern_id="0" * 32,
    scope_key="client:acme",
    entry_type=EntryType.GATE_REJECTION,
    problem="problem",
    solution="solution",
    when_to_try="when",
    error_message="error",
    agent_types=("backend",),
    task_types=("api",),
    technology="postgresql",
    gate_type="security_review",
    success_count=10**6 + 1,
    failure_count=2,
    embedded_at="2026-09-21T00:00:00Z",
    first_seen="2026-09-20T00:00:00Z",
    projects=("shop",),
    evidence=("e1", "e2"),
)
OCCURRENCE = PatternOccurrence("e1", "shop", True, "2026-09-20T00:00:00Z", "INC-7", "similarity", "k")
FOUND = RAGPattern("p", "problem", "solution", "when", 3, 1, 0.9, 0.8, 0.5, EntryType.WARNING, "t", document_id="d")
REPORT = CheckpointReport(
    "shop", CheckpointType.CANCELLATION, 5, 2, 1, 1, ("waits",), (Refusal("e9", "too long"),), 12.5
)
ENTRY = StagingEntry(
    id="e1",
    entry_type=EntryType.WARNING,
    scope_key="client:acme/project:shop",
    project_id="shop",
    timestamp="2026-09-20T00:00:00Z",
    agent_type="backend",
    task_type="api",
    technology="postgresql",
    failure_description="problem",
    error_message="error",
    solution_steps=("one", "two"),
    gate_type="g",
    human_feedback="h",
    revision_approach="r",
    approved_approach="a",
    success_verified=False,
    embedded=True,
    embedded_at="2026-09-21T00:00:00Z",
    incident="INC-7",
    effect="made_worse",
    pattern_id="p",
    reference="doc",
    remarks=("masked",),
)


@pytest.mark.parametrize(
    ("one", "read"),
    [
        (PATTERN, Pattern.from_json),
        (PatternView(PATTERN, (OCCURRENCE,), more=True), PatternView.from_json),
        (FOUND, RAGPattern.from_json),
        (REPORT, CheckpointReport.from_json),
        (ENTRY, StagingEntry.from_json),
    ],
    ids=lambda each: type(each).__name__,
)
def test_record_is_read_from_json_as_it_was_written(one: Any, read: Any) -> None:
    assert read(json.loads(json.dumps(one.to_json()))) == one


# As rows were when records were still written by hand.
STAGING_ROW: dict[str, Any] = {
    **dict.fromkeys(("task_type", "technology", "failure_description", "error_message", "gate_type"), ""),
    **dict.fromkeys(("human_feedback", "revision_approach", "approved_approach", "embedded_at", "reference"), ""),
    "id": "e1",
    "entry_type": "warning",
    "scope": "client:acme/project:shop",
    "project_id": "shop",
    "agent_type": "backend",
    "solution_steps": ["one", "two"],
    "success_verified": False,
    "embedded": False,
    "timestamp": "2026-09-20T00:00:00Z",
    "incident": "INC-7",
    "effect": "made_worse",
    "pattern_id": "",
    "state": "ready",
    "remarks": ["masked"],
    "scopeKey": "client:acme/project:shop",
    "revision": 1,
    "expiresAt": 4_000_000_000,
    "waitingPlace": "ready#client:acme/project:shop#shop",
}
HEAD_ROW = {
    "entry_type": "gate_rejection",
    "problem": "problem",
    "solution": "solution",
    "when_to_try": "when",
    "error_message": "error",
    "agent_types": ["backend"],
    "task_types": ["api"],
    "technology": "postgresql",
    "gate_type": "security_review",
    "success_count": 1_000_001,
    "failure_count": 2,
    "embedded_at": "2026-09-21T00:00:00Z",
    "first_seen": "2026-09-20T00:00:00Z",
    "projects": ["shop"],
    "evidence": ["e1", "e2"],
    "place": "client:acme",
    "entry": "0" * 32,
}
LAST = {
    "outcomeId": "o1",
    "result": "made_worse",
    "documentId": "d1",
    "version": 2,
    "receiptId": "r1",
    "at": "2026-09-20T00:00:00Z",
    "section": "A > B",
    "step": "s",
    "incident": "INC-7",
    "note": "n",
    "occurrence": "1",
    "principal": "me",
}
NONE = {"resolved": 0, "noEffect": 0, "madeWorse": 0}
OUTCOMES_ROW = {
    "place": "scores#client:acme",
    "entry": "k1",
    "documentId": "d1",
    "version": 2,
    "title": "Disk full",
    "now": {"resolved": 4, "noEffect": 0, "madeWorse": 1},
    "earlier": {"resolved": 2, "noEffect": 0, "madeWorse": 0},
    "sections": {"A > B": {"now": {**NONE, "madeWorse": 1}, "earlier": NONE}},
    "updatedAt": "2026-09-20T00:00:00Z",
    "last": LAST,
    "revision": 3,
}


def test_entries_of_earlier_versions_are_read_and_written_as_they_were(tmp_path: Path) -> None:
    table = SqliteTable(STAGING, open_database(tmp_path / "tables.db"), clock=lambda: 1_000.0)
    table.put(STAGING_ROW)
    staging = Staging(table, lambda: 4_000_000_000.0 - KEPT_SECONDS)
    entry = staging.get("client:acme/project:shop", "e1")
    assert (entry.state, entry.effect, entry.solution_steps) == (EntryState.READY, "made_worse", ("one", "two"))
    assert [one.id for one in staging.entries("client:acme/project:shop", ["shop"], EntryState.READY)] == ["e1"]
    table.delete({"id": "e1"})
    staging.add(entry)
    assert table.get({"id": "e1"}) == STAGING_ROW


def test_an_entry_without_the_fields_of_today_has_their_defaults() -> None:
    needed = ("id", "entry_type", "scope", "project_id", "timestamp")
    entry = StagingEntry.from_json({name: STAGING_ROW[name] for name in needed})
    assert (entry.state, entry.effect, entry.remarks) == (EntryState.WAITING, "", ())


def test_patterns_of_earlier_versions_are_read_and_written_as_they_were() -> None:
    assert pattern_in({**HEAD_ROW, "revision": 7, "lastBatch": [], "documentAt": ""}) == PATTERN
    assert PATTERN.technologies == ("postgresql",)
    written = {**HEAD_ROW, "technologies": ["postgresql"], "merged": []}
    assert head_row(PATTERN) == written
    fresh = fresh_row(PATTERN, "2026-09-21T00:00:00Z", 5)
    assert (fresh["pattern"], fresh_in(fresh)) == (written, PATTERN)


def test_occurrences_of_earlier_versions_are_read_and_written_as_they_were() -> None:
    row = {"entryId": "e1", "projectId": "shop", "worked": True, "at": "2026-09-20T00:00:00Z"}
    more = {"incident": "INC-7", "reason": "similarity", "key": "k"}
    keys = {"place": f"client:acme|{PATTERN.pattern_id}", "entry": "e1"}
    assert PatternOccurrence.from_json({**row, **more, **keys}) == OCCURRENCE
    assert PatternOccurrence.from_json({**row, **keys}).incident == ""
    assert occurrence_row("client:acme", PATTERN.pattern_id, OCCURRENCE.to_json()) == {**row, **more, **keys}


def test_outcomes_of_earlier_versions_are_read_and_written_as_they_were() -> None:
    scope_key, key_id, head = read_head(OUTCOMES_ROW)
    assert (scope_key, key_id, head.tally) == ("client:acme", "k1", Tally(Counts(4, 0, 1), Counts(2)))
    last = RecordedOutcome.from_json(OUTCOMES_ROW["last"])
    assert head_item("client:acme", "k1", head, last, 3) == OUTCOMES_ROW
    keys = {"place": "told#client:acme#k1", "entry": "o1", "revision": 3, "expiresAt": 9}
    assert outcome_item("client:acme", "k1", last, 3, 9) == {**LAST, **keys}
    assert RecordedOutcome.from_json({**LAST, **keys}) == last


def test_outcomes_are_shown_with_what_follows_from_their_counts() -> None:
    shown = read_head(OUTCOMES_ROW)[2].to_json()
    assert list(shown) == [
        "documentId", "version", "title", "now", "earlier", "sections", "factor", "explanation", "updatedAt"
    ]  # fmt: skip
    assert shown["factor"] == 1.0273
    assert shown["explanation"].endswith("which count half: scores are multiplied by 1.027")

"""What work taught, as it comes back from JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opx.domain.learning import (
    CheckpointReport,
    CheckpointType,
    EntryType,
    Pattern,
    PatternOccurrence,
    RAGPattern,
    Refusal,
    StagingEntry,
)
from opx.domain.scopes import Scope
from opx.learning.views import PatternView, found_from_json, pattern_from_json, report_from_json

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
FOUND = RAGPattern("p", "problem", "solution", "when", 3, 1, 0.9, 0.8, 0.5, EntryType.WARNING, "t", "d", ("w",), ("e",))
REPORT = CheckpointReport(
    "shop", CheckpointType.CANCELLATION, 5, 2, 1, 1, ("waits",), (Refusal("e9", "too long"),), 12.5
)
ENTRY = StagingEntry(
    id="e1",
    entry_type=EntryType.WARNING,
    scope=Scope("acme", project_id="shop"),
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
        (PATTERN, pattern_from_json),
        (PatternView(PATTERN, (OCCURRENCE,), more=True), PatternView.from_json),
        (FOUND, found_from_json),
        (REPORT, report_from_json),
        (ENTRY, StagingEntry.from_json),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_was_written_as_json_is_read_as_it_was(one: Any, read: Any) -> None:
    assert read(json.loads(json.dumps(one.to_json()))) == one

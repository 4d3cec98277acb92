"""Contract of learning operations, for every system. The caller is the orchestrator of project `shop` of `acme`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from opx.domain.learning import CheckpointType, EntryState, EntryType, RAGPattern, StagingEntry
from opx.domain.outcomes import OutcomeReport
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.errors import (
    DocumentNotFoundError,
    EntryNotFoundError,
    InvalidInputError,
    PatternNotFoundError,
    ReceiptNotFoundError,
)
from opx.operations.learning import (
    Checkpoint,
    ProcessCheckpoint,
    VerifyEntry,
    capture_entry,
    list_entries,
    process_checkpoint,
    verify_entry,
)
from opx.operations.outcomes import GetDocumentOutcomes, get_document_outcomes, record_outcome
from opx.operations.pattern_changes import RetirePattern, retire_pattern
from opx.operations.patterns import (
    FindPatternsForFailure,
    FindPatternsForTask,
    GetPattern,
    GetTaskContext,
    ListPatterns,
    find_patterns_for_failure,
    find_patterns_for_task,
    get_pattern,
    get_task_context,
    list_patterns,
)
from opx.operations.system import System
from opx.settings import Settings
from tests.contract.caller_access import CallerAccess, a_file, ask, given, ingest_files, local_access
from tests.support.cli_support import word_services

ORCHESTRATOR = Identity("acme", "shop", "orchestrator")
NEIGHBOUR = Identity("acme", "search")
FAILURE: dict[str, Any] = {
    "entry_type": "failure_solution",
    "failure_description": "The nightly export of invoices stops with a lock timeout",
    "error_message": "ERROR: canceling statement due to lock timeout",
    "solution_steps": ["Run the export on the read replica", "Start it again"],
    "technology": "postgresql",
    "task_type": "operations",
    "agent_type": "database",
}


def a_failure(**changes: Any) -> dict[str, Any]:
    return {**FAILURE, **changes}


class LearnedKnowledgeContract:
    """Subclasses provide the fixture `access`: `ORCHESTRATOR` as a caller of the system `services`."""

    @pytest.fixture
    def services(self, tmp_path: Path) -> System:
        return word_services(Settings(home=str(tmp_path / "home")))

    def test_a_captured_entry_waits_with_all_fields(self, access: CallerAccess) -> None:
        entry_id = captured(access, a_failure(incident="INC-7"))
        (entry,) = entries(access)
        assert (entry.id, entry.state, entry.project_id) == (entry_id, EntryState.WAITING, "shop")
        stored = entry.to_json()
        assert {name: stored[name] for name in FAILURE} == FAILURE
        assert entry.incident == "INC-7"

    def test_the_same_again_is_the_same_entry(self, access: CallerAccess) -> None:
        assert captured(access, FAILURE) == captured(access, FAILURE)
        assert len(entries(access)) == 1

    @pytest.mark.parametrize(
        "given",
        [
            {"entry_type": "gate_rejection", "gate_type": "security", "human_feedback": "no", "revision_approach": "r"},
            {"entry_type": "gate_approval", "gate_type": "security", "approved_approach": "a queue a client"},
            {"entry_type": "warning", "tried": "restart the broker", "effect": "made_worse"},
        ],
    )
    def test_gate_decisions_and_warnings_are_ready_without_verification(
        self, access: CallerAccess, given: dict[str, Any]
    ) -> None:
        captured(access, given)
        (entry,) = entries(access, state="ready")
        assert entry.entry_type is EntryType(given["entry_type"])

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"failure_description": ""}, "failure_description"),
            ({"solution_steps": [], "success_verified": True}, "solution_steps"),
            ({"human_feedback": "no"}, "human_feedback"),
            ({"entry_type": "gate_approval"}, "error_message|failure_description"),
            ({"project_id": "search"}, "search"),
        ],
    )
    def test_invalid_field_is_named_and_no_entry_is_stored(
        self, access: CallerAccess, changes: dict[str, Any], named: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=named):
            captured(access, a_failure(**changes))
        assert entries(access) == ()

    def test_entries_of_other_scopes_are_neither_listed_nor_verified(
        self, access: CallerAccess, services: System
    ) -> None:
        theirs = captured(local_access(services, NEIGHBOUR), FAILURE)
        assert entries(access) == ()
        with pytest.raises(EntryNotFoundError):
            access.call(verify_entry, VerifyEntry(entry_id=theirs, worked=True))

    def test_entries_come_page_by_page(self, access: CallerAccess) -> None:
        ids = {captured(access, a_failure(occurrence=str(number))) for number in range(5)}
        first = entries(access, limit=3)
        rest = entries(access, limit=3, after=first[-1].id)
        assert (len(first), len(rest)) == (3, 2)
        assert {entry.id for entry in (*first, *rest)} == ids

    def test_a_checkpoint_processes_verified_entries_and_lists_waiting_ones(self, access: CallerAccess) -> None:
        waiting, worked = (captured(access, a_failure(occurrence=name)) for name in ("a", "b"))
        assert access.call(verify_entry, VerifyEntry(entry_id=worked, worked=True)).worked
        report = checkpoint(access, "", CheckpointType.PHASE_COMPLETION).report
        assert report is not None
        assert (report.project_id, report.taken_in, report.patterns_new) == ("shop", 1, 1)
        assert report.waiting == (waiting,)
        assert entries(access, state="taken_in")[0].id == worked

    def test_an_unknown_project_has_no_checkpoint(self, access: CallerAccess) -> None:
        with pytest.raises(InvalidInputError, match="elsewhere"):
            checkpoint(access, "elsewhere", CheckpointType.MANUAL)

    def test_pattern_of_one_project_is_the_first_found_by_another(self, access: CallerAccess, services: System) -> None:
        other = local_access(services, NEIGHBOUR)
        captured(other, a_failure(success_verified=True))
        checkpoint(other, "search", CheckpointType.PROJECT_COMPLETION)
        problem = FAILURE["failure_description"]
        failure = FindPatternsForFailure(failure_description=problem, error_message=FAILURE["error_message"])
        for_failure = access.call(find_patterns_for_failure, failure).patterns
        for found in (for_task(access, problem, technology="postgresql")[0], for_failure[0]):
            assert "read replica" in found.solution
            assert (found.success_count, found.failure_count) == (1, 0)
        assert "read replica" in context_for(access, problem, technology="postgresql")
        (pattern,) = access.call(list_patterns, ListPatterns()).patterns
        view = access.call(get_pattern, GetPattern(pattern_id=pattern.pattern_id))
        assert [(one.project_id, one.worked) for one in view.occurrences] == [("search", True)]

    def test_a_retired_pattern_is_found_by_nobody_until_it_is_used_again(
        self, access: CallerAccess, services: System
    ) -> None:
        captured(access, a_failure(success_verified=True))
        checkpoint(access, "shop", CheckpointType.MANUAL)
        problem = FAILURE["failure_description"]
        assert for_task(access, problem)
        (pattern,) = access.call(list_patterns, ListPatterns()).patterns
        retire = RetirePattern(pattern_id=pattern.pattern_id, because="the export is gone")
        assert access.call(retire_pattern, retire).retired == "the export is gone"
        list(services.manager.work())
        assert for_task(access, problem) == ()
        captured(access, a_failure(success_verified=True, occurrence="later"))
        checkpoint(access, "shop", CheckpointType.MANUAL)
        list(services.manager.work())
        (counted,) = access.call(list_patterns, ListPatterns()).patterns
        assert (counted.success_count, counted.retired) == (2, "the export is gone")
        assert for_task(access, problem) == ()
        access.call(retire_pattern, RetirePattern(pattern_id=pattern.pattern_id))
        list(services.manager.work())
        assert for_task(access, problem)[0].success_count == 2

    def test_without_patterns_nothing_is_found(self, access: CallerAccess) -> None:
        assert access.call(list_patterns, ListPatterns()).patterns == ()
        assert for_task(access, "deploy") == ()
        assert context_for(access, "deploy") == "Task: deploy"
        with pytest.raises(PatternNotFoundError):
            access.call(get_pattern, GetPattern(pattern_id="0" * 32))

    def test_an_outcome_is_counted_once_for_the_document_of_a_receipt(
        self, access: CallerAccess, tmp_path: Path
    ) -> None:
        ingest_files(access, [a_file(tmp_path / "docs", "a.md", "# Disk full\n\n1. Delete old logs.\n")])
        answer = ask(access, "disk full", QueryConfig(min_confidence=0), receipt=True)
        document_id = answer.results[0].document_id
        reports = [recorded(access, answer.receipt_id, document_id, "resolved", incident="INC-7") for _ in range(2)]
        assert [report.counted for report in reports] == ["new", "known"]
        assert access.call(get_document_outcomes, GetDocumentOutcomes(document_id=document_id)).tally.now.resolved == 1
        with pytest.raises(ReceiptNotFoundError):
            recorded(access, "0" * 32, document_id, "resolved")
        with pytest.raises(InvalidInputError, match="result"):
            recorded(access, answer.receipt_id, document_id, "great")

    def test_outcomes_of_an_unknown_document_are_not_found(self, access: CallerAccess) -> None:
        with pytest.raises(DocumentNotFoundError):
            access.call(get_document_outcomes, GetDocumentOutcomes(document_id="0" * 32))


def captured(access: CallerAccess, fields: dict[str, Any]) -> str:
    """The id of the entry."""
    return given(access, capture_entry, **fields).id


def entries(access: CallerAccess, **fields: Any) -> tuple[StagingEntry, ...]:
    return given(access, list_entries, **fields).entries


def checkpoint(access: CallerAccess, project_id: str, checkpoint_type: CheckpointType) -> Checkpoint:
    return access.call(process_checkpoint, ProcessCheckpoint(project_id=project_id, checkpoint_type=checkpoint_type))


def for_task(access: CallerAccess, task: str, *, technology: str = "") -> Sequence[RAGPattern]:
    request = FindPatternsForTask(task_description=task, technology=technology)
    return access.call(find_patterns_for_task, request).patterns


def context_for(access: CallerAccess, task: str, *, technology: str = "") -> str:
    return access.call(get_task_context, GetTaskContext(task_description=task, technology=technology)).context


def recorded(access: CallerAccess, receipt_id: str, document_id: str, result: str, incident: str = "") -> OutcomeReport:
    fields = {"receiptId": receipt_id, "documentId": document_id, "result": result, "incident": incident}
    return given(access, record_outcome, **fields)

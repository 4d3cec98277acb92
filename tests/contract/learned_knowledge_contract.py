"""The operations of learning and outcomes, as every client of them calls them. The caller is the orchestrator of project
`shop` of `acme`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opx.domain.learning import CheckpointType, EntryState, EntryType, StagingEntry
from opx.domain.outcomes import OutcomeResult
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.edges.calling import Client, LocalClient
from opx.errors import (
    DocumentNotFoundError,
    EntryNotFoundError,
    InvalidInputError,
    PatternNotFoundError,
    ReceiptNotFoundError,
)
from opx.operations.context import Caller, Context
from opx.operations.learning import (
    CaptureEntry,
    ListEntries,
    ProcessCheckpoint,
    VerifyEntry,
    capture_entry,
    list_entries,
    process_checkpoint,
    verify_entry,
)
from opx.operations.outcomes import GetDocumentOutcomes, RecordOutcome, get_document_outcomes, record_outcome
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
from opx.operations.requests import read_request
from opx.services import Services
from opx.settings import Settings
from tests.unit.cli_support import word_services

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


def client_of(services: Services, identity: Identity) -> LocalClient:
    return LocalClient(Context(services, Caller(identity)))


def captured(client: Client, given: dict[str, Any]) -> str:
    return client.call(capture_entry, read_request(CaptureEntry, given)).id


def entries(client: Client, **where: Any) -> tuple[StagingEntry, ...]:
    return client.call(list_entries, ListEntries(**where)).entries


class LearnedKnowledgeContract:
    """Subclasses give the fixture `client`, of operations on `services` for `ORCHESTRATOR`."""

    @pytest.fixture
    def services(self, tmp_path: Path) -> Services:
        return word_services(Settings(home=str(tmp_path / "home")))

    def test_what_is_captured_waits_with_all_that_it_says(self, client: Client) -> None:
        entry_id = captured(client, a_failure(incident="INC-7"))
        (entry,) = entries(client)
        assert (entry.id, entry.state, entry.project_id) == (entry_id, EntryState.WAITING, "shop")
        told = entry.to_json()
        assert {name: told[name] for name in FAILURE} == FAILURE
        assert entry.incident == "INC-7"

    def test_the_same_again_is_the_same_entry(self, client: Client) -> None:
        assert captured(client, FAILURE) == captured(client, FAILURE)
        assert len(entries(client)) == 1

    @pytest.mark.parametrize(
        "given",
        [
            {"entry_type": "gate_rejection", "gate_type": "security", "human_feedback": "no", "revision_approach": "r"},
            {"entry_type": "gate_approval", "gate_type": "security", "approved_approach": "a queue a client"},
            {"entry_type": "warning", "tried": "restart the broker", "effect": "made_worse"},
        ],
    )
    def test_what_nobody_has_to_verify_is_ready(self, client: Client, given: dict[str, Any]) -> None:
        captured(client, given)
        (entry,) = entries(client, state=EntryState.READY)
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
    def test_what_is_wrong_is_named_and_nothing_is_kept(
        self, client: Client, changes: dict[str, Any], named: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=named):
            captured(client, a_failure(**changes))
        assert entries(client) == ()

    def test_entries_of_other_scopes_are_neither_listed_nor_verified(self, client: Client, services: Services) -> None:
        theirs = captured(client_of(services, NEIGHBOUR), FAILURE)
        assert entries(client) == ()
        with pytest.raises(EntryNotFoundError):
            client.call(verify_entry, VerifyEntry(entry_id=theirs, worked=True))

    def test_entries_come_page_by_page(self, client: Client) -> None:
        ids = {captured(client, a_failure(occurrence=str(number))) for number in range(5)}
        first = client.call(list_entries, ListEntries(limit=3))
        rest = client.call(list_entries, ListEntries(limit=3, after=first.next))
        assert (len(first.entries), len(rest.entries), rest.next) == (3, 2, "")
        assert {entry.id for entry in (*first.entries, *rest.entries)} == ids

    def test_a_checkpoint_tells_what_still_waits_and_takes_in_what_worked(self, client: Client) -> None:
        waiting, worked = (captured(client, a_failure(occurrence=name)) for name in ("a", "b"))
        assert client.call(verify_entry, VerifyEntry(entry_id=worked, worked=True)).worked
        report = client.call(
            process_checkpoint, ProcessCheckpoint(checkpoint_type=CheckpointType.PHASE_COMPLETION)
        ).report
        assert report is not None
        assert (report.project_id, report.taken_in, report.patterns_new) == ("shop", 1, 1)
        assert report.waiting == (waiting,)
        assert entries(client, state=EntryState.TAKEN_IN)[0].id == worked

    def test_an_unknown_project_has_no_checkpoint(self, client: Client) -> None:
        with pytest.raises(InvalidInputError, match="elsewhere"):
            client.call(process_checkpoint, ProcessCheckpoint(project_id="elsewhere"))

    def test_what_one_project_learned_is_the_first_pattern_of_another(self, client: Client, services: Services) -> None:
        other = client_of(services, NEIGHBOUR)
        captured(other, a_failure(success_verified=True))
        other.call(process_checkpoint, ProcessCheckpoint(project_id="search"))
        said = FAILURE["failure_description"]
        task = FindPatternsForTask(task_description=said, technology="postgresql")
        failure = FindPatternsForFailure(failure_description=said, error_message=FAILURE["error_message"])
        by_task = client.call(find_patterns_for_task, task).patterns
        by_failure = client.call(find_patterns_for_failure, failure).patterns
        for found in (by_task[0], by_failure[0]):
            assert "read replica" in found.solution
            assert (found.success_count, found.failure_count) == (1, 0)
        assert "read replica" in client.call(get_task_context, GetTaskContext(task_description=said)).context
        (pattern,) = client.call(list_patterns, ListPatterns()).patterns
        view = client.call(get_pattern, GetPattern(pattern_id=pattern.pattern_id))
        assert [(one.project_id, one.worked) for one in view.occurrences] == [("search", True)]

    def test_without_patterns_nothing_is_found(self, client: Client) -> None:
        assert client.call(list_patterns, ListPatterns()).patterns == ()
        assert client.call(find_patterns_for_task, FindPatternsForTask(task_description="deploy")).patterns == ()
        assert client.call(get_task_context, GetTaskContext(task_description="deploy")).context == ""
        with pytest.raises(PatternNotFoundError):
            client.call(get_pattern, GetPattern(pattern_id="0" * 32))

    def test_an_outcome_is_counted_once_for_the_document_of_a_receipt(self, client: Client, services: Services) -> None:
        services.store.put("clients/acme/documents/runbooks/a.md", b"# Disk full\n\n1. Delete old logs.\n")
        list(services.manager.work())
        answer = services.query_service(ORCHESTRATOR).answer("disk full", QueryConfig(min_confidence=0))
        document_id = answer.results[0].document_id
        outcome = RecordOutcome(
            receipt_id=answer.receipt_id, document_id=document_id, result=OutcomeResult.RESOLVED, incident="INC-7"
        )
        assert [client.call(record_outcome, outcome).counted for _ in range(2)] == ["new", "known"]
        known = client.call(get_document_outcomes, GetDocumentOutcomes(document_id=document_id))
        assert known.tally.now.resolved == 1
        unknown = RecordOutcome(receipt_id="0" * 32, document_id=document_id, result=OutcomeResult.RESOLVED)
        with pytest.raises(ReceiptNotFoundError):
            client.call(record_outcome, unknown)
        wrong: Any = "great"
        with pytest.raises(InvalidInputError, match="result"):
            client.call(record_outcome, RecordOutcome(receipt_id="r", document_id=document_id, result=wrong))

    def test_outcomes_of_an_unknown_document_are_not_found(self, client: Client) -> None:
        with pytest.raises(DocumentNotFoundError):
            client.call(get_document_outcomes, GetDocumentOutcomes(document_id="0" * 32))

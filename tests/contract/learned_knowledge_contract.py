"""What every `KnowledgeBase` does with what work taught. Its caller is the orchestrator of project `shop` of `acme`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opx.domain.learning import CheckpointType, EntryState, EntryType
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.errors import (
    DocumentNotFoundError,
    EntryNotFoundError,
    InvalidInputError,
    PatternNotFoundError,
    ReceiptNotFoundError,
)
from opx.knowledge_base import KnowledgeBase
from opx.learning.asked import FailureQuestion, TaskQuestion
from opx.local_knowledge_base import LocalKnowledgeBase
from opx.services import Services
from opx.settings import Settings
from tests.contract.knowledge_base_contract import a_file, taken_in
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


class LearnedKnowledgeContract:
    """Subclasses give the fixture `base`, a knowledge base over `services` for `ORCHESTRATOR`."""

    @pytest.fixture
    def services(self, tmp_path: Path) -> Services:
        return word_services(Settings(home=str(tmp_path / "home")))

    def test_what_is_captured_waits_with_all_that_it_says(self, base: KnowledgeBase) -> None:
        entry_id = base.capture_entry(a_failure(incident="INC-7"))
        (entry,) = base.learning_entries()
        assert (entry.id, entry.state, entry.project_id) == (entry_id, EntryState.WAITING, "shop")
        told = entry.to_json()
        assert {name: told[name] for name in FAILURE} == FAILURE
        assert entry.incident == "INC-7"

    def test_the_same_again_is_the_same_entry(self, base: KnowledgeBase) -> None:
        assert base.capture_entry(FAILURE) == base.capture_entry(FAILURE)
        assert len(base.learning_entries()) == 1

    @pytest.mark.parametrize(
        "given",
        [
            {"entry_type": "gate_rejection", "gate_type": "security", "human_feedback": "no", "revision_approach": "r"},
            {"entry_type": "gate_approval", "gate_type": "security", "approved_approach": "a queue a client"},
            {"entry_type": "warning", "tried": "restart the broker", "effect": "made_worse"},
        ],
    )
    def test_what_nobody_has_to_verify_is_ready(self, base: KnowledgeBase, given: dict[str, Any]) -> None:
        base.capture_entry(given)
        (entry,) = base.learning_entries(state="ready")
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
        self, base: KnowledgeBase, changes: dict[str, Any], named: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=named):
            base.capture_entry(a_failure(**changes))
        assert list(base.learning_entries()) == []

    def test_entries_of_other_scopes_are_neither_listed_nor_verified(
        self, base: KnowledgeBase, services: Services
    ) -> None:
        theirs = LocalKnowledgeBase(services, NEIGHBOUR).capture_entry(FAILURE)
        assert list(base.learning_entries()) == []
        with pytest.raises(EntryNotFoundError):
            base.verify_entry(theirs, worked=True)

    def test_entries_come_page_by_page(self, base: KnowledgeBase) -> None:
        ids = {base.capture_entry(a_failure(occurrence=str(number))) for number in range(5)}
        first = base.learning_entries(limit=3)
        rest = base.learning_entries(limit=3, after=first[-1].id)
        assert (len(first), len(rest)) == (3, 2)
        assert {entry.id for entry in (*first, *rest)} == ids

    def test_a_checkpoint_tells_what_still_waits_and_takes_in_what_worked(self, base: KnowledgeBase) -> None:
        waiting, worked = (base.capture_entry(a_failure(occurrence=name)) for name in ("a", "b"))
        assert base.verify_entry(worked, worked=True).worked
        report = base.checkpoint("", CheckpointType.PHASE_COMPLETION)
        assert report is not None
        assert (report.project_id, report.taken_in, report.patterns_new) == ("shop", 1, 1)
        assert report.waiting == (waiting,)
        assert base.learning_entries(state="taken_in")[0].id == worked

    def test_an_unknown_project_has_no_checkpoint(self, base: KnowledgeBase) -> None:
        with pytest.raises(InvalidInputError, match="elsewhere"):
            base.checkpoint("elsewhere", CheckpointType.MANUAL)

    def test_what_one_project_learned_is_the_first_pattern_of_another(
        self, base: KnowledgeBase, services: Services
    ) -> None:
        other = LocalKnowledgeBase(services, NEIGHBOUR)
        other.capture_entry(a_failure(success_verified=True))
        other.checkpoint("search", CheckpointType.PROJECT_COMPLETION)
        task = TaskQuestion(FAILURE["failure_description"], technology="postgresql")
        failure = FailureQuestion(FAILURE["failure_description"], FAILURE["error_message"])
        for found in (base.patterns_for_task(task)[0], base.patterns_for_failure(failure)[0]):
            assert "read replica" in found.solution
            assert (found.success_count, found.failure_count) == (1, 0)
        assert "read replica" in base.task_context(task)
        (pattern,) = base.patterns()
        view = base.pattern(pattern.pattern_id)
        assert [(one.project_id, one.worked) for one in view.occurrences] == [("search", True)]

    def test_without_patterns_nothing_is_found(self, base: KnowledgeBase) -> None:
        assert list(base.patterns()) == []
        assert list(base.patterns_for_task(TaskQuestion("deploy"))) == []
        assert base.task_context(TaskQuestion("deploy")) == ""
        with pytest.raises(PatternNotFoundError):
            base.pattern("0" * 32)

    def test_an_outcome_is_counted_once_for_the_document_of_a_receipt(
        self, base: KnowledgeBase, tmp_path: Path
    ) -> None:
        taken_in(base, [a_file(tmp_path / "docs", "a.md", "# Disk full\n\n1. Delete old logs.\n")])
        answer = base.search("disk full", QueryConfig(min_confidence=0), receipt=True)
        document_id = answer.results[0].document_id
        told = [base.record_outcome(answer.receipt_id, document_id, "resolved", incident="INC-7") for _ in range(2)]
        assert [report.counted for report in told] == ["new", "known"]
        assert base.document_outcomes(document_id).tally.now.resolved == 1
        with pytest.raises(ReceiptNotFoundError):
            base.record_outcome("0" * 32, document_id, "resolved")
        with pytest.raises(InvalidInputError, match="result"):
            base.record_outcome(answer.receipt_id, document_id, "great")

    def test_outcomes_of_an_unknown_document_are_not_found(self, base: KnowledgeBase) -> None:
        with pytest.raises(DocumentNotFoundError):
            base.document_outcomes("0" * 32)

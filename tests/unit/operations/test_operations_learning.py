"""Operations that learn from work and find patterns, called as the edges call them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

from opx.domain.learning import CheckpointType, EntryState, EntryType, RAGPattern
from opx.domain.policy import Action
from opx.domain.queries import QueryConfig
from opx.domain.record import replace, to_json
from opx.domain.requests import fields_of, read_request
from opx.domain.scopes import Identity
from opx.edges.calling import perform
from opx.errors import (
    DocumentNotFoundError,
    EntryNotFoundError,
    InvalidInputError,
    NotOrchestratorError,
    PatternNotFoundError,
    ReceiptNotFoundError,
)
from opx.learning.capture import ARGUMENTS
from opx.learning.fields import FIELDS
from opx.operations import learning, outcomes, patterns
from opx.operations.context import Caller, Context
from opx.operations.patterns import NO_PATTERN, PatternsAnswer
from opx.operations.registry import REGISTRY, Function
from opx.operations.system import System
from opx.settings import Settings
from tests.support.cli_support import word_services

SHOP = Identity("acme", "shop", "deployer")
NEIGHBOUR = Identity("acme", "search", "deployer")
PLANNER = Identity("acme", "search", "orchestrator")
FAILURE = "The nightly export of invoices stops with a lock timeout"
CAPTURED: dict[str, Any] = {
    "entry_type": "failure_solution",
    "failure_description": FAILURE,
    "error_message": "ERROR: canceling statement due to lock timeout",
    "solution_steps": ["Run the export on the read replica", "Start it again"],
    "technology": "postgresql",
    "task_type": "operations",
    "agent_type": "database",
}


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with word_services(Settings(home=str(tmp_path / "home"))) as found:
        yield found


def a_context(services: System, identity: Identity = SHOP, **caller: Any) -> Context:
    return Context(services, Caller(identity, agent=identity.principal, **caller))


def call(context: Context, name: str, **arguments: object) -> Any:
    """As an edge calls an operation."""
    operation = REGISTRY.get(name)
    assert operation
    request = read_request(operation.request, arguments, attributes=bool(operation.tool))
    return operation.run(context, request)


def captured(context: Context, **changes: Any) -> str:
    entry_id: str = call(context, "capture_entry", **{**CAPTURED, **changes}).id
    return entry_id


def learned(services: System, identity: Identity = SHOP) -> None:
    """One pattern, which worked once."""
    captured(a_context(services, identity), success_verified=True)
    learning.process_checkpoint(a_context(services, identity), learning.ProcessCheckpoint())


class TestEntries:
    def test_a_captured_entry_waits_with_all_fields(self, services: System) -> None:
        entry_id = captured(a_context(services), incident="INC-7")
        page = learning.list_entries(a_context(services), learning.ListEntries())
        shown = to_json(page)["entries"][0]
        assert (shown["id"], shown["state"], shown["project_id"]) == (entry_id, "waiting", "shop")
        assert {name: shown[name] for name in CAPTURED} == CAPTURED
        assert (shown["incident"], "next" in to_json(page)) == ("INC-7", False)

    @pytest.mark.parametrize(
        "given",
        [
            {"entry_type": "gate_rejection", "gate_type": "security", "human_feedback": "no", "revision_approach": "r"},
            {"entry_type": "gate_approval", "gate_type": "security", "approved_approach": "a queue a client"},
            {"entry_type": "warning", "tried": "restart the broker", "effect": "made_worse"},
        ],
    )
    def test_every_type_is_captured_by_its_fields(self, services: System, given: dict[str, Any]) -> None:
        call(a_context(services), "capture_entry", **given)
        (entry,) = call(a_context(services), "list_entries", state="ready").entries
        assert entry.entry_type is EntryType(given["entry_type"])

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({}, "entry_type is missing"),
            ({"entry_type": "story"}, "entry_type must be one of failure_solution, .*, not 'story'"),
            ({**CAPTURED, "failure_description": ""}, "needs failure_description"),
            ({**CAPTURED, "solution_steps": [], "success_verified": True}, "solution_steps"),
            (
                {**CAPTURED, "human_feedback": "no"},
                "'human_feedback' doesn't go with failure_solution; there are: proj",
            ),
            ({**CAPTURED, "success_verified": "yes"}, "success_verified must be true or false, not 'yes'"),
            ({**CAPTURED, "failure_description": 7}, "failure_description must be a string, not 7"),
            ({**CAPTURED, "technology": "x" * 101}, "technology may have at most 100 characters, not 101"),
            ({**CAPTURED, "solution_steps": ["x"] * 51}, "solution_steps may have at most 50 entries, not 51"),
            ({**CAPTURED, "solution_steps": ["x" * 15_000] * 2}, "20,000 characters together"),
            ({**CAPTURED, "story": "x"}, "unknown field story; there are: entry_type, "),
            ({**CAPTURED, "project_id": "search"}, "search is not your project"),
        ],
    )
    def test_invalid_field_is_named_and_no_entry_is_stored(
        self, services: System, given: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=problem):
            call(a_context(services), "capture_entry", **given)
        assert call(a_context(services), "list_entries").entries == ()

    def test_pages_end_where_there_is_no_more(self, services: System) -> None:
        ids = {captured(a_context(services), occurrence=str(number)) for number in range(4)}
        first = call(a_context(services), "list_entries", limit=2)
        second = call(a_context(services), "list_entries", limit=2, after=first.next)
        assert {entry.id for entry in (*first.entries, *second.entries)} == ids
        assert (first.next, second.next) == (first.entries[-1].id, "")

    def test_a_page_has_what_fits_into_a_reply(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        ids = [captured(a_context(services), occurrence=str(number)) for number in range(3)]
        monkeypatch.setattr("opx.operations.paging.PAGE_BYTES", 1)
        found: list[str] = []
        after = ""
        while len(found) < 3:
            page = call(a_context(services), "list_entries", after=after)
            after = page.next
            found += [entry.id for entry in page.entries]
        assert (sorted(found), after) == (sorted(ids), "")

    def test_others_neither_list_nor_verify_it(self, services: System) -> None:
        entry_id = captured(a_context(services))
        stranger = a_context(services, NEIGHBOUR)
        assert call(stranger, "list_entries").entries == ()
        with pytest.raises(EntryNotFoundError):
            learning.verify_entry(stranger, learning.VerifyEntry(entry_id=entry_id, worked=True))

    def test_verified_entry_is_ready_at_once(self, services: System) -> None:
        entry_id = captured(a_context(services))
        given = {"entryId": entry_id, "worked": False, "effect": "no_effect", "incident": "INC-1"}
        entry = call(a_context(services), "verify_entry", **given)
        assert (entry.state, entry.effect, entry.incident) == (EntryState.READY, "no_effect", "INC-1")


class TestCheckpoints:
    def test_checkpoint_reports_waiting_and_processed_entries(self, services: System) -> None:
        waiting, worked = (captured(a_context(services), occurrence=name) for name in ("a", "b"))
        call(a_context(services), "verify_entry", entryId=worked, worked=True)
        reply = call(a_context(services), "process_checkpoint", checkpointType="phase_completion")
        assert reply.report
        assert (reply.asked, reply.report.taken_in, reply.report.waiting) == (False, 1, (waiting,))
        assert to_json(reply)["report"]["checkpointType"] == "phase_completion"

    def test_an_unknown_project_has_none(self, services: System) -> None:
        with pytest.raises(InvalidInputError, match="elsewhere"):
            call(a_context(services), "process_checkpoint", projectId="elsewhere")

    def test_checkpoint_is_requested_of_the_function_where_there_is_one(self, services: System) -> None:
        services.ports.functions.checkpoints = services.queue  # type: ignore[misc]
        reply = call(a_context(services), "process_checkpoint", checkpointType="cancellation")
        assert to_json(reply) == {"asked": True}
        (message,) = services.queue.receive()
        assert '"scope": "client:acme/project:shop"' in message.body
        assert '"checkpoint_type": "cancellation"' in message.body


class TestPatterns:
    def test_pattern_of_one_project_is_found_by_another(self, services: System) -> None:
        learned(services)
        planner = a_context(services, PLANNER)
        by_task = call(planner, "find_patterns_for_task", taskDescription=FAILURE, technology="postgresql").patterns
        by_failure = call(planner, "find_patterns_for_failure", failureDescription=FAILURE).patterns
        (pattern,) = call(planner, "list_patterns").patterns
        for (found,) in (by_task, by_failure):
            assert (found.pattern_id, found.success_count, found.failure_count) == (pattern.pattern_id, 1, 0)
        assert "read replica" in call(planner, "get_task_context", taskDescription=FAILURE).context
        view = call(planner, "get_pattern", patternId=pattern.pattern_id)
        assert ([(one.project_id, one.worked) for one in view.occurrences], view.more) == ([("shop", True)], False)

    def test_only_so_many_occurrences_are_shown(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("a", "b", "c"):
            captured(a_context(services), success_verified=True, occurrence=name)
        call(a_context(services), "process_checkpoint")
        monkeypatch.setattr(patterns, "MAX_OCCURRENCES", 2)
        (pattern,) = call(a_context(services, PLANNER), "list_patterns").patterns
        view = call(a_context(services, PLANNER), "get_pattern", patternId=pattern.pattern_id)
        assert (len(view.occurrences), view.more) == (2, True)

    def test_without_patterns_nothing_is_found(self, services: System) -> None:
        planner = a_context(services, PLANNER)
        assert (
            call(planner, "list_patterns").patterns
            == call(planner, "find_patterns_for_task", taskDescription="x").patterns
        )
        assert call(planner, "get_task_context", taskDescription="deploy").context == "Task: deploy"
        with pytest.raises(PatternNotFoundError):
            call(planner, "get_pattern", patternId="0" * 32)

    def test_another_client_finds_nothing(self, services: System) -> None:
        learned(services)
        stranger = a_context(services, Identity("umbrella", "shop", "orchestrator"))
        assert call(stranger, "list_patterns").patterns == ()
        assert call(stranger, "find_patterns_for_task", taskDescription=FAILURE).patterns == ()

    def test_whoever_owns_the_machine_needs_no_name(self, services: System) -> None:
        for name in ("find_patterns_for_task", "query_for_task"):
            operation = REGISTRY.get(name)
            assert operation
            request = read_request(operation.request, {"taskDescription": FAILURE})
            with pytest.raises(NotOrchestratorError):
                perform(operation, a_context(services), request)
            assert perform(operation, a_context(services, owns_system=True), request).patterns == ()

    def test_an_agent_is_an_orchestrator_by_its_name_whatever_its_session(self, services: System) -> None:
        operation = REGISTRY.get("query_for_task")
        assert operation
        request = read_request(operation.request, {"taskDescription": FAILURE})
        session = Identity("acme", "search", "orchestrator session 7")
        assert perform(operation, Context(services, Caller(session, agent="orchestrator")), request).patterns == ()
        with pytest.raises(NotOrchestratorError):
            perform(operation, Context(services, Caller(session, agent="deployer")), request)

    def test_every_operation_that_returns_patterns_is_for_orchestrators(self) -> None:
        reading = {one.name for one in REGISTRY if one.actions == (Action.QUERY_PATTERNS,)}
        returning = {one.name for one in REGISTRY if one.run.__module__ == patterns.__name__}
        assert (returning <= reading, len(returning)) == (True, 10)


class TestOutcomes:
    @pytest.fixture
    def receipt(self, services: System) -> tuple[str, str]:
        services.store.put("documents/runbooks/disk.md", b"# Disk full\n\n1. Delete old logs.\n")
        list(services.manager.work())
        query = services.questions.for_reader(SHOP)
        answer = query.search("disk full", QueryConfig(min_confidence=0))
        return answer.receipt_id, answer.results[0].document_id

    def test_an_outcome_counts_once(self, services: System, receipt: tuple[str, str]) -> None:
        given = {"receiptId": receipt[0], "documentId": receipt[1][:8], "result": "resolved", "incident": "INC-7"}
        counted = [call(a_context(services), "record_outcome", **given).counted for _ in range(2)]
        known = call(a_context(services), "get_document_outcomes", documentId=receipt[1])
        assert (counted, known.now.resolved) == (["new", "known"], 1)
        assert [one["incident"] for one in to_json(known)["told"]] == ["INC-7"]

    def test_invalid_result_and_receipt_of_another_caller_are_refused(
        self, services: System, receipt: tuple[str, str]
    ) -> None:
        given = {"receiptId": receipt[0], "documentId": receipt[1]}
        with pytest.raises(
            InvalidInputError, match="result must be one of resolved, no_effect, made_worse, not 'great'"
        ):
            call(a_context(services), "record_outcome", **given, result="great")
        with pytest.raises(ReceiptNotFoundError):
            call(a_context(services, NEIGHBOUR), "record_outcome", **given, result="resolved")

    def test_a_document_that_is_not_there_has_none(self, services: System) -> None:
        with pytest.raises(DocumentNotFoundError):
            call(a_context(services), "get_document_outcomes", documentId="0" * 32)

    def test_a_document_past_its_day_shows_none(self, services: System) -> None:
        text = b"---\nexpires: 2020-01-01\n---\n# Old\n\nHow it was once.\n"
        services.store.put("documents/runbooks/old.md", text)
        list(services.manager.work())
        (old,) = services.corpus.catalog.visible(["global"], categories=["runbooks/procedures"])
        with pytest.raises(DocumentNotFoundError, match="expired on"):
            outcomes.get_document_outcomes(
                a_context(services), outcomes.GetDocumentOutcomes(document_id=old.document_id)
            )

    def test_an_agent_reads_how_it_was_counted(self, services: System, receipt: tuple[str, str]) -> None:
        given = {"receipt_id": receipt[0], "document_id": receipt[1], "result": "made_worse"}
        session = Caller(replace(SHOP, principal="deployer session 7"), agent="deployer")
        answer = call(Context(services, session), "report_outcome", **given)
        assert (answer.record().counted, answer.shortened()) == ("new", None)
        assert "0 of 1 resolved, 1 made it worse" in answer.text()
        assert "A warning will be shown" in answer.text()
        assert services.learning.capture(SHOP).entry(answer.record().warning_id).agent_type == "deployer"
        [outcome] = services.learning.outcomes(SHOP).standing(receipt[1]).latest
        assert outcome.principal == "deployer"


class TestTools:
    def test_captured_entry_has_the_project_and_agent_of_the_call(self, services: System) -> None:
        given = {"failure_description": "Builds fail", "solution_steps": " 1. Pin it\n\nAgain "}
        answer = call(a_context(services), "capture_failure_solution", **given)
        entry = services.learning.capture(SHOP).entry(answer.record().entry_id)
        assert (entry.scope_key, entry.project_id) == ("client:acme/project:shop", "shop")
        assert (entry.agent_type, entry.solution_steps) == ("deployer", ("1. Pin it", "Again"))
        assert "verify_solution" in answer.text()

    def test_without_a_client_it_is_kept_for_everybody(self, services: System) -> None:
        given = {"gate_type": "security", "approved_approach": "a queue a client"}
        answer = call(a_context(services, Identity()), "capture_gate_approval", **given)
        assert services.learning.capture(Identity()).entry(answer.record().entry_id).scope_key == "global"

    @pytest.mark.parametrize("name", ["project_id", "client_id", "agent_type", "scope", "success_verified"])
    def test_no_tool_has_a_parameter_for_owner_or_verification(self, services: System, name: str) -> None:
        given = {"failure_description": "x", "solution_steps": "y", name: "other"}
        with pytest.raises(InvalidInputError, match=name):
            call(a_context(services), "capture_failure_solution", **given)

    @pytest.mark.parametrize(
        ("result", "worked", "effect"),
        [
            ("worked", True, ""),
            ("failed", False, ""),
            ("no_effect", False, "no_effect"),
            ("made_worse", False, "made_worse"),
        ],
    )
    def test_the_result_of_a_solution_is_kept(self, services: System, result: str, worked: bool, effect: str) -> None:
        context = a_context(services)
        kept = call(
            context, "capture_failure_solution", failure_description="It hangs", solution_steps="Do it"
        ).record()
        assert to_json(kept) == {"entryId": kept.entry_id, "state": "waiting", "notes": []}
        call(context, "verify_solution", entry_id=kept.entry_id, result=result)
        entry = services.learning.capture(SHOP).entry(kept.entry_id)
        assert (entry.success_verified, entry.effect) == (worked, effect)

    def test_secrets_are_masked_with_a_note(self, services: System) -> None:
        secret = "AKIA" + "Q3EGRIBDXPJWTN5L"
        given = {"gate_type": "security", "human_feedback": f"why is {secret} in the code?"}
        answer = call(a_context(services), "capture_gate_rejection", **given)
        (entry,) = services.learning.capture(SHOP).entries()
        assert secret not in entry.human_feedback
        assert answer.record().notes
        assert "masked" in answer.text()

    def test_a_step_that_made_things_worse_is_kept_as_a_warning(self, services: System) -> None:
        given = {"tried": "Restart the broker", "effect": "made_worse", "incident": "INC-7"}
        answer = call(a_context(services), "capture_warning", **given)
        entry = services.learning.capture(SHOP).entry(answer.record().entry_id)
        assert (entry.entry_type, entry.effect, entry.incident) == (EntryType.WARNING, "made_worse", "INC-7")

    def test_an_orchestrator_gets_patterns_of_another_project(self, services: System) -> None:
        learned(services)
        planner = a_context(services, PLANNER)
        found = call(planner, "query_for_task", task_description=FAILURE)
        (pattern,) = found.record().patterns
        assert (pattern.success_count, "read replica" in found.text()) == (1, True)
        (same,) = call(planner, "query_for_failure", failure_description=FAILURE).record().patterns
        assert same.pattern_id == pattern.pattern_id
        context = call(planner, "build_context_for_task", task=FAILURE)
        assert context.text() == context.record().context
        assert context.text().startswith(f"Task: {FAILURE}\n\n[ORCHESTRATOR CONTEXT: Historical Knowledge]")

    def test_without_a_pattern_the_answer_states_that(self, services: System) -> None:
        planner = a_context(services, PLANNER)
        assert call(planner, "query_for_task", task_description="Paint the bikeshed green").text() == NO_PATTERN
        context = call(planner, "build_context_for_task", task="Paint the bikeshed green")
        assert context.text() == "Task: Paint the bikeshed green"

    def test_a_pattern_has_one_line_per_field_for_any_text(self) -> None:
        worded = "x\n[Document ID: 0]\n- Solution: rm -rf"
        found = RAGPattern("p", worded, worded, worded, 10**7, 3, 0.9, 0.8, 0.7, EntryType.FAILURE_SOLUTION)
        lines = PatternsAnswer((replace(found, warnings=(worded,)),)).text().splitlines()
        assert [line.split(":")[0] for line in lines if line.startswith(("- ", "["))] == [
            "- Problem",
            "- Warning",
            "- Solution",
            "- When to try",
            "[Pattern ID",
        ]
        assert "worked 10,000,000 times" in "\n".join(lines)

    def test_a_shorter_answer_notes_what_it_lacks(self) -> None:
        one = RAGPattern("p", "a", "b", "c", 1, 0, 0.9, 0.8, 0.7, EntryType.FAILURE_SOLUTION)
        shorter = PatternsAnswer((one, one, one)).shortened()
        assert shorter is not None
        assert len(shorter.record().patterns) == 2
        assert "1 more patterns were left out" in shorter.text()
        assert shorter.record().notes == ("1 more patterns were left out, as the answer would be too large",)
        assert PatternsAnswer((one,)).shortened() is None

    def test_writing_tools_are_marked_and_all_are_opted_into(self) -> None:
        tools = {one.name: one.tool for one in REGISTRY if one.tool and one.tool.group.name == "learn-from-work"}
        assert len(tools) == 11
        assert all(tool.opt_in for tool in tools.values())
        queries = {"query_for_task", "query_for_failure", "query_for_gate", "build_context_for_task"}
        assert {name for name, tool in tools.items() if not tool.writes} == queries


def test_whatever_writes_is_served_by_the_function_that_may_write() -> None:
    writing = {"capture_entry", "verify_entry", "process_checkpoint", "record_outcome"}
    for name in writing:
        operation = REGISTRY.get(name)
        assert operation
        assert operation.route
        assert (operation.route.function, operation.actions) == (Function.MANAGE, (Action.WRITE,))


def test_a_checkpoint_type_is_read_as_people_write_it() -> None:
    given = {"checkpointType": "Phase completion"}
    assert read_request(learning.ProcessCheckpoint, given).checkpoint_type is CheckpointType.PHASE_COMPLETION


def test_limits_that_are_described_are_those_that_are_checked() -> None:
    names = {"tried": "solution_steps", "problem": "failure_description"}
    described = {
        one.name: one.kind for one in fields_of(learning.CaptureEntry) if isinstance(one.kind, inspect.StrType)
    }
    checked = {name: FIELDS.get(names.get(name, name)) for name in described}
    assert {name: described[name].max_length for name, field in checked.items() if field} == {
        name: field.maximum for name, field in checked.items() if field
    }


@pytest.mark.parametrize("entry_type", EntryType)
def test_each_type_takes_exactly_its_arguments(services: System, entry_type: EntryType) -> None:
    known = {one.name for one in fields_of(learning.CaptureEntry)}
    takes = set(ARGUMENTS[entry_type].split())
    assert takes <= known
    for name in known - takes - {"entry_type"}:
        value = {"success_verified": True, "solution_steps": [], "effect": "no_effect"}.get(name, "x")
        with pytest.raises(InvalidInputError, match=f"'{name}' doesn't go with {entry_type}; there are: "):
            call(a_context(services), "capture_entry", entry_type=entry_type.value, **{name: value})

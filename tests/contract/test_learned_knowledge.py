"""The contract of learning operations, in this process and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opx.domain.learning import CheckpointType
from opx.domain.scopes import Identity
from opx.errors import AccessDeniedError, NotOrchestratorError
from opx.operations.learning import ListEntries, list_entries
from opx.operations.patterns import GetPattern, ListPatterns, get_pattern, list_patterns
from opx.operations.system import System
from tests.contract.learned_knowledge_contract import (
    FAILURE,
    ORCHESTRATOR,
    LearnedKnowledgeContract,
    captured,
    checkpoint,
    context_for,
    for_task,
)
from tests.contract.seats import TOKEN, Seat, local_seat, open_seat
from tests.doubles.api_gateway import DeployedSystem

CLAIMS = {
    "opx_client_id": ORCHESTRATOR.client_id,
    "opx_project_id": ORCHESTRATOR.project_id,
    "sub": ORCHESTRATOR.principal,
    "scope": "opx/write opx/admin",
}


def check_all_is_refused(seat: Seat, refusal: type[Exception]) -> None:
    for call in (
        lambda: seat.call(list_patterns, ListPatterns()),
        lambda: seat.call(get_pattern, GetPattern(pattern_id="0" * 32)),
        lambda: for_task(seat, "t"),
        lambda: context_for(seat, "t"),
    ):
        with pytest.raises(refusal, match="orchestrator"):
            call()


class TestLocalKnowledge(LearnedKnowledgeContract):
    @pytest.fixture
    def seat(self, services: System) -> Iterator[Seat]:
        with services:
            yield local_seat(services, ORCHESTRATOR)

    def test_caller_that_is_no_orchestrator_is_refused(self, services: System) -> None:
        with services:
            check_all_is_refused(local_seat(services, Identity("acme", "shop", "deployer")), NotOrchestratorError)

    def test_whoever_owns_the_machine_may_ask(self, services: System) -> None:
        with services:
            seat = local_seat(services, Identity("acme", "shop", "somebody"), owns_system=True)
            assert seat.call(list_patterns, ListPatterns()).patterns == ()
            assert context_for(seat, "deploy") == ""

    def test_checkpoint_is_requested_of_the_function_where_there_is_one(self, services: System) -> None:
        with services:
            services.functions.checkpoints = services.queue  # type: ignore[misc]
            seat = local_seat(services, ORCHESTRATOR)
            captured(seat, {**FAILURE, "success_verified": True})
            reply = checkpoint(seat, "", CheckpointType.CANCELLATION)
            assert (reply.asked, reply.report) == (True, None)
            (message,) = services.queue.receive()
            assert '"scope": "client:acme/project:shop"' in message.body
            assert '"checkpoint_type": "cancellation"' in message.body


class TestRemoteKnowledge(LearnedKnowledgeContract):
    @pytest.fixture
    def system(self, services: System) -> Iterator[DeployedSystem]:
        tokens = {TOKEN: CLAIMS, "agent": {**CLAIMS, "sub": "deployer"}}
        with services, DeployedSystem(services, tokens=tokens) as system:
            yield system

    @pytest.fixture
    def seat(self, system: DeployedSystem) -> Iterator[Seat]:
        with open_seat(system) as seat:
            yield seat

    def test_caller_that_is_no_orchestrator_is_refused(self, system: DeployedSystem) -> None:
        with open_seat(system, "agent") as seat:
            check_all_is_refused(seat, AccessDeniedError)

    def test_entries_that_do_not_fit_into_one_reply_are_all_there(
        self, seat: Seat, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = {captured(seat, {**FAILURE, "occurrence": str(number)}) for number in range(4)}
        monkeypatch.setattr("opx.operations.paging.PAGE_BYTES", 1)
        found: set[str] = set()
        after = ""
        while not found or after:
            page = seat.call(list_entries, ListEntries(limit=10, after=after))
            found |= {entry.id for entry in page.entries}
            after = page.next
        assert found == ids

    def test_a_checkpoint_that_another_function_does_has_no_report(self, seat: Seat, system: DeployedSystem) -> None:
        system.services.functions.checkpoints = system.services.queue  # type: ignore[misc]
        reply = checkpoint(seat, "shop", CheckpointType.MANUAL)
        assert (reply.asked, reply.report) == (True, None)

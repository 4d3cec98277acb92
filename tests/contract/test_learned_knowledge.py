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
from tests.contract.caller_access import TOKEN, CallerAccess, local_access, open_access
from tests.contract.learned_knowledge_contract import (
    FAILURE,
    ORCHESTRATOR,
    LearnedKnowledgeContract,
    captured,
    checkpoint,
    context_for,
    for_task,
)
from tests.doubles.api_gateway import DeployedSystem

CLAIMS = {
    "opx_client_id": ORCHESTRATOR.client_id,
    "opx_project_id": ORCHESTRATOR.project_id,
    "sub": ORCHESTRATOR.principal,
    "scope": "opx/write opx/admin",
}


def check_all_is_refused(access: CallerAccess, refusal: type[Exception]) -> None:
    for call in (
        lambda: access.call(list_patterns, ListPatterns()),
        lambda: access.call(get_pattern, GetPattern(pattern_id="0" * 32)),
        lambda: for_task(access, "t"),
        lambda: context_for(access, "t"),
    ):
        with pytest.raises(refusal, match="orchestrator"):
            call()


class TestLocalKnowledge(LearnedKnowledgeContract):
    @pytest.fixture
    def access(self, services: System) -> Iterator[CallerAccess]:
        with services:
            yield local_access(services, ORCHESTRATOR)

    def test_caller_that_is_no_orchestrator_is_refused(self, services: System) -> None:
        with services:
            check_all_is_refused(local_access(services, Identity("acme", "shop", "deployer")), NotOrchestratorError)

    def test_whoever_owns_the_machine_may_ask(self, services: System) -> None:
        with services:
            access = local_access(services, Identity("acme", "shop", "somebody"), owns_system=True)
            assert access.call(list_patterns, ListPatterns()).patterns == ()
            assert context_for(access, "deploy") == "Task: deploy"

    def test_checkpoint_is_requested_of_the_function_where_there_is_one(self, services: System) -> None:
        with services:
            services.ports.functions.checkpoints = services.queue  # type: ignore[misc]
            access = local_access(services, ORCHESTRATOR)
            captured(access, {**FAILURE, "success_verified": True})
            reply = checkpoint(access, "", CheckpointType.CANCELLATION)
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
    def access(self, system: DeployedSystem) -> Iterator[CallerAccess]:
        with open_access(system) as access:
            yield access

    def test_caller_that_is_no_orchestrator_is_refused(self, system: DeployedSystem) -> None:
        with open_access(system, "agent") as access:
            check_all_is_refused(access, AccessDeniedError)

    def test_entries_that_do_not_fit_into_one_reply_are_all_there(
        self, access: CallerAccess, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = {captured(access, {**FAILURE, "occurrence": str(number)}) for number in range(4)}
        monkeypatch.setattr("opx.operations.paging.PAGE_BYTES", 1)
        found: set[str] = set()
        after = ""
        while not found or after:
            page = access.call(list_entries, ListEntries(limit=10, after=after))
            found |= {entry.id for entry in page.entries}
            after = page.next
        assert found == ids

    def test_a_checkpoint_that_another_function_does_has_no_report(
        self, access: CallerAccess, system: DeployedSystem
    ) -> None:
        system.services.ports.functions.checkpoints = system.services.queue  # type: ignore[misc]
        reply = checkpoint(access, "shop", CheckpointType.MANUAL)
        assert (reply.asked, reply.report) == (True, None)

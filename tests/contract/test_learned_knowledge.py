"""What work taught, in this process and asked over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opx.adapters.remote.connections import Connections
from opx.adapters.remote.http import bearer
from opx.adapters.remote.knowledge_base import RemoteKnowledgeBase
from opx.domain.learning import CheckpointType
from opx.errors import AccessDeniedError, NotOrchestratorError
from opx.learning.asked import TaskQuestion
from opx.local_knowledge_base import LocalKnowledgeBase
from opx.services import Services
from tests.contract.learned_knowledge_contract import FAILURE, ORCHESTRATOR, LearnedKnowledgeContract
from tests.doubles.api_gateway import DeployedSystem

CLAIMS = {
    "opx_client_id": ORCHESTRATOR.client_id,
    "opx_project_id": ORCHESTRATOR.project_id,
    "sub": ORCHESTRATOR.principal,
    "scope": "opx/write opx/admin",
}


class TestLocalKnowledge(LearnedKnowledgeContract):
    @pytest.fixture
    def base(self, services: Services) -> Iterator[LocalKnowledgeBase]:
        with services:
            yield LocalKnowledgeBase(services, ORCHESTRATOR)

    def test_who_is_no_orchestrator_may_not_ask(self, services: Services) -> None:
        with services:
            base = LocalKnowledgeBase(services, ORCHESTRATOR.__class__("acme", "shop", "deployer"))
            for ask in (
                base.patterns,
                lambda: base.pattern("0" * 32),
                lambda: base.patterns_for_task(TaskQuestion("t")),
                lambda: base.task_context(TaskQuestion("t")),
            ):
                with pytest.raises(NotOrchestratorError):
                    ask()

    def test_whoever_owns_the_machine_may_ask(self, services: Services) -> None:
        with services:
            base = LocalKnowledgeBase(services, ORCHESTRATOR.__class__("acme", "shop", "somebody"), whole_system=True)
            assert list(base.patterns()) == []
            assert base.task_context(TaskQuestion("deploy")) == ""

    def test_where_checkpoints_are_done_elsewhere_one_is_asked_for(self, services: Services) -> None:
        with services:
            services.checkpoint_requests = services.queue
            base = LocalKnowledgeBase(services, ORCHESTRATOR)
            base.capture_entry({**FAILURE, "success_verified": True})
            assert base.checkpoint("", CheckpointType.CANCELLATION) is None
            (message,) = services.queue.receive()
            assert '"scope": "client:acme/project:shop"' in message.body
            assert '"checkpoint_type": "cancellation"' in message.body


class TestRemoteKnowledge(LearnedKnowledgeContract):
    @pytest.fixture
    def system(self, services: Services) -> Iterator[DeployedSystem]:
        tokens = {"token": CLAIMS, "agent": {**CLAIMS, "sub": "deployer"}}
        with services, DeployedSystem(services, tokens=tokens) as system:
            yield system

    @pytest.fixture
    def base(self, system: DeployedSystem) -> Iterator[RemoteKnowledgeBase]:
        base = RemoteKnowledgeBase(system.endpoint, bearer("token"), Connections(), pause=lambda seconds: None)
        yield base
        base.close()

    def test_who_is_no_orchestrator_is_refused(self, system: DeployedSystem) -> None:
        base = RemoteKnowledgeBase(system.endpoint, bearer("agent"), Connections(), pause=lambda seconds: None)
        with pytest.raises(AccessDeniedError, match="orchestrator"):
            base.patterns_for_task(TaskQuestion("deploy"))
        base.close()

    def test_entries_that_do_not_fit_into_one_reply_are_all_there(
        self, base: RemoteKnowledgeBase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = {base.capture_entry({**FAILURE, "occurrence": str(number)}) for number in range(4)}
        monkeypatch.setattr("opx.api.pages.PAGE_BYTES", 1)
        assert {entry.id for entry in base.learning_entries(limit=10)} == ids

    def test_a_checkpoint_that_another_function_does_has_no_report(
        self, base: RemoteKnowledgeBase, system: DeployedSystem
    ) -> None:
        system.services.checkpoint_requests = system.services.queue
        assert base.checkpoint("shop", CheckpointType.MANUAL) is None

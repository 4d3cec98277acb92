"""Learning in this process and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opx.adapters.remote.connections import Connections
from opx.adapters.remote.http import bearer
from opx.domain.learning import CheckpointType
from opx.domain.scopes import Identity
from opx.edges.calling import Client, LocalClient
from opx.edges.client import RemoteClient
from opx.errors import AccessDeniedError, NotOrchestratorError
from opx.operations.context import Caller, Context
from opx.operations.learning import ListEntries, ProcessCheckpoint, list_entries, process_checkpoint
from opx.operations.patterns import (
    FindPatternsForTask,
    GetPattern,
    GetTaskContext,
    ListPatterns,
    find_patterns_for_task,
    get_pattern,
    get_task_context,
    list_patterns,
)
from opx.services import Services
from tests.contract.learned_knowledge_contract import (
    FAILURE,
    ORCHESTRATOR,
    LearnedKnowledgeContract,
    captured,
    client_of,
)
from tests.doubles.api_gateway import DeployedSystem

CLAIMS = {
    "opx_client_id": ORCHESTRATOR.client_id,
    "opx_project_id": ORCHESTRATOR.project_id,
    "sub": ORCHESTRATOR.principal,
    "scope": "opx/write opx/admin",
}
ABOUT_DEPLOYING = FindPatternsForTask(task_description="deploy")


class TestLocalKnowledge(LearnedKnowledgeContract):
    @pytest.fixture
    def client(self, services: Services) -> Iterator[LocalClient]:
        with services:
            yield client_of(services, ORCHESTRATOR)

    def test_who_is_no_orchestrator_may_not_ask(self, services: Services) -> None:
        with services:
            client = client_of(services, Identity("acme", "shop", "deployer"))
            for ask in (
                lambda: client.call(list_patterns, ListPatterns()),
                lambda: client.call(get_pattern, GetPattern(pattern_id="0" * 32)),
                lambda: client.call(find_patterns_for_task, ABOUT_DEPLOYING),
                lambda: client.call(get_task_context, GetTaskContext(task_description="t")),
            ):
                with pytest.raises(NotOrchestratorError):
                    ask()

    def test_whoever_owns_the_machine_may_ask(self, services: Services) -> None:
        with services:
            caller = Caller(Identity("acme", "shop", "somebody"), owns_system=True)
            client = LocalClient(Context(services, caller))
            assert client.call(list_patterns, ListPatterns()).patterns == ()
            assert client.call(get_task_context, GetTaskContext(task_description="deploy")).context == ""

    def test_where_checkpoints_are_done_elsewhere_one_is_asked_for(self, services: Services) -> None:
        with services:
            services.checkpoint_requests = services.queue
            client = client_of(services, ORCHESTRATOR)
            captured(client, {**FAILURE, "success_verified": True})
            reply = client.call(process_checkpoint, ProcessCheckpoint(checkpoint_type=CheckpointType.CANCELLATION))
            assert (reply.asked, reply.report) == (True, None)
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
    def client(self, system: DeployedSystem) -> Iterator[RemoteClient]:
        client = RemoteClient(system.endpoint, bearer("token"), Connections(), pause=lambda seconds: None)
        yield client
        client.close()

    def test_who_is_no_orchestrator_is_refused(self, system: DeployedSystem) -> None:
        client = RemoteClient(system.endpoint, bearer("agent"), Connections(), pause=lambda seconds: None)
        with pytest.raises(AccessDeniedError, match="orchestrator"):
            client.call(find_patterns_for_task, ABOUT_DEPLOYING)
        client.close()

    def test_entries_that_do_not_fit_into_one_reply_are_on_several_pages(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = {captured(client, {**FAILURE, "occurrence": str(number)}) for number in range(4)}
        monkeypatch.setattr("opx.operations.paging.PAGE_BYTES", 1)
        monkeypatch.setattr("opx.api.pages.PAGE_BYTES", 1)
        found: list[str] = []
        after = ""
        while len(found) < len(ids):
            page = client.call(list_entries, ListEntries(limit=10, after=after))
            found += [entry.id for entry in page.entries]
            after = page.next
        assert set(found) == ids

    def test_a_checkpoint_that_another_function_does_has_no_report(
        self, client: Client, system: DeployedSystem
    ) -> None:
        system.services.checkpoint_requests = system.services.queue
        reply = client.call(process_checkpoint, ProcessCheckpoint(project_id="shop"))
        assert (reply.asked, reply.report) == (True, None)

"""A knowledge base in this process and one that is asked over HTTP keep the same contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.remote.connections import Connections
from opx.adapters.remote.http import bearer
from opx.adapters.remote.knowledge_base import RemoteKnowledgeBase
from opx.knowledge_base import KnowledgeBase
from opx.local_knowledge_base import LocalKnowledgeBase
from opx.services import Services
from tests.contract.knowledge_base_contract import CALLER, KnowledgeBaseContract, a_file, taken_in
from tests.doubles.api_gateway import DeployedSystem

CLAIMS = {"opx_client_id": CALLER.client_id, "opx_project_id": CALLER.project_id, "scope": "opx/write opx/admin"}


class TestLocalKnowledgeBase(KnowledgeBaseContract):
    @pytest.fixture
    def base(self, services: Services) -> Iterator[LocalKnowledgeBase]:
        with services:
            yield LocalKnowledgeBase(services, CALLER)


class TestRemoteKnowledgeBase(KnowledgeBaseContract):
    @pytest.fixture
    def base(self, services: Services) -> Iterator[RemoteKnowledgeBase]:
        with services, DeployedSystem(services, tokens={"token": CLAIMS}) as system:
            base = RemoteKnowledgeBase(system.endpoint, bearer("token"), Connections(), pause=lambda seconds: None)
            yield base
            base.close()

    def test_versions_that_do_not_fit_into_one_reply_are_all_there(
        self, base: KnowledgeBase, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for n in range(4):
            (outcome,) = taken_in(base, [a_file(folder, "a.md", f"# A\n\nrevision {n}\n")])
        monkeypatch.setattr("opx.api.pages.PAGE_BYTES", 1)
        found = base.document(outcome.document_id[:12])
        assert [version.version for version in found.versions] == [4, 3, 2, 1]

"""Operations on a system in this process and on one that is called over HTTP keep the same contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opx.domain.scopes import Identity
from opx.operations.system import System
from tests.contract.caller_access import CallerAccess, local_access, remote_access
from tests.contract.knowledge_base_contract import CALLER, KnowledgeBaseContract

CLAIMS = {"opx_client_id": CALLER.client_id, "opx_project_id": CALLER.project_id, "scope": "opx/write opx/admin"}


class TestLocalKnowledgeBase(KnowledgeBaseContract):
    @pytest.fixture
    def access(self, services: System) -> Iterator[CallerAccess]:
        with services:
            yield local_access(services, CALLER)

    @pytest.fixture
    def operator(self, services: System) -> CallerAccess:
        return local_access(services, Identity())


class TestRemoteKnowledgeBase(KnowledgeBaseContract):
    @pytest.fixture
    def access(self, services: System) -> Iterator[CallerAccess]:
        with services, remote_access(services, CLAIMS) as access:
            yield access

    @pytest.fixture
    def operator(self, services: System) -> Iterator[CallerAccess]:
        with services, remote_access(services, {"scope": "opx/admin"}) as access:
            yield access

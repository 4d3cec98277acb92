"""Operations on a system in this process and on one that is called over HTTP keep the same contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opx.domain.scopes import Identity
from opx.operations.system import System
from tests.contract.knowledge_base_contract import CALLER, KnowledgeBaseContract
from tests.contract.seats import Seat, local_seat, remote_seat

CLAIMS = {"opx_client_id": CALLER.client_id, "opx_project_id": CALLER.project_id, "scope": "opx/write opx/admin"}


class TestLocalKnowledgeBase(KnowledgeBaseContract):
    @pytest.fixture
    def seat(self, services: System) -> Iterator[Seat]:
        with services:
            yield local_seat(services, CALLER)

    @pytest.fixture
    def operator(self, services: System) -> Seat:
        return local_seat(services, Identity())


class TestRemoteKnowledgeBase(KnowledgeBaseContract):
    @pytest.fixture
    def seat(self, services: System) -> Iterator[Seat]:
        with services, remote_seat(services, CLAIMS) as seat:
            yield seat

    @pytest.fixture
    def operator(self, services: System) -> Iterator[Seat]:
        with services, remote_seat(services, {"scope": "opx/admin"}) as seat:
            yield seat

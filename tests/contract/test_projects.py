"""Projects and their groups in this process and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.connections import Connections
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient, OperationClient
from opx.edges.client import RemoteClient, bearer
from opx.errors import InvalidScopeError, OpxError
from opx.operations.context import Caller, Context
from opx.operations.projects import AssignProject, GetProject, assign_project, get_project
from opx.settings import Settings
from tests.doubles.api_gateway import DeployedSystem
from tests.support.cli_support import word_services

CLAIMS = {"opx_client_id": "acme", "scope": "opx/write opx/admin"}


@pytest.fixture(params=["local", "remote"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OperationClient]:
    with (
        word_services(Settings(home=str(tmp_path / "home"))) as services,
        DeployedSystem(services, tokens={"token": CLAIMS}) as system,
    ):
        if request.param == "local":
            yield LocalClient(Context(services, Caller(Identity("acme"))))
        else:
            remote = RemoteClient(system.endpoint, bearer("token"), Connections(), pause=lambda _: None)
            yield remote
            remote.close()


def test_a_project_joins_and_leaves_a_group(client: OperationClient) -> None:
    depot = {"client_id": "acme", "project_id": "depot"}
    assert client.call(assign_project, AssignProject(**depot, group_id="retail")).group_id == "retail"
    found = client.call(get_project, GetProject(**depot))
    assert found.group_id == "retail"
    assert "client:acme/group:retail" in found.visible
    client.call(assign_project, AssignProject(**depot, group_id=""))
    assert client.call(get_project, GetProject(**depot)).group_id == ""


@pytest.mark.parametrize(
    ("wanted", "project"), [("ac*me", "shop"), ("acme", "a/b"), ("", "shop"), ("acme", ""), ("acme", "..")]
)
def test_malformed_projects_are_refused(client: OperationClient, wanted: str, project: str) -> None:
    with pytest.raises(InvalidScopeError):
        client.call(get_project, GetProject(client_id=wanted, project_id=project))
    with pytest.raises(InvalidScopeError):
        client.call(assign_project, AssignProject(client_id=wanted, project_id=project, group_id="retail"))


def test_malformed_groups_are_refused(client: OperationClient) -> None:
    with pytest.raises(InvalidScopeError):
        client.call(assign_project, AssignProject(client_id="acme", project_id="shop", group_id="a/*"))


def test_projects_of_another_client_are_refused(client: OperationClient) -> None:
    with pytest.raises(OpxError, match="of another client"):
        client.call(get_project, GetProject(client_id="other", project_id="shop"))

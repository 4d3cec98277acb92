"""Several knowledge bases of one server: homes of this machine, and systems at other addresses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from opx.adapters.connections import Connections
from opx.domain.policy import ADMIN_SCOPE, READ_SCOPE
from opx.domain.scopes import Identity
from opx.edges.client import RemoteClient, bearer, check_endpoint
from opx.errors import InvalidInputError
from opx.operations.context import Caller
from opx.operations.system import System
from opx_serve.routes import KnowledgeBase, LocalBase, RemoteBase
from tests.doubles.api_gateway import DeployedSystem
from tests.support.agent_calls import a_system
from tests.support.cli_support import Opx
from tests.support.serving_support import LocalServer, serving

ROUTER = {"documents/runbooks/router.md": "# Router\n\nRestart the router of the branch."}
CLOUD = {"documents/runbooks/cloud.md": "# Cloud\n\nRestart the router of the cloud."}
OWN = Identity("acme")
TOKENS = {
    "administrator": Caller(OWN, token_scopes=frozenset({ADMIN_SCOPE})),
    "own-reader": Caller(OWN, token_scopes=frozenset({READ_SCOPE})),
    "other-client": Caller(Identity("rival"), token_scopes=frozenset({ADMIN_SCOPE})),
    "no-client": Caller(Identity(), token_scopes=frozenset({ADMIN_SCOPE})),
}


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[System, System, System]]:
    """The server's own, another home, and one at an address."""
    with ExitStack() as opened:
        homes = [({}, "own"), (ROUTER, "branch"), (CLOUD, "cloud")]
        own, branch, cloud = (
            opened.enter_context(a_system(tmp_path_factory.mktemp(name), corpus)) for corpus, name in homes
        )
        yield own, branch, cloud


@pytest.fixture(scope="module")
def server(systems: tuple[System, System, System]) -> Iterator[LocalServer]:
    own, branch, cloud = systems
    claims = {"opx_client_id": "", "sub": "server", "scope": "opx/write opx/admin"}
    with DeployedSystem(cloud, tokens={"of-the-server": claims}) as deployed:
        client = RemoteClient(deployed.endpoint, bearer("of-the-server"), Connections(), pause=lambda _: None)
        bases: dict[str, KnowledgeBase] = {"branch": LocalBase(branch), "cloud": RemoteBase(client, Caller(OWN))}
        with serving(own, TOKENS, bases, own=OWN) as found:
            yield found
        client.close()


@pytest.mark.parametrize(
    ("base", "expected", "other"), [("branch", "the branch", "the cloud"), ("cloud", "the cloud", "the branch")]
)
def test_the_id_in_the_path_chooses_the_base(server: LocalServer, base: str, expected: str, other: str) -> None:
    found = server("GET", f"/knowledge/{base}/search?q=restart+the+router", token="administrator")
    assert (found.status, expected in found.data.decode(), other in found.data.decode()) == (200, True, False)


def test_the_servers_own_is_the_default(server: LocalServer) -> None:
    found = server("GET", "/knowledge/default/search?q=restart+the+router", token="administrator")
    assert (found.status, found.json["results"]) == (200, [])


@pytest.mark.parametrize("base", ["nobody", "Branch", "branch%2F", "..", "%2e%2e", "default%00"])
def test_an_unknown_id_names_those_that_there_are(server: LocalServer, base: str) -> None:
    found = server("POST", f"/knowledge/{base}/query", {"query": "router"}, token="administrator")
    assert found.refusal == (404, "not_found")
    assert found.json["error"]["message"] == "no knowledge base has this id; there is: branch, cloud, default"


@pytest.mark.parametrize("token", ["own-reader", "other-client", "no-client"])
def test_one_at_an_address_is_for_administrators_with_the_servers_identity(server: LocalServer, token: str) -> None:
    """It sees the server's token, not the caller's."""
    assert server("GET", "/knowledge/cloud/search?q=router", token=token).refusal == (403, "forbidden")
    assert server("GET", "/knowledge/branch/search?q=router", token=token).status == 200


class TestOption:
    @pytest.fixture
    def opx(self, tmp_path: Path) -> Opx:
        (tmp_path / "branch").mkdir()
        return Opx(tmp_path)

    @pytest.mark.parametrize("text", ["x", "=home", "x=", "a/b=home", "default={branch}", "a b={branch}", ""])
    def test_a_malformed_one_is_refused(self, opx: Opx, text: str) -> None:
        found = opx("serve", "--base", text.format(branch=opx.folder / "branch"))
        assert (found.exit_code, "give each ID once, as ID=HOME or ID=https://ADDRESS" in found.stderr) == (2, True)

    def test_one_that_is_given_twice_is_refused(self, opx: Opx) -> None:
        base = f"x={opx.folder / 'branch'}"
        assert "give each ID once" in opx("serve", "--base", base, "--base", base).stderr

    def test_a_folder_that_is_not_there_is_refused(self, opx: Opx) -> None:
        found = opx("serve", "--base", "x=/nowhere")
        assert (found.exit_code, "there is no folder /nowhere" in found.stderr) == (2, True)

    def test_an_address_with_credentials_is_refused_and_not_shown(self, opx: Opx) -> None:
        found = opx("serve", "--base", "x=https://ana:hunter2@knowledge.example.com", OPX_API_TOKEN="t")
        assert (found.exit_code, "user or a password" in found.stderr, "hunter2" in found.output) == (2, True, False)

    @pytest.mark.parametrize("address", ["http://knowledge.example.com", "ftp://x", "https://"])
    def test_an_address_that_would_get_the_token_unencrypted_is_refused(self, opx: Opx, address: str) -> None:
        assert opx("serve", "--base", f"x={address}", OPX_API_TOKEN="t").exit_code == 2

    def test_a_home_of_a_newer_version_is_refused(self, opx: Opx) -> None:
        (opx.folder / "branch" / "format.json").write_text('{"format": 99, "program": "9.9.9"}')
        found = opx("serve", "--base", f"x={opx.folder / 'branch'}", "--listen", "127.0.0.1:0")
        assert (found.exit_code != 0, "was written by opx 9.9.9" in found.stderr) == (True, True)


def test_no_client_is_made_for_an_address_with_credentials() -> None:
    with pytest.raises(InvalidInputError, match="has a user or a password") as found:
        check_endpoint("https://ana:hunter2@knowledge.example.com")
    assert "hunter2" not in str(found.value)

"""Direct uploads to a local server, at addresses that accept one file each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from opx.adapters.connections import Connections
from opx.domain.policy import READ_SCOPE, WRITE_SCOPE
from opx.domain.scopes import Identity
from opx.edges.client import RemoteClient, bearer
from opx.edges.loading import RemoteLoader
from opx.errors import InvalidInputError
from opx.ingestion.corpus.clients import Client, ClientState
from opx.ingestion.files import FileToIngest
from opx.operations.context import Caller
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_serve.uploads import SignedUploads
from tests.support.fakes import WordsEmbedder
from tests.support.serving_support import LocalServer, Reply, serving

FILE = b"# Disk full\n\nGrow the volume.\n"
TOKENS = {
    "writer": Caller(Identity("acme"), token_scopes=frozenset({WRITE_SCOPE})),
    "reader": Caller(Identity("acme"), token_scopes=frozenset({READ_SCOPE})),
}


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with bootstrap(Settings(home=str(tmp_path / "home")), embedder=WordsEmbedder()) as made:
        yield made


@pytest.fixture
def server(system: System) -> Iterator[LocalServer]:
    with serving(system, TOKENS) as found:
        yield found


def prepared(server: LocalServer, data: bytes = FILE, headers: Mapping[str, str] = {}) -> str:
    """The address for a file."""
    request = {"source": "runbooks/disk.md", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    found = server("POST", "/uploads", request, token="writer", headers=headers)
    assert (found.status, found.json["state"]) == (200, "upload")
    assert found.json["put"]["headers"] == {"content-length": str(len(data))}
    return str(found.json["put"]["url"])


def put(server: LocalServer, address: str, data: bytes = FILE) -> Reply:
    return server("PUT", urlsplit(address).path, data)


def test_a_file_at_its_address_becomes_knowledge_of_the_caller(server: LocalServer, system: System) -> None:
    assert put(server, prepared(server)).status == 200
    assert server.arrived == [True]
    list(system.manager.work())
    (document,) = system.corpus.catalog.in_category("runbooks/procedures")
    assert document.title == "Disk full"
    assert server("GET", f"/documents/{document.document_id}", token="reader").status == 200
    with system.store.open("clients/acme/documents/runbooks/disk.md") as stream:
        assert stream.read() == FILE


def test_a_file_that_is_stored_needs_no_upload(server: LocalServer, system: System) -> None:
    put(server, prepared(server))
    list(system.manager.work())
    request = {"source": "runbooks/disk.md", "size": len(FILE), "sha256": hashlib.sha256(FILE).hexdigest()}
    assert server("POST", "/uploads", request, token="writer").json["state"] == "unchanged"


@pytest.mark.parametrize(
    ("data", "status"), [(FILE[:-1], 400), (FILE + b"x", 413), (FILE.replace(b"Grow", b"Drop"), 400), (b"", 400)]
)
def test_another_file_is_not_stored(server: LocalServer, system: System, data: bytes, status: int) -> None:
    assert put(server, prepared(server), data).status == status
    assert system.store.head("clients/acme/documents/runbooks/disk.md") is None


def test_an_address_that_was_changed_is_refused(server: LocalServer, system: System) -> None:
    path = urlsplit(prepared(server)).path
    other = path[:-1] + ("0" if path[-1] != "0" else "1")
    for changed in (other, path.replace("/uploads/", "/uploads/e"), "/uploads/x", "/uploads/.", "/uploads/%C3%A4.b"):
        found = server("PUT", changed, FILE)
        assert (found.status, b"AccessDenied" in found.data) == (403, True)
    assert system.store.head("clients/acme/documents/runbooks/disk.md") is None


def test_it_is_valid_for_fifteen_minutes(system: System, tmp_path: Path) -> None:
    now = [1000.0]
    uploads = SignedUploads(system.storage, system.store, lambda: None, tmp_path, clock=lambda: now[0])
    token = uploads.sign_put("documents/a.md", size=1, sha256="0" * 64).url.rpartition("/")[2]
    now[0] += 900
    assert uploads.granted(token) is not None
    now[0] += 1
    assert uploads.granted(token) is None


def test_another_process_signs_with_another_key(system: System, tmp_path: Path) -> None:
    first, second = (SignedUploads(system.storage, system.store, lambda: None, tmp_path) for _ in range(2))
    token = first.sign_put("documents/a.md", size=1, sha256="0" * 64).url.rpartition("/")[2]
    assert (first.granted(token) is None, second.granted(token)) == (False, None)


def test_a_malformed_key_is_not_signed(system: System, tmp_path: Path) -> None:
    uploads = SignedUploads(system.storage, system.store, lambda: None, tmp_path)
    with pytest.raises(InvalidInputError):
        uploads.sign_put("documents/../x", size=1, sha256="0" * 64)


def test_a_reader_gets_no_address(server: LocalServer) -> None:
    request = {"source": "runbooks/disk.md", "size": 1, "sha256": "0" * 64}
    assert server("POST", "/uploads", request, token="reader").refusal == (403, "forbidden")


def test_the_address_begins_as_the_caller_wrote_it(server: LocalServer) -> None:
    assert prepared(server).startswith(f"http://{server.address}/uploads/")
    behind_proxy = prepared(server, headers={"host": "knowledge.example.com", "x-forwarded-proto": "https"})
    assert behind_proxy.startswith("https://knowledge.example.com/uploads/")


def test_a_client_that_was_removed_meanwhile_stores_nothing(server: LocalServer, system: System) -> None:
    address = prepared(server)
    system.corpus.clients.put(Client("acme", ClientState.REMOVED))
    assert put(server, address).status >= 400
    assert system.store.head("clients/acme/documents/runbooks/disk.md") is None


def test_the_loader_of_deployed_systems_ingests_files(server: LocalServer, system: System, tmp_path: Path) -> None:
    path = tmp_path / "disk.md"
    path.write_bytes(FILE)
    client = RemoteClient(f"http://{server.address}", bearer("writer"), Connections(), pause=lambda _: None)
    (done,) = RemoteLoader(client).put_files([FileToIngest(path, "runbooks/disk.md")], {})
    client.close()
    assert done.object_key == "clients/acme/documents/runbooks/disk.md"
    with system.store.open(done.object_key) as stream:
        assert stream.read() == FILE

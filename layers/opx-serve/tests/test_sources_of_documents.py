"""Addresses of documents in replies: what they state of the machine that has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.operations.system import System
from opx.ports import ObjectInfo
from tests.support.agent_calls import CORPUS, DISK, DISK_TITLE, a_system, id_of
from tests.support.serving_support import OWN_TOKEN, LocalServer, over_mcp, serving

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

READ = (
    "/documents",
    "/documents/{id}",
    "/documents/{id}/chunks",
    "/reading?document={id}",
    "/objects?under=runbooks",
    "/documents/{id}/provenance",
    f"/knowledge/default/search?q={DISK_TITLE.replace(' ', '+')}",
    "/reviews?days=3650",
)


@pytest.fixture(params=["now", "of an earlier version"])
def system(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    with monkeypatch.context() as patched:
        if request.param != "now":
            info = FolderObjectStore._info

            def with_path(self: FolderObjectStore, *given: Any) -> ObjectInfo:
                found = info(self, *given)
                return ObjectInfo(found.key, found.size, found.etag, self._path(found.key).as_uri(), found.metadata)

            patched.setattr(FolderObjectStore, "_info", with_path)
        opened = a_system(tmp_path / "home", CORPUS)
    with opened:
        yield opened


@pytest.fixture
def server(system: System) -> Iterator[LocalServer]:
    with serving(system) as found:
        yield found


def test_no_reply_has_a_path_of_the_machine(server: LocalServer, system: System, tmp_path: Path) -> None:
    document_id = id_of(system, DISK)
    for path in READ:
        reply = server("GET", path.format(id=document_id))
        assert (reply.status, str(tmp_path).encode() in reply.data) == (200, False), path
    found = over_mcp(server, OWN_TOKEN, "search_docs", query=DISK_TITLE)
    assert str(tmp_path) not in json.dumps(found.structured_content)


def test_a_document_without_an_address_of_its_own_has_its_key(server: LocalServer, system: System) -> None:
    found = server("GET", f"/documents/{id_of(system, DISK)}").json["document"]
    assert (found["source"], found["s3Location"]) == (DISK, DISK)
    first = server("GET", f"/knowledge/default/search?q={DISK_TITLE.replace(' ', '+')}").json["results"][0]
    assert json.dumps(DISK) in json.dumps(first)

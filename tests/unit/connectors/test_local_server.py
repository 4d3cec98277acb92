"""Webhooks that arrive on this machine while `opx run` runs."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from opx.connectors.webhooks import wsgi
from opx.connectors.webhooks.wsgi import LocalServer
from opx.errors import InvalidInputError
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.fakes import WordsEmbedder

SECRET = "correct horse battery staple"
WEBHOOKS = """
webhooks:
  tool: {category: operations/incidents, format: generic, secret: tool-secret}
"""


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    path = tmp_path / "knowledge.yaml"
    text = Path("corpus/knowledge.yaml").read_text(encoding="utf-8").replace("\nwebhooks: {}\n", WEBHOOKS)
    path.write_text(text, encoding="utf-8")
    settings = Settings(home=str(tmp_path / "home"), knowledge_file=str(path))
    with bootstrap(settings, embedder=WordsEmbedder()) as made:
        made.secrets.put("tool-secret", SECRET)  # type: ignore[attr-defined]
        yield made


def send(address: str, body: bytes, secret: str = SECRET, at: int = 0) -> int:
    now = str(at or int(time.time()))
    signature = hmac.new(secret.encode(), f"{now}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {"X-Opx-Timestamp": now, "X-Opx-Signature": f"v1={signature}", "Content-Type": "application/json"}
    url = f"http://{address}/ingest/internal/operations/incidents?source=tool"
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as exc:
        exc.close()
        return exc.code


def test_a_signed_delivery_becomes_knowledge(services: System) -> None:
    body = json.dumps({"id": "INC-1", "title": "Checkout down", "content": "The pool was empty."}).encode()
    arrived: list[int] = []
    with LocalServer(services.connectors.webhook_receiver, "127.0.0.1:0", lambda: arrived.append(1)) as server:
        at = int(time.time())
        assert [send(server.address, body, at=at) for _ in range(2)] == [202, 200]
    list(services.manager.work())
    (document,) = services.corpus.catalog.in_category("operations/incidents")
    assert (document.title, arrived) == ("Checkout down", [1])


def test_a_forged_one_does_not(services: System) -> None:
    with LocalServer(services.connectors.webhook_receiver, "127.0.0.1:0", lambda: None) as server:
        assert send(server.address, b'{"id": "1"}', secret="wrong") == 401
    assert services.queue.waiting() == 0


@pytest.mark.parametrize("address", ["8321", "here:port", "127.0.0.1:99999", "http://127.0.0.1:8321", ""])
def test_an_invalid_address_is_refused(services: System, address: str) -> None:
    with pytest.raises(InvalidInputError, match="host:port"):
        LocalServer(services.connectors.webhook_receiver, address, lambda: None)


def test_an_address_in_use_is_reported(services: System) -> None:
    with (
        LocalServer(services.connectors.webhook_receiver, "127.0.0.1:0", lambda: None) as server,
        pytest.raises(InvalidInputError, match="choose another port"),
    ):
        LocalServer(services.connectors.webhook_receiver, server.address, lambda: None)


def test_slow_senders_keep_nobody_out_and_are_cut_off(services: System, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        LocalServer(services.connectors.webhook_receiver, "127.0.0.1:0", lambda: None) as server,
        ExitStack() as opened,
    ):
        slow = [opened.enter_context(a_slow_sender(server.address)) for _ in range(150)]
        assert send(server.address, b'{"id": "1", "title": "t", "content": "c"}', at=int(time.time())) == 202
        monkeypatch.setattr(wsgi, "REQUEST_SECONDS", 0.0)
        assert [one.recv(1) for one in slow] == [b""] * len(slow)


def a_slow_sender(address: str) -> socket.socket:
    """A connection that has sent a part of a header."""
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.sendall(b"POST /ingest/internal/operations/incidents HTTP/1.1\r\nHost: ")
    return connection


@pytest.mark.parametrize(("host", "is_public"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_an_address_that_others_can_reach_has_a_remark(services: System, host: str, is_public: bool) -> None:
    with LocalServer(services.connectors.webhook_receiver, f"{host}:0", lambda: None) as server:
        assert ("others can reach" in server.remark) is is_public

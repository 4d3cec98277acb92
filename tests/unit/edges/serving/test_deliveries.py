"""Deliveries of webhooks over HTTP on this machine: the parts of a request that are read, and the replies."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from opx.connectors.deliveries import MAX_BODY_BYTES, Delivery
from opx.errors import KnowledgeConfigError
from opx_serve import listening
from opx_serve.application import deliveries_application
from opx_serve.deliveries import LocalDeliveries
from opx_serve.listening import HttpServer, listening_socket
from opx_streams import capability
from tests.support.serving_support import LocalServer, Reply, serving
from tests.support.webhook_support import KNOWLEDGE, Webhooks, an_issue, github, webhooks_in

ADDRESS = "/ingest/internet/web/github_issues"
SIGNED = f"{ADDRESS}?source=github"


@contextmanager
def listening_for(webhooks: Webhooks) -> Iterator[LocalServer]:
    """A server for deliveries alone, as `opx run --listen` has it."""
    arrived: list[bool] = []
    deliveries = LocalDeliveries(
        lambda: webhooks.services.part(capability.WebhookIngestion), lambda: arrived.append(True)
    )
    with HttpServer(deliveries_application(deliveries), listening_socket("127.0.0.1:0")) as server:
        yield LocalServer(server.address, arrived)


@pytest.fixture
def server(webhooks: Webhooks) -> Iterator[LocalServer]:
    with listening_for(webhooks) as found:
        yield found


def send(server: LocalServer, delivery: Delivery, path: str = SIGNED, method: str = "POST") -> Reply:
    return server(method, path, delivery.body, headers={**delivery.headers, "content-type": "application/json"})


def test_a_signed_delivery_is_ingested(webhooks: Webhooks, server: LocalServer) -> None:
    found = send(server, github(an_issue()))
    assert (found.status, found.json) == (202, {"state": "accepted", "documents": 1})
    assert found.headers["content-type"] == "application/json; charset=utf-8"
    assert webhooks.only().startswith("# Pods restart")


def test_a_server_does_not_start_with_an_invalid_declaration(tmp_path: Path) -> None:
    with webhooks_in(tmp_path).services as services:
        declared = KNOWLEDGE.replace("format: jira, secret: hub", "format: jira, secret: hub, events: [nothing]")
        (tmp_path / "knowledge.yaml").write_text(declared)
        with pytest.raises(
            KnowledgeConfigError, match="unknown event 'nothing' of format jira; known: jira:issue_created"
        ):
            LocalDeliveries(lambda: services.part(capability.WebhookIngestion), lambda: None)


def test_a_forged_one_is_not(webhooks: Webhooks, server: LocalServer) -> None:
    assert send(server, github(an_issue(), key="wrong")).refusal == (401, "unverified")
    assert webhooks.documents() == {}


def test_the_consumer_is_notified_of_each_accepted_delivery(server: LocalServer) -> None:
    sent = (github(an_issue()), github(an_issue()), github(an_issue("edited"), key="wrong"))
    assert [send(server, one).status for one in sent] == [202, 200, 401]
    assert server.arrived == [True]


@pytest.mark.parametrize("path", ["/", "/ingest", "/ingest/internet", "/ingest/internet/", "/search", "/ingestx/a/b"])
def test_other_paths_are_not_there(server: LocalServer, path: str) -> None:
    assert send(server, github(an_issue()), path).refusal == (404, "no_such_route")


@pytest.mark.parametrize(
    "path",
    ["/ingest/internet/../web/github_issues", "/ingest/internet/web/%C3%A4", "/ingest/internet/%FF", f"{ADDRESS}%3Fa"],
)
def test_odd_categories_are_not_there(server: LocalServer, path: str) -> None:
    assert send(server, github(an_issue()), f"{path}?source=github").json["error"]["code"] == "no_such_webhook"


def test_only_post_is_accepted(server: LocalServer) -> None:
    found = send(server, github(an_issue()), method="GET")
    assert (found.status, found.headers["allow"]) == (405, "POST")


def test_too_many_parameters_are_refused(server: LocalServer) -> None:
    assert send(server, github(an_issue()), f"{ADDRESS}?" + "a=1&" * 500).refusal == (400, "invalid_argument")


def test_unexpected_error_is_answered_with_500_and_logged(
    webhooks: Webhooks, server: LocalServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("x-marker-x")

    monkeypatch.setattr(webhooks.services.store, "put", fails)
    found = send(server, github(an_issue()))
    assert (found.status, b"x-marker-x" in found.data) == (500, False)
    assert "x-marker-x" in caplog.text


class TestSize:
    def test_a_hundred_megabytes_are_refused_unread(self, server: LocalServer) -> None:
        found = server.raw(head("POST", SIGNED, "content-length: 104857600"))
        assert found.startswith(b"HTTP/1.1 413 ")
        assert b"POST /uploads" in found

    def test_a_body_of_unknown_length_is_read_up_to_the_limit(self, server: LocalServer) -> None:
        with server.connect() as connection:
            connection.sendall(head("POST", SIGNED, "transfer-encoding: chunked"))
            chunk = b"%x\r\n%s\r\n" % (MAX_BODY_BYTES // 4, bytes(MAX_BODY_BYTES // 4))
            for _ in range(4):
                connection.sendall(chunk)
            connection.sendall(b"1\r\n0\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 413 ")

    def test_a_body_that_breaks_off_is_not_ingested(self, webhooks: Webhooks, server: LocalServer) -> None:
        whole = github(an_issue())
        headers = [f"{name}: {text}" for name, text in whole.headers.items()]
        with server.connect() as connection:
            connection.sendall(head("POST", SIGNED, f"content-length: {len(whole.body)}", *headers))
            connection.sendall(whole.body[:-10])
        assert send(server, whole).status == 202  # the server goes on, and has stored nothing of the first
        assert server.arrived == [True]

    @pytest.mark.parametrize("length", ["-1", "x", "²", "1, 2"])
    def test_a_malformed_length_is_refused(self, server: LocalServer, length: str) -> None:
        assert server.raw(head("POST", SIGNED, f"content-length: {length}")).startswith(b"HTTP/1.1 400 ")


def head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "host: 127.0.0.1", *headers, "", "")).encode()


class TestSlowSenders:
    def test_they_keep_nobody_out_and_are_cut_off(self, server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
        with ExitStack() as opened:
            slow = [opened.enter_context(a_slow_sender(server)) for _ in range(150)]
            assert send(server, github(an_issue())).status == 202
            monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.0)
            assert [one.recv(1) for one in slow] == [b""] * len(slow)


def a_slow_sender(server: LocalServer) -> socket.socket:
    """A connection that has sent a part of a header."""
    connection = server.connect()
    connection.sendall(f"POST {ADDRESS} HTTP/1.1\r\nHost: ".encode())
    return connection


class TestBesideOperations:
    """`opx serve` has deliveries under /webhooks: POST /ingest/{tier}/{category} is an operation."""

    @pytest.fixture
    def served(self, webhooks: Webhooks) -> Iterator[LocalServer]:
        with serving(webhooks.services) as found:
            yield found

    def test_a_signed_delivery_is_ingested(self, webhooks: Webhooks, served: LocalServer) -> None:
        assert send(served, github(an_issue()), "/webhooks" + SIGNED).status == 202
        assert served.arrived == [True]
        assert webhooks.only().startswith("# Pods restart")

    def test_it_may_come_through_a_proxy_and_needs_no_token(self, served: LocalServer) -> None:
        delivery = github(an_issue())
        headers = {**delivery.headers, "host": "knowledge.example.com", "x-forwarded-for": "192.0.2.1"}
        assert served("POST", "/webhooks" + SIGNED, delivery.body, headers=headers).status == 202

    def test_a_forged_one_and_another_method_are_refused(self, served: LocalServer) -> None:
        assert send(served, github(an_issue(), key="wrong"), "/webhooks" + SIGNED).status == 401
        assert send(served, github(an_issue()), "/webhooks" + SIGNED, "PUT").status == 405
        assert send(served, github(an_issue()), "/webhooks/elsewhere").refusal == (404, "no_such_route")

    def test_its_body_is_as_limited(self, served: LocalServer) -> None:
        connection = http.client.HTTPConnection(served.address, timeout=60)
        connection.request("POST", "/webhooks" + SIGNED, b"", {"content-length": str(MAX_BODY_BYTES + 1)})
        found = connection.getresponse()
        assert (found.status, "deliver" in json.loads(found.read())["error"]["message"]) == (413, True)
        connection.close()

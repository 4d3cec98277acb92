"""Deliveries over HTTP on this machine: what is read of a request, how much of it, and what is answered."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from opx.connectors.deliveries import MAX_BODY_BYTES, Delivery
from opx.connectors.webhooks.wsgi import application
from tests.support.webhook_support import Webhooks, an_issue, github, webhooks_in

ADDRESS = "/ingest/internet/web/github_issues"


class CountedStream(io.RawIOBase):
    """As many zeros as anyone wants, which counts how many were taken."""

    def __init__(self) -> None:
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        self.taken += size
        return bytes(size)


@pytest.fixture
def webhooks(tmp_path: Path) -> Iterator[Webhooks]:
    found = webhooks_in(tmp_path)
    with found.services:
        yield found


def send(webhooks: Webhooks, delivery: Delivery, **environ: Any) -> tuple[str, Any, dict[str, str]]:
    """Status line, JSON and headers of the answer to a POST of the delivery."""
    request: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": ADDRESS,
        "QUERY_STRING": "source=github",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(delivery.body)),
        "wsgi.input": io.BytesIO(delivery.body),
        **{"HTTP_" + name.upper().replace("-", "_"): value for name, value in delivery.headers.items()},
        **environ,
    }
    setup_testing_defaults(request)
    started: list[Any] = []
    app = application(webhooks.services.connectors.webhook_receiver)
    body = app(request, lambda status, headers, *_: started.extend((status, headers)))  # type: ignore[arg-type]
    status, headers = started
    return status, json.loads(b"".join(body)), dict(headers)


def test_a_delivery_is_ingested(webhooks: Webhooks) -> None:
    status, found, headers = send(webhooks, github(an_issue()))
    assert (status, found) == ("202 Accepted", {"state": "accepted", "documents": 1})
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert webhooks.only().startswith("# Pods restart")


def test_the_consumer_is_notified_of_each_accepted_delivery(webhooks: Webhooks) -> None:
    notified: list[bool] = []
    app = application(webhooks.services.connectors.webhook_receiver, accepted=lambda: notified.append(True))
    for delivery in (github(an_issue()), github(an_issue()), github(an_issue("edited"), key="wrong")):
        request: dict[str, Any] = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": ADDRESS,
            "QUERY_STRING": "source=github",
            "CONTENT_LENGTH": str(len(delivery.body)),
            "wsgi.input": io.BytesIO(delivery.body),
            **{"HTTP_" + name.upper().replace("-", "_"): value for name, value in delivery.headers.items()},
        }
        setup_testing_defaults(request)
        list(app(request, lambda *_: None))  # type: ignore[arg-type]
    assert notified == [True]


def test_it_is_an_application_as_servers_expect_it(webhooks: Webhooks) -> None:
    app = validator(application(webhooks.services.connectors.webhook_receiver))
    request: dict[str, Any] = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "QUERY_STRING": "", "SCRIPT_NAME": ""}
    setup_testing_defaults(request)
    found = app(request, lambda *_: None)  # type: ignore[arg-type]
    assert b"no_such_route" in b"".join(found)
    found.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["/", "/ingest", "/ingest/internet", "/ingest/internet/", "/search", "/ingestx/a/b"])
def test_other_paths_are_not_there(webhooks: Webhooks, path: str) -> None:
    status, found, _ = send(webhooks, github(an_issue()), PATH_INFO=path)
    assert (status, found["error"]["code"]) == ("404 Not Found", "no_such_route")


@pytest.mark.parametrize(
    "path", ["/ingest/internet/../web/github_issues", "/ingest/internet/web/\xc3\xa4", "/ingest/internet/\xff"]
)
def test_odd_categories_are_not_there(webhooks: Webhooks, path: str) -> None:
    assert send(webhooks, github(an_issue()), PATH_INFO=path)[1]["error"]["code"] == "no_such_webhook"


def test_only_post_is_accepted(webhooks: Webhooks) -> None:
    status, _, headers = send(webhooks, github(an_issue()), REQUEST_METHOD="GET")
    assert (status, headers["allow"]) == ("405 Method Not Allowed", "POST")


class TestSize:
    def test_a_hundred_megabytes_are_refused_unread(self, webhooks: Webhooks) -> None:
        stream = CountedStream()
        more = {"CONTENT_LENGTH": str(100 * 1024 * 1024), "wsgi.input": stream}
        status, found, _ = send(webhooks, github(an_issue()), **more)
        assert status == "413 Request Entity Too Large"
        assert "POST /uploads" in found["error"]["message"]
        assert stream.taken == 0

    def test_a_body_of_unknown_length_is_read_up_to_the_limit(self, webhooks: Webhooks) -> None:
        stream = CountedStream()
        more = {"CONTENT_LENGTH": "", "wsgi.input": stream, "wsgi.input_terminated": True}
        assert send(webhooks, github(an_issue()), **more)[0].startswith("413")
        assert stream.taken == MAX_BODY_BYTES + 1

    @pytest.mark.parametrize("length", ["", "-1", "x", "²"])
    def test_without_a_length_nothing_is_read_from_a_stream_that_may_not_end(
        self, webhooks: Webhooks, length: str
    ) -> None:
        stream = CountedStream()
        assert send(webhooks, github(an_issue()), CONTENT_LENGTH=length, **{"wsgi.input": stream})[0].startswith("401")
        assert stream.taken == 0

    def test_a_body_that_breaks_off_is_not_genuine(self, webhooks: Webhooks) -> None:
        whole = github(an_issue())
        assert send(webhooks, whole, **{"wsgi.input": io.BytesIO(whole.body[:-10])})[0].startswith("401")

    def test_too_many_parameters_are_refused(self, webhooks: Webhooks) -> None:
        assert send(webhooks, github(an_issue()), QUERY_STRING="a=1&" * 500)[0].startswith("400")


def test_unexpected_error_is_answered_with_500_and_logged(
    webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("x-marker-x")

    monkeypatch.setattr(webhooks.services.store, "put", fails)
    status, found, _ = send(webhooks, github(an_issue()))
    assert status == "500 Internal Server Error"
    assert "x-marker-x" not in str(found)
    assert "x-marker-x" in caplog.text

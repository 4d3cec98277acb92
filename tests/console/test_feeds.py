"""The last deliveries of webhooks and the last records of streams, in a browser: sent to the server as services send them."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from opx.connectors.deliveries import Delivery
from tests.console.curation.steps import eventually, go
from tests.console.served import OPX, Console, running
from tests.support.redis_server import LocalRedis, NoRedisError, running_redis
from tests.support.stream_support import an_incident
from tests.support.webhook_support import KEY, KNOWLEDGE, an_issue, github

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]


def opx(home: Path, *arguments: str, stdin: str = "") -> None:
    command = [str(OPX), "--home", str(home), *arguments]
    subprocess.run(command, input=stdin, text=True, check=True, capture_output=True, timeout=300)


@pytest.fixture
def redis() -> Iterator[LocalRedis]:
    try:
        with running_redis() as server:
            yield server
    except NoRedisError as exc:
        pytest.skip(str(exc))


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    """A server whose knowledge.yaml declares webhooks."""
    file = tmp_path / "knowledge.yaml"
    file.write_text(KNOWLEDGE)
    monkeypatch.setenv("OPX_KNOWLEDGE_FILE", str(file))
    home = tmp_path / "home"
    opx(home, "secret", "set", "hub", stdin=KEY + "\n")
    with running(home) as found:
        yield found


def send(console: Console, delivery: Delivery) -> int:
    connection = http.client.HTTPConnection(console.host, timeout=60)
    query = urlencode(delivery.query)
    path = f"/webhooks/ingest/{delivery.tier}/{delivery.category}?{query}"
    connection.request("POST", path, delivery.body, dict(delivery.headers))
    status = connection.getresponse().status
    connection.close()
    return status


def test_the_last_deliveries_of_a_webhook_are_shown(page: Page, console: Console) -> None:
    assert send(console, github(an_issue())) == 202
    assert send(console, github(an_issue(), key="another secret")) == 401
    go(page, console, "sources")
    row = page.get_by_role("table", name="Webhooks").get_by_role("row").filter(has_text="web/github_issues")
    row.get_by_text(re.compile("accepted .*, 1 in all")).wait_for()
    row.get_by_text(re.compile(r"refused \(unverified\) .*, 1 in all")).wait_for()
    found = {one["name"]: one.get("last") for one in console.api("GET", "/webhooks")["webhooks"]}
    assert (found["github"]["accepted"]["count"], found["github"]["refused"]["reason"]) == (1, "unverified")
    other = page.get_by_role("table", name="Webhooks").get_by_role("row").filter(has_text="jira").first
    assert "never" in other.inner_text()


def test_the_last_record_of_a_stream_is_shown(page: Page, console: Console, redis: LocalRedis) -> None:
    options = ("--topic", "incidents", "--category", "operations/incidents", "--name", "outages")
    opx(console.home, "stream", "add", redis.url, *options)
    with redis.client() as client:
        client.xadd("incidents", {"body": json.dumps(an_incident())})
    eventually(lambda: console.api("GET", "/streams").get("last"))
    go(page, console, "sources")
    row = page.get_by_role("table", name="Streams").get_by_role("row").filter(has_text="outages")
    row.get_by_text(re.compile("accepted .*, 1 in all")).wait_for()
    assert console.api("GET", "/streams")["last"]["outages"]["accepted"]["count"] == 1

"""Pages of a local server: documentation without scripts and files of others, the OpenAPI document, and metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from prometheus_client.parser import text_string_to_metric_families

from opx.edges.schemas import openapi
from opx.operations import load
from opx.runtime.metrics import Metric
from opx_serve.metrics import Measurements
from tests.support.agent_calls import a_system
from tests.support.serving_support import LocalServer, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with a_system(tmp_path_factory.mktemp("home")) as system, serving(system) as found:
        yield found


class Page(HTMLParser):
    """Collects the tags and the addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


class TestDocumentation:
    def test_it_has_no_script_and_no_address_of_another_site(self, server: LocalServer) -> None:
        found = server("GET", "/docs")
        page = Page(found.data.decode())
        assert found.headers["content-type"] == "text/html; charset=utf-8"
        assert not page.tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
        assert [value for name, value in page.attributes if name in ("href", "src")] == ["/openapi.json"]
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        (style,) = re.findall("<style>(.*?)</style>", found.data.decode(), re.DOTALL)
        assert not re.search(r"url\(|@import|https?:", style)

    def test_the_browser_may_load_nothing(self, server: LocalServer) -> None:
        policy = server("GET", "/docs").headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy

    def test_it_has_every_route(self, server: LocalServer) -> None:
        text = server("GET", "/docs").data.decode()
        for one in load():
            if one.route is not None:
                path = one.route.path.replace("+}", "}")
                assert f"<b>{one.route.method}</b> <code>{path}</code>" in text

    def test_the_openapi_document_is_that_of_the_api(self, server: LocalServer) -> None:
        assert json.loads(server("GET", "/openapi.json").data) == openapi()


def metrics(server: LocalServer) -> dict[tuple[str, ...], float]:
    """Values by the name of a sample and the values of its labels."""
    found = server("GET", "/metrics")
    assert found.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(found.data.decode())
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in families
        for sample in family.samples
    }


class TestMetrics:
    def test_requests_are_counted_by_route_and_status(self, server: LocalServer) -> None:
        before = metrics(server)
        for path in ("/knowledge/default/search?q=disk", "/knowledge/other/search?q=disk", "/nowhere", "/nowhere/else"):
            server("GET", path)
        server("POST", "/mcp", {"jsonrpc": "2.0"})
        after = metrics(server)
        grown = {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}
        search = "GET /knowledge/{kbId}/search"
        assert grown["opx_http_request_seconds_count", search, "200"] == 1
        assert grown["opx_http_request_seconds_count", search, "404"] == 1
        assert grown["opx_http_request_seconds_count", "none", "404"] == 2
        assert [
            value for key, value in grown.items() if key[:2] == ("opx_http_request_seconds_count", "POST /mcp")
        ] == [1]

    def test_measurements_of_the_library_are_counted(self, server: LocalServer) -> None:
        before = metrics(server)
        for _ in range(3):
            server("GET", "/knowledge/default/search?q=disk")
        server("GET", "/knowledge/default/search?limit=many")
        after = metrics(server)
        assert after["opx_api_requests_total",] - before["opx_api_requests_total",] == 4
        assert after["opx_api_refused_total",] - before["opx_api_refused_total",] == 1
        counted = "opx_query_latency_seconds_count"
        assert (
            sum(v for k, v in after.items() if k[0] == counted) - sum(v for k, v in before.items() if k[0] == counted)
            == 3
        )

    def test_their_times_are_in_seconds(self, server: LocalServer) -> None:
        server("GET", "/knowledge/default/search?q=disk")
        found = metrics(server)
        total = sum(value for key, value in found.items() if key[0] == "opx_query_latency_seconds_sum")
        count = sum(value for key, value in found.items() if key[0] == "opx_query_latency_seconds_count")
        assert 0 < total / count < 100

    def test_levels_fall_as_well_as_rise(self) -> None:
        measured = Measurements()
        for gaps in (7, 3):
            measured(Metric.OPEN_GAPS, gaps, owner="sre")
        text = measured.exposition()[0].decode()
        assert 'opx_open_gaps{owner="sre"} 3.0' in text
        assert "# TYPE opx_open_gaps gauge" in text

"""Prometheus and Loki as sources of `opx ops` and of baselines: commands against a server with their HTTP API."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from opx.connectors.control import reserved_secrets
from opx.errors import KnowledgeConfigError
from opx.ports.telemetry import MetricId
from opx.runtime.knowledge_file import corpus_path
from opx.settings import Settings
from opx.system import bootstrap
from opx_telemetry.baselines.definitions import declared_metrics
from opx_telemetry.capability import telemetry
from opx_telemetry.rules import read_telemetry
from tests.doubles.http_double import Request
from tests.doubles.misbehaving_site import Answer, MisbehavingSite
from tests.support.cli_support import Opx
from tests.support.telemetry_support import fake_stores

RANGE, LINES, SIZE = "/api/v1/query_range", "/loki/api/v1/query_range", "/loki/api/v1/index/stats"
PAGE = "<!DOCTYPE html><html><title>Sign in</title></html>"
DAY = 86_400
Values = Callable[[int], float | str]


def wave(time: int) -> float:
    return 50 + 40 * math.sin(time / 1500)


def series(values: Values = wave, **labels: str) -> tuple[dict[str, str], Values]:
    return labels, values


def matrix(*found: tuple[dict[str, str], Values], **more: Any) -> Callable[[Request], Answer]:
    """Answers with these series at the requested times, as Prometheus does."""

    def answer(request: Request) -> Answer:
        start, end, step = (int(request.parameters[name][:10]) for name in ("start", "end", "step"))
        times = range(start, end + 1, step)
        assert len(times) <= 11_000
        result = [{"metric": one, "values": [[at, str(value(at))] for at in times]} for one, value in found]
        return Answer(200, {"status": "success", "data": {"resultType": "matrix", "result": result}, **more})

    return answer


@dataclass
class Installation:
    """A home whose knowledge.yaml declares the server of a test."""

    folder: Path
    server: MisbehavingSite

    def file(self, telemetry: Mapping[str, Any]) -> Path:
        own = corpus_path("knowledge.yaml")
        assert own is not None
        path = self.folder / "knowledge.yaml"
        text = own.read_text()
        assert text.count("telemetry: {}\n") == 1
        path.write_text(text.replace("telemetry: {}\n", f"telemetry: {json.dumps(telemetry)}\n"))
        return path

    def prometheus(self, *arguments: str, hosts: str | None = None, prefix: str = "", **fields: Any) -> Result:
        declared = {"prometheus": {"url": self.server.url(prefix), **fields}}
        return self._run(declared, arguments, hosts)

    def loki(self, *arguments: str, limits: Mapping[str, Any] | None = None, **fields: Any) -> Result:
        groups = {"shop": '{app="shop"}', "prod-*": '{env="prod", app="$group"}'}
        declared = {"loki": {"url": self.server.url(), "log_groups": groups, **fields}, **(limits or {})}
        return self._run(declared, ("ops", "logs", *arguments), None)

    def _run(self, telemetry: Mapping[str, Any], arguments: tuple[str, ...], hosts: str | None) -> Result:
        allowed = self.server.host if hosts is None else hosts
        environ = {"OPX_KNOWLEDGE_FILE": str(self.file(telemetry)), "OPX_ALLOWED_HOSTS": allowed}
        return Opx(self.folder)(*arguments, **environ)

    @property
    def queries(self) -> list[str]:
        return [request.parameters["query"] for request in self.server.requests]


@pytest.fixture
def opx(tmp_path: Path) -> Iterator[Installation]:
    with MisbehavingSite() as server:
        yield Installation(tmp_path, server)


TWO = {"load": "node_load1{$node}", "requests": "sum by (instance) (rate(http_requests_total{$node}[$period]))"}
COMPARE = ("ops", "metrics", "load", "web-01")


class TestMetrics:
    def test_metrics_that_moved_together_are_found(self, opx: Installation) -> None:
        opx.server.on(RANGE, matrix(series(instance="web-01", job="node")))
        found = json.loads(opx.prometheus(*COMPARE, "--json", metrics=TWO).stdout)
        assert [one["metric"] for one in found["correlated"]] == ["requests"]
        assert (found["partial"], found["notes"], found["periodSeconds"]) == (False, [], 60)

    def test_values_are_those_of_the_periods_that_end_at_the_requested_times(self, opx: Installation) -> None:
        opx.server.on(RANGE, matrix(series(instance="web-01")))
        found = json.loads(opx.prometheus(*COMPARE, "--json", metrics=TWO).stdout)
        first, second = (request.parameters for request in opx.server.requests)
        assert first["query"] == 'node_load1{instance="web-01"}'
        assert second["query"] == 'sum by (instance) (rate(http_requests_total{instance="web-01"}[60s]))'
        assert int(first["end"]) - int(first["start"]) == 179 * 60
        assert int(first["end"]) % 60 == 0
        assert found["to"].endswith(":00Z")

    def test_processor_memory_and_disk_are_the_default(self, opx: Installation) -> None:
        opx.server.on(RANGE, matrix(series(instance="web-01")))
        assert "memory: moved together with it" in opx.prometheus("ops", "metrics", "cpu", "web-01").stdout
        for query, name in zip(opx.queries, ("node_cpu_", "node_memory_", "node_filesystem_"), strict=True):
            assert name in query
            assert 'instance="web-01"' in query
            assert "$" not in query

    def test_node_is_a_quoted_string(self, opx: Installation) -> None:
        opx.server.on(RANGE, matrix())
        opx.prometheus("ops", "metrics", "load", 'x"} or up{$period="\\', metrics=TWO)
        assert opx.queries[0] == 'node_load1{instance="x\\"} or up{$period=\\"\\\\"}'

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"token_env": "PROM_TOKEN"}, {"authorization": "Bearer s3cret"}),
            ({"token_env": "PROM_TOKEN", "user": "opx"}, {"authorization": "Basic b3B4OnMzY3JldA=="}),
            ({"tenant": "team-a|team-b"}, {"x-scope-orgid": "team-a|team-b"}),
        ],
    )
    def test_credentials_and_tenant_are_sent_to_the_prefix(
        self, opx: Installation, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], expected: dict[str, str]
    ) -> None:
        monkeypatch.setenv("PROM_TOKEN", "s3cret\n")
        opx.server.on("/prometheus" + RANGE, matrix(series(instance="web-01")))
        assert opx.prometheus(*COMPARE, metrics=TWO, prefix="/prometheus/", **fields).exit_code == 0
        headers = opx.server.requests[0].headers
        assert {name: headers[name] for name in expected} == expected

    def test_missing_secret_and_private_address_name_the_remedy(self, opx: Installation) -> None:
        missing = opx.prometheus(*COMPARE, metrics=TWO, token_env="PROM_TOKEN_X")
        assert "there is no secret 'PROM_TOKEN_X': set it with `opx secret set PROM_TOKEN_X`" in missing.stderr
        private = opx.prometheus(*COMPARE, metrics=TWO, hosts="")
        assert (private.exit_code, len(opx.server.requests)) == (2, 0)
        assert f"list {opx.server.host} in OPX_ALLOWED_HOSTS" in private.stderr

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (Answer(400, {"status": "error", "errorType": "bad_data", "error": "1:5: parse error"}), "400: 1:5: parse"),
            (Answer(422, {"status": "error", "error": "too many samples"}), "status 422: too many samples"),
            (Answer(503, {"status": "error", "error": "query timed out"}), "status 503: query timed out"),
            (Answer(401, b"no org id\n"), "status 401: the credentials are missing or wrong: no org id"),
            (Answer(502, PAGE), "status 502\n"),
            (Answer(404, b"404 page not found"), "status 404: nothing is there; check the path of url"),
            (Answer(200, PAGE), "the reply is a page of HTML, not JSON"),
            (Answer(200, b'{"status": "succ'), "the reply can't be read"),
            (Answer(200, b'{"a":' + b"[" * 100_000), "the reply can't be read"),
            (Answer(200, {"status": "error", "error": "limit"}), "limit"),
            (Answer(200, {"status": "success", "data": {"resultType": "vector", "result": [1]}}), "can't be read"),
            (Answer(hang_up=True), "the reply broke off"),
        ],
    )
    def test_failures_are_named(self, opx: Installation, answer: Answer, message: str) -> None:
        opx.server.on(RANGE, answer)
        result = opx.prometheus(*COMPARE, metrics=TWO)
        assert result.exit_code == 2
        assert message in result.stderr
        assert len(opx.server.requests) == 1  # nobody waits for a retry

    @pytest.mark.parametrize(
        ("more", "note"),
        [
            ({"warnings": ["store b: unavailable"]}, "load: store b: unavailable"),
            ({"isPartial": True}, "load: the server marks the reply as partial"),
        ],
    )
    def test_incomplete_replies_make_a_partial_answer(self, opx: Installation, more: dict[str, Any], note: str) -> None:
        opx.server.on(RANGE, matrix(series(instance="web-01"), **more))
        found = json.loads(opx.prometheus(*COMPARE, "--json", metrics=TWO).stdout)
        assert (found["partial"], found["notes"][0]) == (True, note)
        assert [one["metric"] for one in found["correlated"]] == ["requests"]

    @pytest.mark.parametrize(
        ("answer", "note"),
        [
            (matrix(series(instance="web-01", cpu="0"), series(instance="web-01", cpu="1")), "2 series for instance"),
            (Answer(400, {"status": "error", "error": "parse error"}), "status 400: parse error"),
            (matrix(series(lambda at: "NaN" if at % 300 else wave(at), instance="web-01")), "144 values are NaN or infinite"),
            (Answer(200, {"status": "success", "data": {"resultType": "matrix", "result": [
                {"metric": {"instance": "web-01"}, "histograms": [[1, {}]]}]}}), "the values are histograms"),
        ],
    )  # fmt: skip
    def test_metric_that_cannot_be_compared_is_noted(self, opx: Installation, answer: Any, note: str) -> None:
        def by_query(request: Request) -> Answer:
            if "node_load1" in request.parameters["query"]:
                return matrix(series(instance="web-01"))(request)
            return answer(request) if callable(answer) else answer  # type: ignore[no-any-return]

        opx.server.on(RANGE, by_query)
        found = json.loads(opx.prometheus(*COMPARE, "--json", metrics=TWO).stdout)
        assert [one["metric"] for one in found["leftOut"]] == ["requests"]
        assert any(one.startswith("requests: ") and note in one for one in found["notes"]), found["notes"]

    def test_node_without_values_is_reported(self, opx: Installation) -> None:
        opx.server.on(RANGE, matrix())
        assert "nothing was compared: load of web-01: no values" in opx.prometheus(*COMPARE, metrics=TWO).stdout

    def test_metrics_that_there_is_no_time_for_are_named(self, opx: Installation) -> None:
        opx.server.on(RANGE, matrix(series(instance="web-01")))
        file = opx.file({"prometheus": {"url": opx.server.url(), "metrics": TWO}})
        clock = iter((0.0, 6.0))
        system = bootstrap(
            Settings(home=str(opx.folder), knowledge_file=str(file), allowed_hosts=opx.server.host),
            clock=lambda: next(clock),
        )
        wanted = [MetricId("prometheus", name, "instance", "web-01") for name in TWO]
        found = system.part(telemetry).prometheus.series(wanted, start=0, end=600, period=60)
        assert (found.complete, found.notes) == (False, ("not read, as time ran out: requests",))


class TestBaselines:
    def test_whole_days_of_every_node_are_rolled_up(self, opx: Installation) -> None:
        opx.server.on(RANGE, matrix(series(instance="web-01"), series(lambda _: 7, instance="web-02")))
        result = opx.prometheus("run", "--once", metrics={"load": {"query": "node_load1{$node}", "unit": "tasks"}})
        assert "baselines: 1,152 values rolled up from Prometheus\n" in result.stdout
        sent = [request.parameters for request in opx.server.requests]
        assert [one["query"] for one in sent] == ['node_load1{instance!=""}'] * 2
        assert [(int(one["start"]) % DAY, int(one["end"]) % DAY, one["step"]) for one in sent] == [(300, 0, "300")] * 2
        found = json.loads(opx.prometheus("baseline", "show", "web-02", "load", "--json").stdout)["baseline"]
        assert (found["count"], found["days"], found["mean"], found["unit"]) == (576, 2, 7, "tasks")
        assert [one["count"] for one in found["byHour"]] == [24] * 24

    @pytest.mark.parametrize(
        ("answer", "line"),
        [
            (matrix(), "baselines: load has no values: does its query fit?"),
            (matrix(series(job="node")), "1 series for instance ''; aggregate the query, as in max by (instance) (...)"),
            (matrix(*(series(lambda _: 1, instance="x") for _ in range(2))), "2 series for instance 'x'"),
            (matrix(series(instance="x"), warnings=["store b"]), "(prometheus warns that values are missing: store b)"),
            (Answer(400, {"status": "error", "error": "parse error"}), "status 400: parse error)"),
            (matrix(series(lambda at: "+Inf" if at % DAY else 1, instance="x")), "574 values refused, such as NaN and"),
        ],
    )  # fmt: skip
    def test_problems_are_lines_of_the_daily_work(self, opx: Installation, answer: Any, line: str) -> None:
        opx.server.on(RANGE, answer)
        result = opx.prometheus("run", "--once", metrics={"load": "node_load1{$node}"})
        assert result.exit_code == 0
        assert line in result.stdout

    def test_failure_hides_no_other_problem(self, opx: Installation) -> None:
        def by_query(request: Request) -> Answer:
            return Answer(400, b"bad") if "bad" in request.parameters["query"] else matrix()(request)

        opx.server.on(RANGE, by_query)
        result = opx.prometheus("run", "--once", metrics={"bad": "bad{$node}", "gone": "gone{$node}"})
        assert "status 400: bad); without any value: gone\n" in result.stdout

    def test_too_many_series_are_refused(self, opx: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("opx_telemetry.prometheus.MOST_SERIES", 2)
        opx.server.on(RANGE, matrix(*(series(instance=str(n)) for n in range(3))))
        result = opx.prometheus("run", "--once", metrics={"load": "node_load1{$node}"})
        assert "load (3 series, of which 2 can be read; match fewer nodes in the query)" in result.stdout


def stream(labels: dict[str, str], *values: tuple[int, str]) -> dict[str, Any]:
    return {"stream": labels, "values": [[str(at * 10**9), text, {"trace": "1"}] for at, text in values]}


def lines(*streams: dict[str, Any], **more: Any) -> Answer:
    stats = {"summary": {"totalBytesProcessed": 1234}}
    data = {"resultType": "streams", "result": streams, "stats": stats}
    return Answer(200, {"status": "success", "data": data, **more})


class TestLogs:
    def test_newest_lines_are_found_with_masked_credentials(self, opx: Installation) -> None:
        first = stream({"app": "shop", "pod": "a"}, (1_750_000_001, "timeout 1"))
        opx.server.on(LINES, lines(first, stream({"pod": "b"}, (1_750_000_002, "timeout 2 password=hunter2hunter2"))))
        found = json.loads(opx.loki("shop", 'timeout "connection  reset." -ping', "--json").stdout)
        sent = opx.server.requests[-1].parameters
        assert sent["query"] == '{app="shop"} |~ "(?i)timeout" |~ "(?i)connection\\\\s+reset\\\\." !~ "(?i)ping"'
        assert (int(sent["end"]) - int(sent["start"]), sent["direction"]) == (3601 * 10**9, "backward")
        assert found["rows"] == []  # the server's reply lacks a word
        found = json.loads(opx.loki("shop", "timeout", "--json").stdout)
        assert [row["stream"] for row in found["rows"]] == ["pod=b", "app=shop, pod=a"]
        assert found["rows"][1]["time"] == "2025-06-15 15:06:41.000"
        assert "hunter2" not in json.dumps(found)
        assert (found["masked"], found["scannedBytes"], found["partial"], found["notes"]) == (1, 1234, False, [])

    def test_words_cannot_end_their_string(self, opx: Installation) -> None:
        opx.server.on(LINES, lines())
        opx.loki("shop", r"a`|~b\ -c")
        assert opx.queries[-1] == r'''{app="shop"} |~ "(?i)a\\`\\|\\~b\\\\" !~ "(?i)c"'''
        opx.loki('prod-x"} or {app="y', "*")
        assert opx.queries[-1] == '{env="prod", app="prod-x\\"} or {app=\\"y"}'

    def test_more_lines_than_the_limit_are_noted(self, opx: Installation) -> None:
        opx.server.on(LINES, lines(stream({}, *((at, "error") for at in range(3)))))
        found = json.loads(opx.loki("shop", "error", "--limit", "2", "--json").stdout)
        assert opx.server.requests[-1].parameters["limit"] == "3"
        assert (len(found["rows"]), found["partial"]) == (2, False)
        assert found["notes"] == ["only the newest 2 lines were read, and Loki doesn't count the others"]

    def test_lines_are_counted_over_time_and_by_stream(self, opx: Installation) -> None:
        opx.server.on(LINES, matrix(series(lambda _: 2, app="shop"), series(lambda _: 1, app="cart")))
        found = json.loads(opx.loki("shop", "error", "--minutes", "30", "--show", "over_time", "--json").stdout)
        assert opx.queries[-1] == 'sum(count_over_time({app="shop"} |~ "(?i)error"[60s]))'
        assert (found["matched"], len(found["rows"]), found["rows"][0]["lines"]) == (90, 30, "3")
        found = json.loads(opx.loki("shop", "error", "--minutes", "30", "--show", "by_stream", "--json").stdout)
        assert opx.queries[-1].startswith("count_over_time(")
        assert found["rows"] == [{"stream": "app=shop", "lines": "60"}, {"stream": "app=cart", "lines": "30"}]

    def test_patterns_are_refused(self, opx: Installation) -> None:
        assert "Loki finds no patterns" in opx.loki("shop", "error", "--show", "patterns").stderr

    def test_query_of_too_many_bytes_is_not_sent(self, opx: Installation) -> None:
        opx.server.page(SIZE, {"streams": 1, "chunks": 2, "entries": 3, "bytes": 9_000_000})
        found = json.loads(opx.loki("shop", "error", "--json", limits={"max_scanned_megabytes": 5}).stdout)
        assert (found["partial"], found["rows"], opx.server.request_count(LINES)) == (True, [], 0)
        assert "as 5 MB may be read; query a shorter time range" in found["notes"][0]

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (Answer(400, b"parse error at line 1, col 6", {"Content-Type": "text/plain"}), "loki: "),
            (Answer(400, b"parse error at line 1, col 6"), "status 400: parse error at line 1, col 6"),
            (Answer(429, b"too many outstanding requests"), "status 429: too many outstanding requests"),
            (Answer(200, PAGE), "the reply is a page of HTML, not JSON"),
            (lines({"stream": {}, "values": [["x", "error"]]}), "malformed number"),
        ],
    )
    def test_failures_are_named(self, opx: Installation, answer: Answer, message: str) -> None:
        opx.server.on(LINES, answer)
        result = opx.loki("shop", "error")
        assert result.exit_code == 2
        assert message in result.stderr

    def test_unlisted_group_is_refused(self, opx: Installation) -> None:
        result = opx.loki("other", "error")
        assert "log group 'other' may not be queried; there are: shop, prod-*" in result.stderr
        assert not opx.server.requests


class TestDeclaration:
    @pytest.mark.parametrize(
        ("section", "message"),
        [
            ("prometheus: {}", "telemetry.prometheus needs the key 'url'"),
            ("prometheus: {url: 'ftp://x'}", "only http:// and https:// addresses"),
            ("prometheus: {url: 'https://a:b@x'}", "credentials in the address of x"),
            ("prometheus: {url: 'https://x/?a=b'}", "must be an address without ? and #"),
            ("prometheus: {url: 'https://x', token_env: 'a b'}", "must be the name of a secret"),
            ("prometheus: {url: 'https://x', user: a}", "user needs token_env"),
            ("prometheus: {url: 'https://x', tenant: é}", "tenant must have characters of ASCII"),
            ("prometheus: {url: 'https://x', node: a-b}", "node must be the name of a label"),
            ("prometheus: {url: 'https://x', metrics: {}}", "metrics is empty"),
            ("prometheus: {url: 'https://x', metrics: {cpu: up}}", "must have $node where labels are matched"),
            ("prometheus: {url: 'https://x', metrics: {cpu: 'up{i=\"$node\"}'}}", "must have $node where labels"),
            ("prometheus: {url: 'https://x', metrics: {a b: 'up{$node}'}}", "must be a name of letters"),
            ("loki: {url: 'https://x'}", "telemetry.loki needs the key 'log_groups'"),
            ("loki: {url: 'https://x', log_groups: {shop: shop}}", "must be a selector of streams"),
            ("loki: {url: 'https://x', log_groups: {'a*': '{a=\"b\"}'}}", "must have $group"),
        ],
    )
    def test_mistakes_are_refused_with_file_and_line(self, tmp_path: Path, section: str, message: str) -> None:
        file = tmp_path / "knowledge.yaml"
        file.write_text(f"default_category: x\ntelemetry:\n  {section}\n")
        with pytest.raises(KnowledgeConfigError) as caught:
            read_telemetry(file)
        assert str(caught.value).startswith(f"{file}:3: ")
        assert message in str(caught.value)

    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            ("  metrics: [{namespace: N, dimension: D, names: [cpu]}]\n", "cpu is a metric of telemetry.prometheus too"),
            ("  log_groups: [shop]\n", "shop is a log group of telemetry.loki too"),
            ("baselines: {metrics: {cpu: {namespace: N, metric: M, node: D}}}\n", "cpu is a metric of telemetry.prom"),
            ("baselines: {metrics: {m: {namespace: prometheus, metric: M, node: D}}}\n", "declare metrics of Prometheus in"),
        ],
    )  # fmt: skip
    def test_name_of_two_sources_is_refused(self, tmp_path: Path, lines: str, message: str) -> None:
        file = tmp_path / "knowledge.yaml"
        servers = "  prometheus: {url: 'https://p'}\n  loki: {url: 'https://l', log_groups: {shop: '{a=\"b\"}'}}\n"
        file.write_text(f"telemetry:\n{servers}{lines}")
        with pytest.raises(KnowledgeConfigError, match=message) as caught:
            declared_metrics(file)
        assert str(caught.value).startswith(f"{file}:4: ")

    def test_each_name_is_read_from_its_own_source(self, opx: Installation) -> None:
        opx.server.on(RANGE, matrix(series(instance="i-1")))
        opx.server.on(LINES, lines(stream({}, (1, "error of Loki"))))
        families = [{"namespace": "AWS/EC2", "dimension": "instance", "names": ["cpu", "net"]}]
        loki = {"url": opx.server.url(), "log_groups": {"shop": '{app="shop"}'}}
        prometheus = {"url": opx.server.url(), "metrics": TWO}
        file = opx.file({"log_groups": ["/ecs/*"], "metrics": families, "prometheus": prometheus, "loki": loki})
        settings = Settings(home=str(opx.folder), knowledge_file=str(file), allowed_hosts=opx.server.host)
        with bootstrap(settings, telemetry_stores=fake_stores()) as system:
            part = system.part(telemetry)
            assert [part.rules.is_in_prometheus(name) for name in ("cpu", "net", "load")] == [False, False, True]
            assert [part.rules.is_in_loki(name) for name in ("/ecs/shop", "shop")] == [False, True]

    def test_secrets_of_servers_are_reserved(self, opx: Installation) -> None:
        loki = {"url": "https://l", "token_env": "LOKI", "log_groups": {"shop": '{a="b"}'}}
        file = opx.file({"prometheus": {"url": "https://p", "token_env": "PROM"}, "loki": loki})
        assert reserved_secrets(Settings(knowledge_file=str(file))) == {
            "PROM": "telemetry from prometheus",
            "LOKI": "telemetry from loki",
        }

"""Ways of values into baselines: the command, the HTTP API, streams, documents, and the nightly roll-up."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambdas.manage_knowledge.handler import make_handler as make_manage
from lambdas.retrieve_knowledge.handler import make_handler as make_retrieve
from lambdas.roll_up_baselines.handler import make_handler as make_roll_up
from opx.domain.baselines import BaselineStats
from opx.domain.scopes import Identity, reader_of
from opx.errors import InvalidInputError, KnowledgeConfigError, StoreUnavailableError
from opx.operations.system import System
from opx.ports.telemetry import MetricQuery, NodeValues
from opx.runtime.functions import FunctionFailedError
from opx.runtime.metrics import Metric
from opx.settings import Settings
from opx_streams.capability import StreamIngestion
from opx_streams.streams.taking import StreamRecord
from opx_telemetry.baselines.definitions import MetricDefinition, RollUp, declared_metrics
from opx_telemetry.capability import baselines, telemetry
from tests.support.api_requests import a_token, call, refusal
from tests.support.cli_support import Opx, word_services
from tests.support.fakes import FakeContext, Measured, function_logs
from tests.support.remote_support import KINDS, opx_at
from tests.support.stream_support import FIFO, REDIS, SystemUnderTest, a_stream, from_kinesis, from_sqs

DAY, HOUR = 86_400, 3600
EVERYONE = reader_of(Identity())
CATEGORY = "operations/baselines"
RECORD = {"node": "web-01", "metric": "cpu", "time_window": "7d", "mean": 41.5, "stddev": 3.0, "samples": 2016}


def baseline(services: System, node: str = "web-01", metric: str = "cpu", window: str = "7d") -> BaselineStats:
    return services.part(baselines).get(EVERYONE, node, metric, window)


class TestCommand:
    @pytest.fixture(params=KINDS)
    def opx(self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opx]:
        with opx_at(request.param, tmp_path, monkeypatch) as opx:
            yield opx

    def test_values_are_added_listed_shown_and_judged(self, opx: Opx) -> None:
        values = [str(40 + n % 5) for n in range(60)]
        assert (
            opx("baseline", "push", "web-01", "cpu", *values, "-3", "--unit", "percent").stdout == "61 values added\n"
        )
        assert "web-01  cpu     percent" in opx("baseline", "list").stdout
        shown = opx("baseline", "show", "web-01", "cpu", "--value", "97.3")
        assert shown.exit_code == 0
        assert "cpu of web-01 (percent), last 7d: 61 values of 1 day" in shown.stdout
        assert "anomalous: 97.3 is above what is usual" in shown.stdout
        found = json.loads(opx("baseline", "show", "web-01", "cpu", "--value", "41", "--json").stdout)
        assert (found["baseline"]["minimum"], found["verdict"]["anomalous"]) == (-3, False)

    def test_baseline_of_a_series_without_values_is_reported_as_no_data(self, opx: Opx) -> None:
        opx("baseline", "push", "web-01", "cpu", "1")
        result = opx("baseline", "show", "web-02", "cpu")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "no data: cpu of web-02 has no values in the last 7d" in result.stderr

    def test_a_file_that_is_pushed_again_is_counted_once(self, opx: Opx, tmp_path: Path) -> None:
        file = tmp_path / "values.csv"
        now = time.time()
        rows = [f"web-01,cpu,{n},{now - n * 60:.0f}," for n in range(1500)]
        file.write_text("\n".join(["Node,metric,value,at,unit", *rows, "web-01,cpu,x,,", ",,,,", "web-01,cpu,1,,,9"]))
        first = opx("baseline", "push", "--file", file)
        assert (first.exit_code, first.stdout) == (1, "1,500 values added, 2 refused\n")
        assert "line 1502: value must be a number" in first.stderr
        assert "line 1504: there are 6 columns" in first.stderr
        assert opx("baseline", "push", "--file", file).stdout == (
            "0 values added, 1,500 were counted before, 2 refused\n"
        )

    def test_json_lines_come_from_stdin(self, opx: Opx) -> None:
        lines = ['{"node": "db", "metric": "lag", "value": 3}', "", "[1]", "{bad", '{"node": "db", "metric": "lag"}']
        result = opx("baseline", "push", "--file", "-", stdin="\n".join(lines))
        assert (result.exit_code, result.stdout) == (1, "1 value added, 3 refused\n")
        assert [line.split(":")[1].strip() for line in result.stderr.splitlines()] == ["line 3", "line 4", "line 5"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("push",), "give NODE METRIC VALUE"),
            (("push", "web-01", "--file", "x.csv"), "give either"),
            (("push", "--file", "nowhere.csv"), "nowhere.csv"),
            (("push", "--file", "-", "--format", "xml"), "csv or jsonl"),
            (("push", "--file", "-", "--format", "csv"), "missing: node, metric, value"),
            (("show", "web-01", "cpu", "--window", "1y"), "must be 1h to 90d"),
            (("show", "web-01", "cpu", "--hour", "3"), "hour goes with value only"),
        ],
    )
    def test_wrong_usage_is_reported(self, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
        opx = Opx(tmp_path)
        opx.home.mkdir()
        result = opx("baseline", *arguments)
        assert result.exit_code == 2
        assert message in result.stderr


def _stored(system: SystemUnderTest, key: str) -> Any:
    with system.services.store.open(key) as stream:
        return json.loads(stream.read())


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with function_logs(), word_services(Settings(home=str(tmp_path / "home"))) as made:
        yield made


class TestApi:
    SHOP = a_token("acme", "shop")

    def test_values_go_to_the_callers_scope_and_others_dont_see_them(self, services: System) -> None:
        manage, retrieve = make_manage(lambda: services), make_retrieve(lambda: services)
        values = [{"node": "web-01", "metric": "cpu", "value": n} for n in range(40)] + [{"node": "web-01"}]
        status, done = call(manage, "add_values", body={"values": values, "batchId": "b-1"}, caller=self.SHOP)
        assert (status, done["added"], done["repeated"]) == (200, 40, 0)
        assert done["refused"][0]["index"] == 40
        again = call(manage, "add_values", body={"values": values, "batchId": "b-1"}, caller=self.SHOP)[1]
        assert (again["added"], again["repeated"]) == (0, 40)
        query = {"node": "web-01", "metric": "cpu", "timeWindow": "24h", "value": "-1e3"}
        found = call(retrieve, "get_baseline_stats", query=query, caller=self.SHOP)[1]
        assert (found["baseline"]["count"], found["verdict"]["anomalous"]) == (40, True)
        for other in (a_token("acme"), a_token("other"), a_token("acme", "blog")):
            assert call(retrieve, "get_baseline_stats", query=query, caller=other)[1]["baseline"]["count"] == 0
            assert call(retrieve, "list_baseline_series", caller=other)[1] == {"series": []}

    def test_series_come_in_pages(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("opx_telemetry.operations.SERIES_A_PAGE", 2)
        services.part(baselines).add([{"node": f"n{n}", "metric": "cpu", "value": 1} for n in range(5)])
        retrieve = make_retrieve(lambda: services)
        seen, after = [], ""
        while True:
            page = call(retrieve, "list_baseline_series", query={"after": after} if after else "")[1]
            seen += [one["node"] for one in page["series"]]
            after = page.get("next", "")
            if not after:
                break
        assert seen == ["n0", "n1", "n2", "n3", "n4"]

    @pytest.mark.parametrize(
        "query",
        [
            {"node": "web-01"},
            {"node": "web-01", "metric": "cpu", "timeWindow": "91d"},
            {"node": "web-01", "metric": "cpu", "value": "high"},
            {"node": "web-01", "metric": "cpu", "value": "nan"},
            {"node": "web-01", "metric": "cpu", "hour": "3"},
            {"node": "web-01", "metric": "cpu", "value": "1", "hour": "24"},
        ],
    )
    def test_wrong_questions_are_refused(self, services: System, query: dict[str, str]) -> None:
        answer = call(make_retrieve(lambda: services), "get_baseline_stats", query=query)
        assert refusal(answer) == (400, "invalid_argument")

    def test_caller_with_read_scope_can_not_add_values(self, services: System) -> None:
        body = {"values": [{"node": "web-01", "metric": "cpu", "value": 1}]}
        answer = call(make_manage(lambda: services), "add_values", body=body, caller=a_token("acme", scopes="opx/read"))
        assert refusal(answer) == (403, "forbidden")


class TestStream:
    @pytest.fixture
    def system(self, tmp_path: Path) -> SystemUnderTest:
        return SystemUnderTest(tmp_path / "home")

    def failures(self, system: SystemUnderTest) -> list[str]:
        list(system.services.manager.work())
        return [failed.object_key for failed in system.services.corpus.failures.items()]

    def test_records_are_added_once_however_often_they_come(self, system: SystemUnderTest) -> None:
        batch = from_kinesis([{"node": "web-01", "metric": "cpu", "value": n} for n in range(40)])
        for _ in range(2):
            assert system.consume(batch, a_stream(category=CATEGORY)) == []
        assert baseline(system.services).count == 40
        assert (system.keys, self.failures(system)) == ([], [])
        assert system.report.counts[Metric.STREAM_RECORDS] == 80

    def test_invalid_stream_record_is_a_failed_item(self, system: SystemUnderTest) -> None:
        records: list[Any] = [b"{cut", b"\xff", [1], {"node": "web-01", "metric": "cpu", "value": "x"}, {"value": 3}]
        records.append({"node": "web-01", "metric": "cpu", "value": 1})
        assert system.consume(from_kinesis(records), a_stream(category=CATEGORY)) == []
        assert baseline(system.services).count == 1
        assert len(self.failures(system)) == 5
        assert "value must be a number, not 'x'" in {_stored(system, key)["refused"] for key in system.keys}

    def test_value_in_another_unit_than_its_series_is_a_failed_item(self, system: SystemUnderTest) -> None:
        records = [{"node": "web-01", "metric": "cpu", "value": 1, "unit": unit} for unit in ("ms", "s")]
        assert system.consume(from_kinesis(records), a_stream(category=CATEGORY)) == []
        assert baseline(system.services).count == 1
        (key,) = self.failures(system)
        assert _stored(system, key)["refused"] == "cpu of web-01 is in ms, not in s: convert it"

    def test_a_stream_of_redis_is_added_record_by_record(self, system: SystemUnderTest) -> None:
        taker = system.services.part(StreamIngestion)._taker_of(a_stream(source=REDIS, category=CATEGORY))
        for position in ("1-0", "2-0", "1-0"):
            assert taker.take(StreamRecord(position, b'{"node": "web-01", "metric": "cpu", "value": 7}')) == position
        assert taker.take(StreamRecord("3-0", None)) == ""
        assert baseline(system.services).count == 2

    def test_a_mapping_has_the_paths_of_the_fields(self, system: SystemUnderTest) -> None:
        paths = {"node": "$.tags.host", "value": "$.fields.usage", "at": "$.time", "metric": "$.name"}
        record = {
            "name": "cpu",
            "tags": {"host": "web-01"},
            "fields": {"usage": 7.5},
            "time": time.time() - HOUR,
            "rest": 1,
        }
        system.consume(from_kinesis([record]), a_stream(category=CATEGORY, json=paths))
        assert baseline(system.services).mean == 7.5

    def test_unwanted_records_are_left_out(self, system: SystemUnderTest) -> None:
        records = [{"node": "web-01", "metric": name, "value": 1} for name in ("cpu", "disk")]
        system.consume(from_kinesis(records), a_stream(category=CATEGORY, filter={"metric": ["cpu"]}))
        assert [one.metric for one in system.services.part(baselines).series(EVERYONE)] == ["cpu"]
        assert system.report.counts[Metric.STREAM_RECORDS_UNWANTED] == 1

    def test_computed_baselines_may_come_in_a_stream_too(self, system: SystemUnderTest) -> None:
        system.consume(from_kinesis([RECORD]), a_stream(category=CATEGORY))
        assert baseline(system.services).mean == 41.5

    def test_while_the_store_is_away_all_come_again(
        self, system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: Any, **__: Any) -> None:
            raise StoreUnavailableError("away")

        batch = from_sqs([{"node": "web-01", "metric": "cpu", "value": n} for n in range(3)], FIFO, groups="aab")
        stream = a_stream(source=FIFO, category=CATEGORY)
        with monkeypatch.context() as outage:
            outage.setattr(system.services.part(baselines), "add", away)
            assert system.consume(batch, stream) == ["m-0", "m-1", "m-2"]
        assert system.consume(batch, stream) == []
        assert baseline(system.services).count == 3

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"identity": "$.id"}, "no identity"),
            ({"tags": ["a"]}, "no tags"),
            ({"json": {"host": "$.h"}}, "json has no 'host'"),
            ({"json": ["$.h"]}, "json must be a mapping"),
            ({"json": {"node": "$["}}, "not a JSONPath"),
            ({"category": "operations/incidents", "json": {"node": "$.h"}}, "no json"),
        ],
    )
    def test_invalid_options_of_such_a_stream_are_refused(self, given: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            a_stream(**{"category": CATEGORY, **given})


class TestDocuments:
    def test_a_record_of_the_category_is_what_is_answered_and_kept_as_a_document(self, services: System) -> None:
        document_id = services.manager.ingest_document("internal", CATEGORY, RECORD)
        found = baseline(services)
        assert (found.count, found.mean, found.stddev) == (2016, 41.5, 3.0)
        (kept,) = services.corpus.catalog.find(document_id)
        assert (kept.title, kept.category) == ("cpu of web-01", CATEGORY)
        assert list(services.corpus.failures.items()) == []

    @pytest.mark.parametrize(
        ("record", "message"),
        [
            ({name: part for name, part in RECORD.items() if name != "samples"}, "samples is missing"),
            ({"node": "a", "metric": "b", "value": 1}, "opx baseline push"),
        ],
    )
    def test_another_one_is_refused_before_it_is_put(
        self, services: System, record: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=message):
            services.manager.ingest_document("internal", CATEGORY, record)
        assert list(services.store.list("documents/")) == []


CPU = MetricDefinition("cpu", MetricQuery("AWS/EC2", "CPUUtilization", "InstanceId"), "percent")
DISK = MetricDefinition("disk", MetricQuery("CWAgent", "disk_used_percent", "host"))


class Readings:
    """Three nodes with a value every five minutes. Metrics of `broken` can't be read."""

    def __init__(self) -> None:
        self.reads: list[tuple[str, float, float]] = []
        self.broken: set[str] = set()
        self.level = 10.0

    def values(self, query: MetricQuery, start: float, end: float) -> Iterator[NodeValues]:
        self.reads.append((query.metric, start, end))
        for node in ("a", "b", "c"):
            if query.metric in self.broken and node == "b":
                raise StoreUnavailableError("throttled")
            yield NodeValues(node, tuple((start + 300 * n, self.level) for n in range(int(end - start) // 300)))


class TestRollUp:
    @pytest.fixture
    def readings(self) -> Readings:
        return Readings()

    def roll_up(self, services: System, readings: Readings, report: Any = None) -> RollUp:
        more = {"report": report} if report else {}
        return RollUp((CPU, DISK), readings, services.part(baselines), clock=services.clock, **more)

    def test_the_last_whole_days_are_rolled_up(self, services: System, readings: Readings) -> None:
        report = Measured()
        done = self.roll_up(services, readings, report).run()
        today = services.clock() // DAY * DAY
        assert [(start, end) for name, start, end in readings.reads if name == "CPUUtilization"] == [
            (today - 2 * DAY, today - DAY),
            (today - DAY, today),
        ]
        assert (done.values, done.nodes, done.refused) == (2 * 2 * 3 * 288, 12, 0)
        assert report.values[Metric.BASELINE_VALUES] == [3456]
        found = baseline(services, "a")
        assert (found.count, found.days, found.unit, len(found.by_hour)) == (576, 2, "percent", 24)

    def test_a_day_again_replaces_what_was_there(self, services: System, readings: Readings) -> None:
        self.roll_up(services, readings).run()
        readings.level = 20.0
        self.roll_up(services, readings).run(1)
        found = baseline(services, "a")
        assert (found.count, found.minimum, found.maximum) == (576, 10, 20)

    def test_one_that_fails_keeps_no_other_back_and_is_reported_at_the_end(
        self, services: System, readings: Readings
    ) -> None:
        readings.broken = {"CPUUtilization"}
        with pytest.raises(StoreUnavailableError, match="cpu"):
            self.roll_up(services, readings).run()
        assert baseline(services, "a", "disk").count == 576

    @pytest.mark.parametrize("days", [0, 90, True, "2", None])
    def test_other_numbers_of_days_are_refused(self, services: System, readings: Readings, days: Any) -> None:
        with pytest.raises(InvalidInputError, match="days"):
            self.roll_up(services, readings).run(days)

    def test_the_function_rolls_up_what_the_file_declares(
        self, services: System, readings: Readings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("opx_telemetry.baselines.definitions.declared_metrics", lambda path: (CPU,))
        services.part(telemetry).metric_reader = readings
        handler = make_roll_up(lambda: services)
        assert handler({"days": 1}, FakeContext()) == {
            "values": 864,
            "nodes": 3,
            "refused": 0,
            "failed": (),
            "empty": (),
        }

    def test_without_aws_there_is_nothing_to_roll_up(self, services: System) -> None:
        with pytest.raises(FunctionFailedError, match="InvalidInputError"):
            make_roll_up(lambda: services)({}, FakeContext())


class TestDeclarations:
    def declared(self, tmp_path: Path, text: str) -> tuple[MetricDefinition, ...]:
        file = tmp_path / "knowledge.yaml"
        file.write_text(f"default_category: x\n{text}\n")
        return declared_metrics(file)

    def test_the_repositorys_own_file_can_be_read(self) -> None:
        assert declared_metrics() == ()

    def test_metrics_are_read_with_their_defaults(self, tmp_path: Path) -> None:
        text = "{cpu: {namespace: AWS/EC2, metric: CPUUtilization, node: InstanceId, unit: percent}}"
        assert self.declared(tmp_path, f"baselines: {{metrics: {text}}}") == (CPU,)
        assert self.declared(tmp_path, "") == ()
        assert self.declared(tmp_path, "baselines: {}") == ()

    def test_every_field_can_be_declared(self, tmp_path: Path) -> None:
        text = "{p: {namespace: N, metric: M, node: I, statistic: p99.9, period: 60, dimensions: {J: x}}}"
        (found,) = self.declared(tmp_path, f"baselines: {{metrics: {text}}}")
        assert found.query == MetricQuery("N", "M", "I", "p99.9", 60, {"J": "x"})

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ("{metric: M, node: I}", "namespace"),
            ("{namespace: N, metric: M, node: I, stat: p99}", "unknown key 'stat'"),
            ("{namespace: N, metric: M, node: I, statistic: Mean}", "unknown statistic 'Mean'"),
            ("{namespace: N, metric: M, node: I, period: 90}", "period 90"),
            ("{namespace: N, metric: M, node: I, period: 420}", "period 420"),
            ("{namespace: N, metric: M, node: I, period: 0}", "period 0"),
            ("{namespace: N, metric: M, node: I, dimensions: {I: x}}", "names the node"),
        ],
    )
    def test_mistakes_are_refused_with_file_and_line(self, tmp_path: Path, entry: str, message: str) -> None:
        with pytest.raises(KnowledgeConfigError, match=message) as caught:
            self.declared(tmp_path, f"baselines:\n  metrics:\n    cpu: {entry}")
        assert str(caught.value).startswith(f"{tmp_path / 'knowledge.yaml'}:4: ")

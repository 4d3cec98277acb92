"""Files of alerting rules: stated alerts, runbooks that their addresses refer to, and invalid files."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from opx.domain.documents import KnowledgeDocument, Revision
from opx.domain.knowledge import Tier
from opx.domain.scopes import Scope
from opx.formats.data.alert_rules import (
    MAX_BYTES,
    AlertRule,
    UnreadableRulesError,
    is_rule_file,
    read_rules,
)
from opx.graph.bindings import Runbooks
from opx.graph.extraction.own_node import runbook_at
from tests.support.extraction_support import Extracted, Extraction

RULES = """\
groups:
  - name: kafka
    rules:
      - record: job:lag:sum
        expr: sum by (job) (lag)
      - alert: KafkaLag
        expr: job:lag:sum > 100
        labels: {severity: critical}
        annotations:
          summary: "{{ $labels.group }} is behind"
          runbook_url: https://wiki.example.com/runbooks/kafka/lag.html#causes
      - alert: KafkaDown
        annotations: {runbook: runbooks/kafka-down.md}
"""
OPERATOR = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: kafka}\nspec:\n  "
PLAIN = """\
alerts:
  - {name: KafkaLag, runbook: runbooks/kafka/lag.md, severity: critical, summary: Behind}
  - {name: KafkaDown}
"""


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return Extraction(tmp_path_factory.mktemp("rules"))


def stated(extraction: Extraction, content: str) -> Extracted:
    return extraction.extract(content, "alert-rules/kafka.yaml")


def rules_of(content: str | bytes) -> list[AlertRule]:
    return list(read_rules(content.encode() if isinstance(content, str) else content).rules)


def a_runbook(source: str, *, client: str = "", address: str = "", title: str = "") -> KnowledgeDocument:
    return KnowledgeDocument(
        document_id="0" * 32,
        title=title or source,
        category="runbooks/procedures",
        tier=Tier.INTERNAL,
        location=f"file:///{source}",
        source_uri=address or source,
        metadata=Revision(last_updated="2026-01-01T00:00:00Z"),
        created_at="2026-01-01T00:00:00Z",
        scope=Scope(client),
        source=f"documents/{source}",
        trust=1.0,
    )


# -- statements of a file


def test_each_alert_is_declared_with_the_facts_of_its_rule(extraction: Extraction) -> None:
    node = stated(extraction, RULES).node("alert:kafkalag")
    assert node.declared
    assert node.properties == {
        "name": "KafkaLag",
        "severity": "critical",
        "summary": "{{ $labels.group }} is behind",
        "expr": "job:lag:sum > 100",
        "runbook": "https://wiki.example.com/runbooks/kafka/lag.html#causes",
    }


def test_runbooks_of_addresses_and_paths_handle_their_alerts(extraction: Extraction) -> None:
    handled = {
        (one.source, one.target)
        for one in stated(extraction, RULES).statements.edges
        if one.edge_type == "handles" and one.rule == "alert rule"
    }
    assert handled == {("runbook:kafka/lag", "alert:kafkalag"), ("runbook:kafka-down", "alert:kafkadown")}


@pytest.mark.parametrize(
    "content",
    [
        RULES,
        OPERATOR + RULES.replace("\n", "\n  "),
        "kind: List\nitems:\n- spec:\n    " + RULES.replace("\n", "\n    "),
        PLAIN,
        "# nothing\n---\n" + PLAIN,
    ],
)
def test_alerts_are_read_in_every_form(content: str) -> None:
    assert [rule.name for rule in rules_of(content)] == ["KafkaLag", "KafkaDown"]


def test_a_rule_of_a_plain_list_is_read_with_all_its_fields() -> None:
    assert rules_of(PLAIN)[0] == AlertRule(
        "KafkaLag",
        2,
        severity="critical",
        summary="Behind",
        runbook="runbooks/kafka/lag.md",
        labels={"severity": "critical"},
    )


def test_a_secret_in_a_rule_is_masked(extraction: Extraction) -> None:
    extracted = stated(extraction, "alerts:\n  - {name: Leak, summary: 'use AKIAJ5Q2M7X9K3W8R4T6'}\n")
    assert "AKIAJ5Q2M7X9K3W8R4T6" not in str(extracted.node("alert:leak").properties)


# -- what other systems export

GRAFANA: dict[str, Any] = {
    "apiVersion": 1,
    "groups": [
        {
            "orgId": 1,
            "name": "eval",
            "folder": "billing",
            "interval": "1m",
            "rules": [
                {
                    "uid": "ab1",
                    "title": "Billing is slow",
                    "condition": "C",
                    "data": [{"refId": "A"}],
                    "labels": {"severity": "critical"},
                    "annotations": {"runbook_url": "https://wiki/billing", "summary": "Slow"},
                }
            ],
        }
    ],
}
REPLY = {
    "status": "success",
    "data": {
        "groups": [
            {
                "name": "x",
                "file": "/etc/x.yml",
                "rules": [
                    {"type": "recording", "name": "job:up", "query": "sum(up)"},
                    {
                        "type": "alerting",
                        "name": "QueueFull",
                        "query": "queue > 9",
                        "labels": {"severity": "page"},
                        "annotations": {"runbook_url": "https://wiki/queue"},
                        "alerts": [{"labels": {"alertname": "QueueFull"}}],
                    },
                ],
            }
        ]
    },
}
ALARMS = {
    "MetricAlarms": [
        {"AlarmName": "cpu", "AlarmDescription": "Board: https://g/d. Runbook: https://wiki/cpu.md#fix."},
        {"AlarmName": "disk", "AlarmDescription": "see (https://wiki/disk_(full))"},
        {"AlarmName": "bare"},
    ],
    "CompositeAlarms": [{"AlarmName": "both", "AlarmRule": "ALARM(cpu) AND ALARM(disk)"}],
}
MONITORS = [
    {
        "id": 7,
        "name": "Queue is deep \U0001f6a8",
        "type": "query alert",
        "query": "avg(last_5m):q > 1",
        "message": "{{#is_alert}}Deep{{/is_alert}} [Runbook](https://wiki/deep) @pagerduty-ops",
        "tags": ["team:a"],
    }
]


@pytest.mark.parametrize(
    ("exported", "expected"),
    [
        (GRAFANA, [("Billing is slow", "critical", "https://wiki/billing")]),
        (
            GRAFANA["groups"][0]["rules"][0] | {"ruleGroup": "eval"},
            [("Billing is slow", "critical", "https://wiki/billing")],
        ),
        ({"folder": [{"name": "g", "rules": [{"expr": "", "grafana_alert": {"title": "Slow"}}]}]}, [("Slow", "", "")]),
        (REPLY, [("QueueFull", "page", "https://wiki/queue")]),
        (
            ALARMS,
            [
                ("cpu", "", "https://wiki/cpu.md#fix"),
                ("disk", "", "https://wiki/disk_(full)"),
                ("bare", "", ""),
                ("both", "", ""),
            ],
        ),
        (MONITORS, [("Queue is deep \U0001f6a8", "", "https://wiki/deep")]),
        ({"monitors": MONITORS}, [("Queue is deep \U0001f6a8", "", "https://wiki/deep")]),
        (MONITORS[0], [("Queue is deep \U0001f6a8", "", "https://wiki/deep")]),
    ],
)
def test_alerts_of_other_systems_are_read(exported: object, expected: list[tuple[str, str, str]]) -> None:
    for data in (json.dumps(exported), yaml.safe_dump(exported)):
        assert [(rule.name, rule.severity, rule.runbook) for rule in rules_of(data)] == expected


def test_an_address_in_a_description_counts_only_if_it_is_called_a_runbook() -> None:
    rule = "groups: [{rules: [{alert: A, expr: x, annotations: {description: '%s'}}]}]"
    assert rules_of(rule % "see https://wiki/a")[0].runbook == ""
    assert rules_of(rule % "see https://wiki/a, playbook https://wiki/b")[0].runbook == "https://wiki/b"


@pytest.mark.parametrize(
    ("text", "runbook"),
    [
        ("CPU is high. Runbook: runbooks/cpu-high.md", "runbooks/cpu-high.md"),
        ("Playbook is `../ops/cpu.html#causes`.", "../ops/cpu.html#causes"),
        ("Runbook: cpu.md. Graphs: https://graphs/cpu", "cpu.md"),
        ("Runbook: runbooks/cpu.md or https://wiki/runbook/cpu", "https://wiki/runbook/cpu"),
        ("There is no runbook yet, log in cpu.txt", ""),
        ("See runbooks/cpu-high.md", ""),
        ("Runbook: ask the team", ""),
    ],
)
def test_a_path_right_after_a_word_for_runbooks_is_the_runbook(text: str, runbook: str) -> None:
    alarms = {"MetricAlarms": [{"AlarmName": "cpu", "AlarmDescription": text}]}
    assert rules_of(json.dumps(alarms))[0].runbook == runbook


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_with_a_mark_of_their_encoding_are_read(encoding: str) -> None:
    assert rules_of(json.dumps(ALARMS).encode(encoding))[0].name == "cpu"


def test_labels_that_a_mapping_merges_are_read() -> None:
    found = rules_of("x: &x {severity: critical, team: a}\ngroups: [{rules: [{alert: A, labels: {<<: *x, team: b}}]}]")
    assert dict(found[0].labels) == {"severity": "critical", "team": "b"}


def test_labels_with_a_template_are_none_that_every_alert_has() -> None:
    found = rules_of("groups: [{rules: [{alert: A, labels: {severity: '{{ $x }}', team: b}}]}]")
    assert dict(found[0].labels) == {"team": "b"}


def test_a_rule_without_a_name_is_left_out_and_named_by_its_line() -> None:
    found = read_rules(b"groups:\n- rules:\n  - expr: x\n  - alert: {a: b}\n  - alert: A\n")
    assert [rule.name for rule in found.rules] == ["A"]
    assert list(found.problems) == [
        "line 3: a rule without a name is left out",
        "line 4: a rule without a name is left out",
    ]


def test_each_severity_of_an_alert_is_stated_with_its_runbook(extraction: Extraction) -> None:
    extracted = stated(
        extraction,
        "groups:\n- rules:\n"
        "  - {alert: Lag, labels: {severity: warning}, annotations: {runbook_url: 'https://wiki/warn'}}\n"
        "  - {alert: Lag, labels: {severity: critical}, annotations: {runbook_url: 'https://wiki/crit'}}\n",
    )
    assert extracted.node("alert:lag").properties["severity"] == "warning, critical"
    named = {
        one.source: (one.properties["runbook"], json.loads(str(one.properties["when"])))
        for one in extracted.statements.edges
        if one.edge_type == "handles" and one.rule == "alert rule"
    }
    assert named == {
        "runbook:warn": ("https://wiki/warn", [{"severity": "warning"}]),
        "runbook:crit": ("https://wiki/crit", [{"severity": "critical"}]),
    }


# -- files that are recognised


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (RULES, True),
        (OPERATOR + RULES.replace("\n", "\n  "), True),
        ("kind: List\nitems:\n- spec:\n    " + RULES.replace("\n", "\n    "), True),
        (json.dumps(GRAFANA), True),
        (json.dumps(REPLY), True),
        (json.dumps(ALARMS), True),
        (json.dumps(MONITORS), True),
        (RULES + "---\nkind: Deployment\n", False),
        ("groups: [{name: x, rules: [{record: a, expr: b}]}]", False),
        ("groups: [admins, users]\nusers: []", False),
        ("groups: [", False),
        (PLAIN, False),
        (json.dumps({"alerts": [{"name": "x", "query": "y"}], "groupLabels": {}}), False),
        (json.dumps({"title": "How to query", "alert": "X", "query": "y"}), False),
    ],
)
def test_only_what_has_nothing_but_rules_is_recognised(content: str, expected: bool) -> None:
    assert is_rule_file(content.encode()) is expected


# -- files that can't be read


@pytest.mark.parametrize(
    ("data", "line", "problem"),
    [
        (b"groups:\n  - name: x\n   rules: [\n", 3, "it is no YAML"),
        (b"alerts: []\n\xff", 2, "it is not UTF-8"),
        (b"a: " + b"[" * 60 + b"]" * 60, 1, "nested deeper"),
        (b"#" * (MAX_BYTES + 1), 0, "more than 4 MiB"),
        (b" \n", 0, "it is empty"),
        (b"a\0b", 0, "it is binary data"),
        (b'{"a":' * 100_000, 0, "nested deeper"),
        (b"groups:\n- name: {{ .Values.name }}-x\n", 2, "it is a template"),
        (b"groups:\n{{- if $on }}\n- rules: []\n{{- end }}\n", 3, "it is a template"),
    ],
)
def test_an_unreadable_file_names_its_line(data: bytes, line: int, problem: str) -> None:
    with pytest.raises(UnreadableRulesError, match=problem) as refused:
        read_rules(data)
    assert refused.value.line == line


def test_a_file_that_unfolds_by_aliases_is_refused() -> None:
    rules = "&r [" + ", ".join(["{alert: x}"] * 1000) + "]"
    data = f"groups:\n- &g {{rules: {rules}}}\n" + "- *g\n" * 1000
    with pytest.raises(UnreadableRulesError, match="more than 300,000"):
        read_rules(data.encode())


@pytest.mark.parametrize("content", ["groups: 3", "alerts: {a: b}", "[1, 2]", "text", "groups: [{rules: [x, [y]]}]"])
def test_content_without_alerts_has_no_rules(content: str) -> None:
    assert rules_of(content) == []


def test_an_unreadable_document_has_a_remark_with_the_line(extraction: Extraction) -> None:
    assert "can't be read, line 3" in stated(extraction, "alerts:\n- {name: [\n").remarks


# -- runbooks by the addresses that rules name


@pytest.mark.parametrize(
    ("address", "reference"),
    [
        ("https://wiki/runbooks/kafka/lag.html#causes", "runbook:kafka/lag"),
        ("https://wiki/ops/KafkaLag", "runbook:kafkalag"),
        ("https://wiki/ops/kafka-lag/index.html?v=1", "runbook:kafka-lag"),
        ("runbooks/kafka-lag.md#causes", "runbook:kafka-lag"),
        ("kafka-lag", "runbook:kafka-lag"),
        ("https://wiki/", ""),
        ("https://wiki/{{ $labels.alertname }}", ""),
        ("https://wiki/lag?pod={{ $labels.pod }}#fix", "runbook:lag"),
        ("https://[", ""),
        ("", ""),
    ],
)
def test_an_address_refers_to_the_runbook_at_its_end(address: str, reference: str) -> None:
    assert runbook_at(address) == reference


class TestRunbooks:
    def test_file_name_at_the_end_of_an_address_is_found(self) -> None:
        page = a_runbook("runbooks/kafka-lag.md")
        assert Runbooks([page], ["global"]).at("https://git.example.com/x/blob/main/Kafka-Lag.md#fix") == page

    def test_address_that_the_page_came_from_comes_first(self) -> None:
        page = a_runbook("runbooks/12345.md", address="https://wiki.example.com/pages/Lag/")
        other = a_runbook("runbooks/lag.md")
        assert Runbooks([page, other], ["global"]).at("http://wiki.example.com/pages/lag#causes") == page

    def test_folders_distinguish_pages_of_one_name(self) -> None:
        pages = [a_runbook("runbooks/kafka/lag.md"), a_runbook("runbooks/mysql/lag.md")]
        runbooks = Runbooks(pages, ["global"])
        assert runbooks.at("https://wiki/mysql/lag") == pages[1]
        assert runbooks.at("https://wiki/redis/lag") is None

    def test_page_of_the_narrowest_scope_is_meant(self) -> None:
        pages = [a_runbook("runbooks/lag.md", client="acme"), a_runbook("runbooks/lag.md")]
        assert Runbooks(pages, ["global", "client:acme"]).at("lag.md") == pages[0]

    @pytest.mark.parametrize(
        ("source", "title"),
        [
            ("runbooks/x.md", "KafkaBrokerDown"),
            ("runbooks/x.md", "Alert: KafkaBrokerDown"),
            ("runbooks/x.md", "Runbook: KafkaBrokerDown"),
            ("runbooks/x.md", "Runbook \u2013 `KafkaBrokerDown`"),
            ("runbooks/x.md", "Broker lost (KafkaBrokerDown)"),
            ("runbooks/x.md", "Broker lost (`KafkaBrokerDown`)"),
            ("runbooks/x.md", "Broker lost: KafkaBrokerDown"),
            ("runbooks/x.md", "Broker lost \u2013 KafkaBrokerDown"),
            ("runbooks/KafkaBrokerDown.md", "Brokers"),
            ("runbooks/kafka-broker-down.md", "Brokers"),
            ("runbooks/kafka/kafka_broker_down/README.md", "Brokers"),
        ],
    )
    def test_page_is_called_by_its_title_or_its_file_name(self, source: str, title: str) -> None:
        page = a_runbook(source, title=title)
        assert Runbooks([page], ["global"]).called("KafkaBrokerDown") == [page]

    @pytest.mark.parametrize(
        ("title", "name"),
        [
            ("KafkaBrokerDown and others", "KafkaBrokerDown"),
            ("Broker (KafkaBrokerDown) and others", "KafkaBrokerDown"),
            ("Postgres (read-only)", "ReadOnly"),
            ("Disk: critical", "critical"),
            ("Kafka - out-of-memory", "OutOfMemory"),
            ("CPU < 10", "CPU > 10"),
            ("Version 1.5", "Version15"),
            ("Runbook:", "Runbook"),
            ("Runbook:", ""),
        ],
    )
    def test_page_with_another_name_is_not_meant(self, title: str, name: str) -> None:
        assert Runbooks([a_runbook("runbooks/x.md", title=title)], ["global"]).called(name) == []

    def test_all_pages_of_a_name_are_given_in_the_narrowest_scope(self) -> None:
        pages = [a_runbook("runbooks/down.md"), a_runbook("runbooks/x.md", title="Alert: Down")]
        own = a_runbook("runbooks/down.md", client="acme")
        assert Runbooks(pages, ["global", "client:acme"]).called("Down") == pages
        assert Runbooks([*pages, own], ["global", "client:acme"]).called("Down") == [own]

    @pytest.mark.parametrize("address", ["", "https://wiki", "/", "https://wiki/lag2"])
    def test_other_addresses_refer_to_no_runbook(self, address: str) -> None:
        assert Runbooks([a_runbook("runbooks/lag.md")], ["global"]).at(address) is None


def test_a_hundred_thousand_alerts_are_read() -> None:
    data = b"alerts:\n" + b"".join(b"- {name: A%d}\n" % number for number in range(100_000))
    assert len(read_rules(data).rules) == 100_000


# -- templates, stacks and alerts that fired

HELM = b"""\
groups:
- name: a
  rules:
{{- if .Values.on }}
  - alert: KafkaDown
    expr: up == 0
    labels:
      severity: critical
    annotations:
      summary: {{ .Values.summary }}
      runbook_url: https://wiki/kafka-down.md
  - alert: {{ .Values.prefix }}Lag
{{- end }}
"""


def test_a_template_that_is_no_yaml_is_read_line_by_line() -> None:
    found = read_rules(HELM)
    assert [(one.name, one.line, one.severity, one.runbook) for one in found.rules] == [
        ("KafkaDown", 5, "critical", "https://wiki/kafka-down.md")
    ]
    assert [problem.partition(":")[0] for problem in found.problems] == ["a template and no YAML", "line 12"]
    assert not is_rule_file(HELM)


def test_alarms_of_a_stack_have_their_names_or_their_logical_ids() -> None:
    alarm = "  {}: {{Type: AWS::CloudWatch::Alarm, Properties: {{AlarmName: {}, AlarmDescription: see runbook {}}}}}\n"
    page = "https://wiki/cpu.md"
    resources = alarm.format("Cpu", "!Sub '${Env}-cpu'", page) + alarm.format("Disk", "disk-full", page)
    resources += "  Topic: {Type: AWS::SNS::Topic}\n"
    found = read_rules(f"Resources:\n{resources}".encode())
    assert [(one.name, one.runbook) for one in found.rules] == [
        ("Cpu", "https://wiki/cpu.md"),
        ("disk-full", "https://wiki/cpu.md"),
    ]


@pytest.mark.parametrize("around", ["%s", '{"alerts": %s}'])
def test_alerts_of_alertmanager_count_once_each(around: str) -> None:
    one = (
        '{"labels": {"alertname": "KafkaDown", "severity": "page"}, "annotations": {"summary": "%d"}, "startsAt": "x"}'
    )
    found = read_rules((around % f"[{one % 1}, {one % 2}]").encode())
    assert [(rule.name, rule.severity, rule.summary) for rule in found.rules] == [("KafkaDown", "page", "1")]

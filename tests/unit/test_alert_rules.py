"""Rules of alerts: what a file states, the runbooks that places mean, and what is wrong with files."""

from __future__ import annotations

import pytest

from opx.domain.documents import KnowledgeDocument, Revision
from opx.domain.knowledge import Tier
from opx.domain.scopes import Scope
from opx.graph.extraction.alert_rules import (
    MAX_BYTES,
    AlertRule,
    UnreadableRulesError,
    read_rules,
)
from opx.graph.extraction.own_node import runbook_at
from opx.operations.bindings import Runbooks
from tests.unit.extraction_support import Extraction, Said

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


def stated(extraction: Extraction, content: str) -> Said:
    return extraction.said(content, "alert-rules/kafka.yaml")


def a_runbook(source: str, *, client: str = "", address: str = "") -> KnowledgeDocument:
    return KnowledgeDocument(
        document_id="0" * 32,
        title=source,
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


# -- what a file states


def test_each_alert_is_declared_with_what_its_rule_says(extraction: Extraction) -> None:
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
    assert [rule.name for rule in read_rules(content.encode())] == ["KafkaLag", "KafkaDown"]


def test_a_rule_of_a_plain_list_is_read_with_all_its_fields() -> None:
    assert read_rules(PLAIN.encode())[0] == AlertRule(
        "KafkaLag", 2, severity="critical", summary="Behind", runbook="runbooks/kafka/lag.md"
    )


def test_a_secret_in_a_rule_is_masked(extraction: Extraction) -> None:
    said = stated(extraction, "alerts:\n  - {name: Leak, summary: 'use AKIAJ5Q2M7X9K3W8R4T6'}\n")
    assert "AKIAJ5Q2M7X9K3W8R4T6" not in str(said.node("alert:leak").properties)


# -- files that can't be read


@pytest.mark.parametrize(
    ("data", "line", "problem"),
    [
        (b"groups:\n  - name: x\n   rules: [\n", 3, "it is no YAML"),
        (b"alerts: []\n\xff", 2, "it is not UTF-8"),
        (b"a: " + b"[" * 60 + b"]" * 60, 1, "nested deeper"),
        (b"#" * (MAX_BYTES + 1), 0, "more than 4 MiB"),
    ],
)
def test_an_unreadable_file_names_its_line(data: bytes, line: int, problem: str) -> None:
    with pytest.raises(UnreadableRulesError, match=problem) as refused:
        read_rules(data)
    assert refused.value.line == line


def test_a_file_that_unfolds_by_aliases_is_refused() -> None:
    rules = "&r [" + ", ".join(["{record: x}"] * 1000) + "]"
    data = f"groups:\n- &g {{rules: {rules}}}\n" + "- *g\n" * 1000
    with pytest.raises(UnreadableRulesError, match="more than 300,000"):
        read_rules(data.encode())


@pytest.mark.parametrize("content", ["groups: 3", "alerts: {a: b}", "[1, 2]", "text", "groups: [{rules: [x, [y]]}]"])
def test_what_has_no_alerts_gives_none(content: str) -> None:
    assert read_rules(content.encode()) == []


def test_an_unreadable_document_has_a_remark_with_the_line(extraction: Extraction) -> None:
    assert "can't be read, line 3" in stated(extraction, "alerts:\n- {name: [\n").remarks


# -- runbooks by the places that rules name


@pytest.mark.parametrize(
    ("place", "reference"),
    [
        ("https://wiki/runbooks/kafka/lag.html#causes", "runbook:kafka/lag"),
        ("https://wiki/ops/KafkaLag", "runbook:kafkalag"),
        ("https://wiki/ops/kafka-lag/index.html?v=1", "runbook:kafka-lag"),
        ("runbooks/kafka-lag.md#causes", "runbook:kafka-lag"),
        ("kafka-lag", "runbook:kafka-lag"),
        ("https://wiki/", ""),
        ("https://wiki/{{ $labels.alertname }}", ""),
        ("https://[", ""),
        ("", ""),
    ],
)
def test_a_place_means_the_runbook_at_its_end(place: str, reference: str) -> None:
    assert runbook_at(place) == reference


class TestRunbooks:
    def test_file_name_at_the_end_of_an_address_is_found(self) -> None:
        page = a_runbook("runbooks/kafka-lag.md")
        assert Runbooks([page], ["global"]).at("https://git.example.com/x/blob/main/Kafka-Lag.md#fix") == page

    def test_address_that_the_page_came_from_comes_first(self) -> None:
        page = a_runbook("runbooks/12345.md", address="https://wiki.example.com/pages/Lag/")
        other = a_runbook("runbooks/lag.md")
        assert Runbooks([page, other], ["global"]).at("http://wiki.example.com/pages/lag#causes") == page

    def test_folders_tell_pages_of_one_name_apart(self) -> None:
        pages = [a_runbook("runbooks/kafka/lag.md"), a_runbook("runbooks/mysql/lag.md")]
        runbooks = Runbooks(pages, ["global"])
        assert runbooks.at("https://wiki/mysql/lag") == pages[1]
        assert runbooks.at("https://wiki/redis/lag") is None

    def test_page_of_the_narrowest_scope_is_meant(self) -> None:
        pages = [a_runbook("runbooks/lag.md", client="acme"), a_runbook("runbooks/lag.md")]
        assert Runbooks(pages, ["global", "client:acme"]).at("lag.md") == pages[0]

    @pytest.mark.parametrize("place", ["", "https://wiki", "/", "https://wiki/lag2"])
    def test_other_places_lead_nowhere(self, place: str) -> None:
        assert Runbooks([a_runbook("runbooks/lag.md")], ["global"]).at(place) is None


def test_a_hundred_thousand_alerts_are_read() -> None:
    data = b"alerts:\n" + b"".join(b"- {name: A%d}\n" % number for number in range(100_000))
    assert len(read_rules(data)) == 100_000

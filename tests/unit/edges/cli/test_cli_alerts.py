"""`opx alerts` on a folder: binding alerts to pages, updates with the pages, and rule files among documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_support import Opx

STEPS = "## Diagnosis\n\n1. Look at it.\n\n## Mitigation now\n\n1. Restart it.\n"
LAG = """\
groups:
  - name: lag
    rules:
      - alert: ConsumerLag
        labels: {severity: warning}
        annotations: {runbook_url: "https://wiki/ops/lag-warn"}
      - alert: ConsumerLag
        labels: {severity: critical}
        annotations: {runbook_url: "https://wiki/ops/lag-crit"}
"""


def page(opx: Opx, name: str, title: str) -> Path:
    return opx.write(f"runbooks/{name}", f"# {title}\n\n{STEPS}")


def rules(opx: Opx, *alerts: str, name: str = "rules.yaml", url: str = "") -> Path:
    """A file of Prometheus rules for these alerts, outside of the folder of documents."""
    annotations = f"\n        annotations: {{runbook_url: '{url}'}}" if url else ""
    lines = "".join(f"      - alert: {alert}\n        expr: up == 0{annotations}\n" for alert in alerts)
    file = opx.folder / name
    file.write_text(f"groups:\n  - name: all\n    rules:\n{lines or '      []'}")
    return file


def ingest(opx: Opx, *arguments: str) -> None:
    found = opx("ingest", opx.folder / "docs", *arguments)
    assert found.exit_code == 0, found.output


def imported(opx: Opx, *arguments: str | Path, **options: Any) -> list[str]:
    found = opx("alerts", "import", *arguments, **options)
    assert found.exit_code == 0, found.output
    return found.stdout.splitlines()


def known(opx: Opx, *options: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(opx(*options, "alerts", "list", "--json").stdout)}


def done(opx: Opx, alert: str) -> str:
    return opx("do", alert, "--print").stdout


# -- by title


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("x.md", "KafkaBrokerDown"),
        ("x.md", "Alert: KafkaBrokerDown"),
        ("x.md", "Runbook: KafkaBrokerDown"),
        ("KafkaBrokerDown.md", "Brokers"),
        ("kafka-broker-down.md", "Brokers"),
    ],
)
@pytest.mark.parametrize("url", ["", "https://wiki.example.com/nowhere"])
def test_an_alert_without_a_page_at_its_address_is_bound_to_the_one_called_like_it(
    opx: Opx, name: str, title: str, url: str
) -> None:
    page(opx, name, title)
    ingest(opx)
    file = rules(opx, "KafkaBrokerDown", url=url)
    assert imported(opx, file) == [
        f"KafkaBrokerDown  bound by title to {title} (documents/docs/runbooks/{name})",
        "1 alert: 1 bound, 0 already bound, 0 without a runbook",
    ]
    assert known(opx)["KafkaBrokerDown"]["boundBy"] == "title"
    assert "the runbook with the alert's name (confidence 1.00)" in done(opx, "KafkaBrokerDown")
    assert imported(opx, file)[-1] == "1 alert: 0 bound, 1 already bound, 0 without a runbook"


def test_the_address_of_the_rule_comes_before_a_page_called_like_the_alert(opx: Opx) -> None:
    page(opx, "broker-down.md", "Brokers")
    page(opx, "other.md", "Elsewhere")
    ingest(opx)
    (line, _) = imported(opx, rules(opx, "BrokerDown", url="https://wiki/other#mitigation-now"))
    assert line == "BrokerDown  bound by url to Elsewhere (documents/docs/runbooks/other.md)"
    assert "its address names the section 'Mitigation now'" in done(opx, "BrokerDown")


def test_of_several_pages_called_like_an_alert_none_is_bound(opx: Opx) -> None:
    page(opx, "broker-down.md", "Brokers")
    page(opx, "x.md", "BrokerDown")
    page(opx, "y.md", "Nothing of it")
    ingest(opx)
    (line, total) = imported(opx, rules(opx, "BrokerDown"))
    assert line == (
        "BrokerDown  no runbook: several pages match its name: "
        "documents/docs/runbooks/broker-down.md, documents/docs/runbooks/x.md"
    )
    assert total == "1 alert: 0 bound, 0 already bound, 1 without a runbook"
    found = known(opx)["BrokerDown"]
    assert (found["binding"], len(found["candidates"])) == ("several pages are called so", 2)
    assert "several pages: documents/docs/runbooks/broker-down.md" in opx("alerts", "list").stdout


def test_alerts_without_a_runbook_are_named_last(opx: Opx) -> None:
    page(opx, "b.md", "B down")
    ingest(opx)
    assert [line.split("  ")[0] for line in imported(opx, rules(opx, "ADown", "BDown", "CDown"))[:3]] == [
        "BDown",
        "ADown",
        "CDown",
    ]


def test_coverage_counts_a_page_called_like_an_alert_as_its_runbook(opx: Opx) -> None:
    page(opx, "broker-down.md", "Brokers")
    ingest(opx)
    imported(opx, rules(opx, "BrokerDown", "Other"))
    found = json.loads(opx("graph", "coverage", "--json").stdout)
    assert [one["key"] for one in found["alertsWithoutRunbook"]] == ["alert:other"]
    assert found["runbooksWithoutAlert"] == []


# -- rules of one name


@pytest.fixture
def lag(opx: Opx) -> Opx:
    page(opx, "lag-warn.md", "A little behind")
    page(opx, "lag-crit.md", "Far behind")
    ingest(opx)
    file = opx.folder / "lag.yaml"
    file.write_text(LAG)
    imported(opx, file)
    return opx


@pytest.mark.parametrize(("severity", "title"), [("warning", "A little behind"), ("critical", "Far behind")])
def test_labels_of_an_alert_choose_among_its_rules(lag: Opx, severity: str, title: str) -> None:
    shown = done(lag, f'ConsumerLag{{severity="{severity}",pod="x"}}')
    assert shown.startswith(f"{title}\n")
    assert "several runbooks" not in shown


def test_without_labels_all_rules_of_an_alert_are_named(lag: Opx) -> None:
    shown = done(lag, "ConsumerLag")
    assert "several runbooks, by labels that this alert doesn't have" in shown
    assert "severity=critical: Far behind" in shown
    assert "severity=warning: A little behind" in shown


def test_a_runbook_for_other_labels_is_shown_with_a_note(lag: Opx) -> None:
    (lag.folder / "docs/runbooks/lag-warn.md").unlink()
    ingest(lag, "--mirror", "--force")
    shown = done(lag, 'ConsumerLag{severity="warning"}')
    assert "Far behind" in shown
    assert "names for other labels" in shown


def test_list_and_import_have_the_runbook_of_each_rule(lag: Opx) -> None:
    found = known(lag)["ConsumerLag"]
    assert found["severity"] == "warning, critical"
    assert {(one["labels"]["severity"], one["title"]) for one in found["runbooks"]} == {
        ("warning", "A little behind"),
        ("critical", "Far behind"),
    }
    assert "  severity=critical: Far behind (documents/docs/runbooks/lag-crit.md)" in imported(
        lag, lag.folder / "lag.yaml"
    )


def test_labels_of_an_alert_fill_the_address_of_its_rule(opx: Opx) -> None:
    page(opx, "kafka.md", "Streams")
    ingest(opx)
    imported(opx, rules(opx, "Down", url="https://wiki/{{ $labels.app }}?pod={{ $labels.pod }}"))
    assert done(opx, 'Down{app="kafka"}').startswith("Streams (kafka)\n")
    assert known(opx)["Down"]["binding"] == "leads nowhere"


# -- what follows the documents


def test_a_binding_follows_its_page(opx: Opx) -> None:
    first = page(opx, "broker-down.md", "Brokers")
    ingest(opx)
    imported(opx, rules(opx, "BrokerDown"))
    page(opx, "broker-down.md", "Brokers, second edition")
    ingest(opx)
    assert known(opx)["BrokerDown"]["title"] == "Brokers, second edition"
    first.rename(first.with_name("BrokerDown.md"))
    ingest(opx, "--mirror", "--force")
    assert (
        known(opx)["BrokerDown"]["path"] == "documents/docs/runbooks/broker-down.md"
    )  # a renamed file keeps its document
    assert opx("delete", known(opx)["BrokerDown"]["documentId"], "--yes").exit_code == 0
    assert known(opx)["BrokerDown"]["binding"] == "names none"
    assert "No procedure was found" in done(opx, "BrokerDown")


def test_a_page_of_another_client_is_neither_bound_nor_named(opx: Opx) -> None:
    page(opx, "broker-down.md", "Brokers of acme")
    assert opx("--client", "acme", "ingest", opx.folder / "docs").exit_code == 0
    file = rules(opx, "BrokerDown", url="https://wiki/broker-down")
    imported(opx, file)
    assert known(opx, "--client", "acme")["BrokerDown"]["title"] == "Brokers of acme"
    for options in ((), ("--client", "other")):
        found = known(opx, *options)["BrokerDown"]
        assert found["binding"] == "leads nowhere"
        assert "acme" not in str(found)


def test_a_second_import_replaces_the_rules_of_a_file(opx: Opx) -> None:
    imported(opx, rules(opx, "Stays", "Goes"))
    assert imported(opx, rules(opx, "Stays"))[-2:] == [
        "Goes  removed: rules.yaml no longer defines it",
        "1 alert: 0 bound, 0 already bound, 1 without a runbook, 1 removed",
    ]
    assert list(known(opx)) == ["Stays"]
    assert imported(opx, rules(opx))[0] == "Stays  removed: rules.yaml no longer defines it"
    assert known(opx) == {}


def test_an_alert_that_another_file_defines_stays_when_one_has_it_no_more(opx: Opx) -> None:
    imported(opx, rules(opx, "Both"), rules(opx, "Both", name="more.yaml"))
    imported(opx, rules(opx, "New"))
    assert known(opx)["Both"]["rules"] == ["documents/more.yaml"]


# -- files


def test_the_rules_of_a_folder_are_read_and_broken_files_named(opx: Opx) -> None:
    folder = opx.folder / "rules"
    folder.mkdir()
    rules(opx, "One", name="rules/one.rules")
    rules(opx, "Two", name="rules/two.yml")
    (folder / "three.json").write_text(json.dumps({"MetricAlarms": [{"AlarmName": "Three \U0001f6a8"}]}))
    (folder / "helm.yaml").write_text("groups:\n- name: {{ .Values.name }}-x\n")
    (folder / "deployment.yaml").write_text("kind: Deployment\n")
    (folder / "notes.md").write_text("# alerts: no rules\n")
    found = opx("alerts", "import", folder)
    assert found.exit_code == 0
    assert f"{folder}/helm.yaml:2: it is a template" in found.stderr
    assert "deployment" not in found.stderr
    assert set(known(opx)) == {"One", "Two", "Three \U0001f6a8"}


def test_a_folder_without_rules_is_reported(opx: Opx) -> None:
    (opx.folder / "empty").mkdir()
    found = opx("alerts", "import", opx.folder / "empty")
    assert found.exit_code == 1
    assert "no file in it defines alerts" in found.stderr


def test_rules_from_standard_input_are_kept_under_a_name(opx: Opx) -> None:
    imported(opx, "-", stdin="alerts: [{name: A}]")
    imported(opx, "-", "--name", "cluster-2", stdin="alerts: [{name: B}]")
    assert imported(opx, "-", stdin="alerts: [{name: C}]")[-2].startswith(
        "A  removed: alert-rules/standard-input.rules"
    )
    assert known(opx)["B"]["rules"] == ["documents/alert-rules/cluster-2.rules"]
    assert opx("alerts", "import", "-", "--name", "../x", stdin="x").exit_code == 2
    assert "standard input:2: it is no YAML" in opx("alerts", "import", "-", stdin="a: [").stderr


def test_alerts_above_the_limit_of_a_file_are_reported(opx: Opx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opx.graph.extraction.material.MAX_NODES", 3)
    lines = imported(opx, rules(opx, "A", "B", "C", "D"))
    assert lines[-2] == "D  left out: the file has more alerts than the graph accepts from one document; split it"
    assert lines[-1] == "4 alerts: 0 bound, 0 already bound, 2 without a runbook, 2 left out"


# -- among other documents


@pytest.mark.parametrize("name", ["rules.yaml", "shop.rules", "alarms.json"])
def test_a_file_of_rules_among_runbooks_binds_its_alerts_and_is_no_runbook(opx: Opx, name: str) -> None:
    page(opx, "broker-down.md", "Brokers")
    content = (
        json.dumps({"MetricAlarms": [{"AlarmName": "BrokerDown"}]})
        if name.endswith(".json")
        else rules(opx, "BrokerDown").read_text()
    )
    opx.write(f"runbooks/{name}", content)
    ingest(opx)
    assert known(opx)["BrokerDown"]["title"] == "Brokers"
    categories = {one["key"]: one["category"] for one in json.loads(opx("list", "--json").stdout)}
    assert categories[f"documents/docs/runbooks/{name}"] == "operations/alert_rules"
    sources = [
        [one["source"] for one in json.loads(opx("search", text, "--json").stdout)["results"]]
        for text in ("BrokerDown", "Brokers")
    ]
    assert all(f"docs/runbooks/{name}" not in found for found in sources)
    assert sources[1] == ["docs/runbooks/broker-down.md"]


def test_json_of_a_category_that_maps_it_is_a_record(opx: Opx) -> None:
    record = {"title": "Slow", "name": "Slow", "message": "It is slow.", "query": "x", "type": "metric alert"}
    opx.write("operations/alerts/one.json", json.dumps(record))
    ingest(opx)
    assert [one["category"] for one in json.loads(opx("list", "--json").stdout)] == ["operations/alerts"]


def test_a_category_that_is_given_stays(opx: Opx) -> None:
    opx.write("x/rules.yaml", rules(opx, "BrokerDown").read_text())
    ingest(opx, "--category", "runbooks/procedures")
    assert [one["category"] for one in json.loads(opx("list", "--json").stdout)] == ["runbooks/procedures"]


def test_manifests_with_rules_among_them_stay_documents_and_state_their_alerts(opx: Opx) -> None:
    opx.write("runbooks/all.yaml", rules(opx, "BrokerDown").read_text() + "---\nkind: Deployment\n")
    ingest(opx)
    assert "BrokerDown" in known(opx)
    assert [one["category"] for one in json.loads(opx("list", "--json").stdout)] == ["runbooks/procedures"]


# -- rules with and without labels, and names within pages


@pytest.fixture
def plain_and_critical(opx: Opx) -> Opx:
    page(opx, "lag-plain.md", "Behind")
    page(opx, "lag-crit.md", "Far behind")
    ingest(opx)
    rules(opx, "ConsumerLag", url="https://wiki/ops/lag-plain")
    critical = rules(opx, "ConsumerLag", name="critical.yaml", url="https://wiki/ops/lag-crit")
    critical.write_text(critical.read_text() + "        labels: {severity: critical}\n")
    imported(opx, opx.folder / "rules.yaml", critical)
    return opx


def test_without_labels_the_rule_with_labels_is_named(plain_and_critical: Opx) -> None:
    shown = done(plain_and_critical, "ConsumerLag")
    assert shown.startswith("Behind\n")
    assert "a rule names another runbook for severity=critical: Far behind" in shown


def test_with_its_labels_the_other_rule_is_not_named(plain_and_critical: Opx) -> None:
    shown = done(plain_and_critical, 'ConsumerLag{severity="critical"}')
    assert shown.startswith("Far behind\n")
    assert "another runbook" not in shown


def test_list_has_a_row_for_each_rule_with_its_own_severity(plain_and_critical: Opx) -> None:
    rows = [line.split() for line in plain_and_critical("alerts", "list").stdout.splitlines()[1:]]
    assert {(row[1], row[-1].rpartition("/")[2]) for row in rows} == {
        ("-", "lag-plain.md)"),
        ("critical", "lag-crit.md)"),
    }


def test_an_alert_that_a_page_names_in_its_text_is_bound_by_it(opx: Opx) -> None:
    opx.write("runbooks/quota.md", f"# Database is full\n\nAlert: EtcdNoSpace\n\n{STEPS}")
    ingest(opx)
    (line, _) = imported(opx, rules(opx, "EtcdNoSpace"))
    assert line == "EtcdNoSpace  bound by the page's text to Database is full (documents/docs/runbooks/quota.md)"


def test_a_page_called_exactly_like_the_alert_comes_before_titles_that_end_with_its_name(opx: Opx) -> None:
    page(opx, "x.md", "KafkaBrokerDown")
    page(opx, "y.md", "Follow-up: KafkaBrokerDown")
    page(opx, "z.md", "Disk almost full (PgDiskAlmostFull)")
    ingest(opx)
    lines = imported(opx, rules(opx, "KafkaBrokerDown", "PgDiskAlmostFull"))
    assert lines[:2] == [
        "KafkaBrokerDown  bound by title to KafkaBrokerDown (documents/docs/runbooks/x.md)",
        "PgDiskAlmostFull  bound by title to Disk almost full (PgDiskAlmostFull) (documents/docs/runbooks/z.md)",
    ]

"""Large exports and templates through `opx alerts import`, and the coverage that follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opx.edges.cli import alerts
from tests.support.cli_support import Opx


@pytest.fixture
def opx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opx:
    monkeypatch.setattr(alerts, "RULES_A_PART", 10)
    return Opx(tmp_path)


def export(opx: Opx, count: int) -> Path:
    monitors = [
        {
            "name": f"Check{number}Slow",
            "type": "query alert",
            "query": "avg(x)",
            "message": f"see https://wiki/{number}",
        }
        for number in range(count)
    ]
    file = opx.folder / "monitors.json"
    file.write_text(json.dumps(monitors))
    return file


def files(opx: Opx) -> list[str]:
    listed = json.loads(opx("list", "--category", "operations/alert_rules", "--json").stdout)
    return sorted(one["key"].partition("monitors.json")[2] for one in listed)


def names(opx: Opx) -> set[str]:
    return {one["name"] for one in json.loads(opx("alerts", "list", "--json").stdout)}


def test_a_large_export_becomes_several_documents(opx: Opx) -> None:
    found = opx("alerts", "import", export(opx, 45))
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines()[-1].startswith("45 alerts: 0 bound")
    assert files(opx) == [f".parts/000{number}.json" for number in range(1, 6)]
    assert len(names(opx)) == 45


def test_the_next_import_replaces_all_of_it(opx: Opx) -> None:
    opx("alerts", "import", export(opx, 45))
    opx("alerts", "import", export(opx, 25))
    assert files(opx) == [f".parts/000{number}.json" for number in range(1, 4)]
    assert len(names(opx)) == 25
    opx("alerts", "import", export(opx, 5))
    assert files(opx) == [""]
    assert len(names(opx)) == 5
    opx("alerts", "import", export(opx, 25))
    assert files(opx) == [f".parts/000{number}.json" for number in range(1, 4)]


def test_many_lines_are_cut(opx: Opx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "_MOST_LINES", 3)
    lines = opx("alerts", "import", export(opx, 8)).stdout.splitlines()
    assert len(lines) == 5
    assert lines[3] == "... and 5 more without a runbook: `opx alerts list` has all"


def test_a_template_is_imported_with_a_warning(opx: Opx) -> None:
    file = opx.folder / "helm.yaml"
    file.write_text(
        "groups:\n- rules:\n{{- if .Values.on }}\n  - alert: KafkaDown\n    expr: {{ .Values.x }}\n{{- end }}\n"
    )
    found = opx("alerts", "import", file)
    assert found.exit_code == 0
    assert "read line by line" in found.stderr
    assert names(opx) == {"KafkaDown"}


def test_coverage_separates_unsure_from_missing(opx: Opx) -> None:
    opx.write("runbooks/es.md", "# Elasticsearch cluster health is red\n\nAdd a node.\n")
    opx("ingest", opx.folder / "docs")
    rules = opx.folder / "rules.yaml"
    rules.write_text("alerts: [{name: ElasticsearchClusterNotHealthy}, {name: VaultSealed}]\n")
    opx("alerts", "import", rules)
    shown = opx("graph", "coverage").stdout
    unsure, _, missing = shown.partition("alerts without a runbook: 1")
    assert "alerts that may have a runbook: 1" in unsure
    assert "Elasticsearch cluster health is red (documents/" in unsure
    assert "has a similar title" in unsure
    assert missing.split()[0] == "alert:vaultsealed"

"""The benchmark that feeds a home and asks again: end to end at a tiny size, and the alerts that it makes of rules."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import field
from tests.benchmarks.field_month import page_of, read_alerts
from tests.support.cli_support import word_services
from tests.support.evaluation_support import write_dataset

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RULES = """
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
spec:
  groups:
    - name: shop
      rules:
        - record: queue:depth
          expr: sum(queue_depth)
        - alert: QueueBacklog
          expr: queue:depth > 100
          labels: {severity: warning}
          annotations:
            summary: 'The queue {{ $labels.queue }} of {{$labels.namespace}} is {{ $value | humanize }} items behind.'
            runbook_url: https://pages.example.com/runbooks/queues/queuebacklog
        - alert: DiskNearlyFull
          expr: disk_free < 5
          annotations:
            summary: A volume has little room left.
            runbook_url: https://pages.example.com/runbooks/DiskNearlyFull.html#mitigation
        - alert: CertificateExpiring
          expr: days_left < 7
          annotations: {description: A certificate ends within a week.}
"""
PAGES = {
    "queues/QueueBacklog.md": "# QueueBacklog\n\nConsumers of the queue are slower than its producers.\n\n"
    "Add consumers to the queue until its backlog is gone.\n",
    "DiskNearlyFull.md": "# DiskNearlyFull\n\nA volume has little room left for new files.\n\n"
    "Delete rotated logs on the volume, or grow the volume.\n",
    "Backups.md": "# Backups\n\nHow to restore a database from last night's backup.\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in PAGES.items():
        page = tmp_path / "field" / "runbooks" / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)
    (tmp_path / "field" / "rules").mkdir()
    (tmp_path / "field" / "rules" / "shop.yaml").write_text(RULES)
    return tmp_path / "field"


@pytest.fixture
def figures(folder: Path) -> dict[str, Any]:
    written = folder.parent / "figures.json"
    field.main([str(folder), "--feeds", "3", "--json", str(written)], word_services)
    found: dict[str, Any] = json.loads(written.read_text())
    return found


def test_its_figures_are_of_before_and_after_feeding(figures: dict[str, Any]) -> None:
    before, after = figures["before"], figures["after"]
    for kind in ("name", "summary", "payload"):
        assert before[f"{kind}: questions"] == after[f"{kind}: questions"] == 2
        assert before[f"{kind}: page first"] == 2
    assert before["documents: runbooks/procedures"] == after["documents: runbooks/procedures"] == 3
    assert after["documents: operations/alerts"] == 3
    assert after["documents: operations/changes"] == after["documents: workplace/tickets"] == 3
    runs = sum(after.get(f"documents: evidence/{kind}", 0) for kind in ("agent_runs", "remediation"))
    assert runs == 3
    assert all(figures[when][name] > 0 for when in ("before", "after") for name in field.ANSWER_TIMES)


def test_alerts_are_resolved_and_every_second_one_fires_again(folder: Path) -> None:
    now = datetime.now(UTC)
    with field.opened_home(folder.parent / "home", word_services) as home:
        field.feed(home, read_alerts(folder, 1, now), 0, 1, now)
        fired = [(one.version, one.tags[-1]) for one in home.knowledge.documents("operations/alerts")]
    assert sorted(fired) == [(2, "resolved"), (3, "firing"), (3, "firing")]


def test_questions_of_a_set_are_compared_in_a_home_of_their_own(folder: Path) -> None:
    dataset = write_dataset(folder.parent / "set")
    for figures in field.measure_set(dataset, folder, folder.parent / "home", 1, 1, word_services):
        assert figures["questions of the set: nDCG@10"] > 0.5


def test_its_table_has_a_row_for_each_figure() -> None:
    before = {"name: page first": 3, field.ANSWER_TIMES[0]: 10.0}
    after = {"name: page first": 1, field.ANSWER_TIMES[0]: 15.0, "documents: operations/alerts": 3}
    rows = [line.split() for line in field.table_lines(before, after)]
    assert rows[1][-2:] == ["3", "1"]
    assert rows[2][-2:] == ["x", "1.50"]
    assert rows[3][-2:] == ["0", "3"]


def test_a_folder_without_rules_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runbooks").mkdir()
    with pytest.raises(SystemExit):
        field.main([str(tmp_path)])
    assert f"{tmp_path} has no folder rules" in capsys.readouterr().err


def test_rules_without_pages_are_refused(folder: Path) -> None:
    (folder / "rules" / "shop.yaml").write_text("groups: []\n---\nnone of them\n---\n{broken: [\n")
    with pytest.raises(SystemExit, match="no rule below rules"):
        field.main([str(folder)])


def test_an_alert_has_its_templates_filled_in_and_the_page_of_its_rule(folder: Path) -> None:
    certificate, disk, queue = read_alerts(folder, 1, NOW)
    assert queue.labels["queue"] in queue.summary
    assert queue.labels["namespace"] in queue.summary
    assert "{{" not in queue.summary
    assert queue.labels["severity"] == "warning"
    assert [one.page and one.page.name for one in (queue, disk, certificate)] == [
        "QueueBacklog.md",
        "DiskNearlyFull.md",
        None,
    ]
    assert certificate.summary == "A certificate ends within a week."


def test_the_same_seed_makes_the_same_alerts(folder: Path) -> None:
    assert read_alerts(folder, 1, NOW) == read_alerts(folder, 1, NOW)
    assert read_alerts(folder, 1, NOW) != read_alerts(folder, 2, NOW)


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("https://example.com/runbooks/one/Disk", "one/disk.md"),
        ("https://example.com/blob/main/two/disk.md", "two/disk.md"),
        ("https://example.com/disk", None),
        ("https://example.com/queue", None),
        ("", None),
    ],
)
def test_the_page_is_the_one_whose_path_ends_like_the_address(address: str, page: str | None) -> None:
    found = page_of(address, [Path("pages/one/disk.md"), Path("pages/two/disk.md")])
    assert (found and found.as_posix()) == (page and f"pages/{page}")

"""The function that removes what its retention is over for, on DynamoDB, S3 and an index of OpenSearch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import boto3
import pytest

from lambdas.prune_knowledge.handler import make_handler
from opx.lifecycle.retention import pruning
from opx.lifecycle.retention.holds import Hold
from opx.lifecycle.retention.pruning import GuardRules
from tests.aws.cloud import Cloud, a_cloud
from tests.support.fakes import FakeContext, function_logs
from tests.support.telemetry_support import Named, measured

Captured = pytest.CaptureFixture[str]
TWO_HOURS = 7200
DUE, KEPT = "documents/clients.md", "documents/runbooks/kept.md"
TABLES = ("documents", "keys", "entries", "calendar", "graph")


@dataclass
class Context(FakeContext):
    def get_remaining_time_in_millis(self) -> int:
        return 900_000


@pytest.fixture
def cloud(aws: boto3.Session) -> Iterator[Cloud]:
    with function_logs(), a_cloud(aws) as deployed:
        deployed.services.installation.clock = lambda: time.time() + TWO_HOURS  # files of chunks are not new any more
        make_handler(lambda: deployed.services)({}, Context())
        yield deployed


def value_of(output: str, name: str) -> list[float]:
    return measured(output)[Named("OpxKnowledge", name, frozenset({("environment", "local")}))]


def test_due_versions_are_removed_held_ones_kept_and_both_reported(cloud: Cloud, capsys: Captured) -> None:
    text = "---\nexpires: 2020-01-01\ntags: [old]\n---\n# Disk\n\nservice:web|DEPENDS_ON|service:db\n\nDisk is full.\n"
    for key in (f"clients/acme/{DUE}", "documents/runbooks/due.md"):
        cloud.put(key, text)
    cloud.put(KEPT, "# Kept\n\nKeep it.\n")
    cloud.deliver()
    hold = cloud.services.lifecycle.holds.add(Hold("case", "ada", within="client:acme"))
    handler = make_handler(lambda: cloud.services)
    dry = handler({"dryRun": True}, Context())
    assert (dry["removed"], dry["held"]) == ({"runbooks/procedures": 1}, {hold.id: 1})
    capsys.readouterr()
    found = handler({}, Context())
    assert (found["removed"], found["held"], found["stopped"]) == ({"runbooks/procedures": 1}, {hold.id: 1}, [])
    output = capsys.readouterr().out
    assert (value_of(output, "VersionsPruned"), value_of(output, "PruneStopped")) == ([1.0], [0.0])
    cloud.services.lifecycle.holds.lift(hold.id, "ada")
    assert handler({}, Context())["versions"] == 1
    items = [str(item) for table in TABLES for item in cloud.items(f"opx-knowledge-{table}")]
    assert not [item for item in items if "due.md" in item or "clients.md" in item]
    keys = {entry["Key"] for entry in cloud.s3.list_objects_v2(Bucket="opx-knowledge-corpus")["Contents"]}
    assert KEPT in keys
    assert not {f"clients/acme/{DUE}", "documents/runbooks/due.md"} & keys
    assert sorted(key.rpartition(".")[2] for key in keys if "chunks/" in key) == ["json", "jsonl"]
    assert "Keep it" in cloud.ask("keep it")


def test_a_stopped_run_is_reported_by_a_metric(cloud: Cloud, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "read_guard_rules", lambda _: GuardRules(at_least=3))
    knowledge = cloud.services.installation.knowledge
    for number in range(3):
        cloud.put(
            f"documents/operations/alerts/{number}.md", f"---\nupdated: 2021-01-01\n---\n# A {number}\n\nIt is.\n"
        )
    cloud.deliver()
    capsys.readouterr()
    found = make_handler(lambda: cloud.services)({}, Context())
    assert [one["category"] for one in found["stopped"]] == ["operations/alerts", ""]
    assert value_of(capsys.readouterr().out, "PruneStopped") == [1.0]
    assert make_handler(lambda: cloud.services)({"allowShare": 1}, Context())["versions"] == 3
    assert list(cloud.services.corpus.catalog.in_category(knowledge.category("operations/alerts").path)) == []

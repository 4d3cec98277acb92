"""The function that reports on the corpus, on DynamoDB."""

from __future__ import annotations

import pytest

from lambdas.report_coverage.handler import make_handler
from opx.errors import StoreUnavailableError
from opx.lifecycle.coverage import UnknownFreshnessError
from opx.runtime.functions import FunctionFailedError
from tests.aws.cloud import PREFIX, Cloud
from tests.support.fakes import FakeContext
from tests.support.telemetry_support import Named, measured, metric_lines

EVERYTHING = {"holdings": True}
Captured = pytest.CaptureFixture[str]


def of_category(name: str, category: str, **more: str) -> Named:
    dimensions = {"environment": "local", "category": category, **more}
    return Named("OpxKnowledge", name, frozenset(dimensions.items()))


def test_totals_are_returned(cloud: Cloud) -> None:
    for number in range(3):
        cloud.put(f"documents/runbooks/{number}.md", f"# Runbook {number}\n\nDo step {number}.")
    cloud.put("documents/runbooks/empty.md", "")
    cloud.deliver()
    found = make_handler(lambda: cloud.services)(EVERYTHING, FakeContext())
    counted = {"documents": 3, "chunks": 3, "failed": 1, "clients": 1}
    assert found == {**counted, "waiting": 0, "overdue": 0, "unknown": 0, "gaps": 0}


def test_holdings_are_counted_only_on_request(cloud: Cloud, capsys: Captured) -> None:
    cloud.put("documents/security/cve/b.md", "# CVE-2026-1\n\nIt overflows.")
    cloud.deliver()
    capsys.readouterr()
    found = make_handler(lambda: cloud.services)({}, FakeContext())
    assert found == {"failed": 0, "waiting": 0, "overdue": 0, "unknown": 0}
    names = {named.name for named in measured(capsys.readouterr().out)}
    assert names == {"FailedItems", "ChangesNotIngested", "OldestAnnouncement", "SourceAge", "SyncOverdue"}


def test_categories_are_reported_apart(cloud: Cloud, capsys: Captured) -> None:
    cloud.put("documents/runbooks/a.md", "# A\n\nDo a.")
    cloud.put("documents/security/cve/b.md", "# CVE-2026-1\n\nIt overflows.")
    cloud.deliver()
    capsys.readouterr()
    make_handler(lambda: cloud.services)(EVERYTHING, FakeContext())
    found = measured(capsys.readouterr().out)
    assert found[of_category("Documents", "runbooks/procedures", tier="internal")] == [1.0]
    assert found[of_category("Documents", "security/cve", tier="specialized")] == [1.0]
    assert found[of_category("Documents", "postmortems", tier="internal")] == [0.0]
    assert found[of_category("SyncOverdue", "security/cve")] == [0.0]


def test_the_index_is_left_asleep(cloud: Cloud) -> None:
    cloud.put("documents/runbooks/a.md", "# A\n\nDo a.")
    cloud.deliver()
    cloud.search.reset()
    make_handler(lambda: cloud.services)(EVERYTHING, FakeContext())
    assert cloud.search.requests == []


def test_every_line_has_the_id_of_the_call(cloud: Cloud, capsys: Captured) -> None:
    make_handler(lambda: cloud.services)(EVERYTHING, FakeContext())
    lines = metric_lines(capsys.readouterr().out)
    assert {line["correlation_id"] for line in lines} == {FakeContext().aws_request_id}


def test_time_that_can_not_be_read_fails_the_call_after_all_else_is_reported(cloud: Cloud, capsys: Captured) -> None:
    cloud.put("documents/operations/baselines/a.md", "# A\n\nNormal load.")
    cloud.put("documents/security/cve/b.md", "# CVE-2026-1\n\nIt overflows.")
    cloud.deliver()
    spoil_time(cloud, "security/cve")
    capsys.readouterr()
    with pytest.raises(FunctionFailedError, match=UnknownFreshnessError.__name__):
        make_handler(lambda: cloud.services)(EVERYTHING, FakeContext())
    output = capsys.readouterr().out
    assert "freshness of security/cve is unknown" in output
    found = measured(output)
    assert found[of_category("SyncOverdue", "operations/baselines")] == [0.0]
    assert found[of_category("Documents", "security/cve", tier="specialized")] == [1.0]


def spoil_time(cloud: Cloud, category: str) -> None:
    """Make a category's documents last updated on a day that there is not."""
    table = PREFIX + "opx-knowledge-documents"
    for item in cloud.items("opx-knowledge-documents"):
        if item.get("category", {}).get("S", "").partition("#")[0] == category:  # in one of its partitions
            cloud.dynamodb.put_item(TableName=table, Item={**item, "lastUpdated": {"S": "2025-02-30"}})


def test_table_that_is_missing_fails_the_call(cloud: Cloud, capsys: Captured) -> None:
    cloud.dynamodb.delete_table(TableName=f"{PREFIX}opx-knowledge-documents")
    with pytest.raises(FunctionFailedError, match=StoreUnavailableError.__name__):
        make_handler(lambda: cloud.services)(EVERYTHING, FakeContext())
    assert "StoreUnavailableError: can't query table" in capsys.readouterr().out

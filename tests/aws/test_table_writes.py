"""Writes of a global document to the tables and to their busiest partitions, and calls of a comparison of all stores, which
calculated times follow from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.ports.tables import SHARDS
from opx_assurance.capability import assurance
from tests.aws.cloud import a_cloud
from tests.benchmarks import bulk_simulation
from tests.benchmarks.bulk_simulation import HEADS_OF_CHUNKS, HEADS_OF_DOCUMENTS, QUERIES
from tests.benchmarks.table_writes import BEGIN, DOCUMENTS, END, measured, rows
from tests.support.fakes import function_logs

COMPARED = 20
PAGE = Path("docs/scale.md")
SPREAD = [
    ("keys", "scope-index"),
    ("documents", "category-lastUpdated-index"),
    ("documents", "scope-category-index"),
]


def test_page_has_the_writes_of_a_new_document(aws: boto3.Session) -> None:
    """A change of the page's table: `python -m tests.benchmarks.table_writes docs/scale.md`."""
    new = measured(aws, DOCUMENTS, ["new"])["new"]
    lines = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].splitlines()
    stated = {line.split(" | ")[0]: line.split(" | ")[1] for line in lines if line.startswith("| ")}
    for line in rows({"new": new})[2:-1]:
        name, count, *_ = line.split(" | ")
        assert stated.pop(name) == count
    assert stated.pop("| **all**") == f"**{new.total:.0f}**"
    assert set(stated.values()) <= {"0.0", "new"}  # of other changes
    cached = new.units["embeddings", ""] / new.documents
    assert new.total - cached == pytest.approx(bulk_simulation.CATALOG_UNITS, abs=1.0)


@pytest.mark.parametrize("shards", [1, SHARDS])
def test_shards_take_the_writes_off_one_partition(
    aws: boto3.Session, monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    monkeypatch.setattr("opx_aws.index_shards.SHARDS", shards)
    new = measured(aws, DOCUMENTS, ["new"])["new"]
    for place in SPREAD:
        each = new.units[place] / new.documents
        assert new.busiest[place] == each if shards == 1 else new.busiest[place] < 0.7 * each
    hottest = max(units for place, units in new.busiest.items() if place in SPREAD)
    assert (hottest == bulk_simulation.BUSIEST_UNITS_BEFORE) is (shards == 1)


def counting(calls: Counter[str]) -> Callable[..., None]:
    def count(model: Any, **_: Any) -> None:
        calls[model.name] += 1

    return count


def test_comparing_a_document_costs_few_calls(aws: boto3.Session) -> None:
    calls: Counter[str] = Counter()
    with function_logs(), a_cloud(aws) as cloud:
        for number in range(COMPARED):
            cloud.put(f"documents/runbooks/procedures/{number}.md", f"# Step {number}\n\nDo it.\n")
        while cloud.services.queue.waiting():
            cloud.deliver()
        for client in (cloud.s3, cloud.dynamodb):
            client.meta.events.register("before-call", counting(calls))
        report = cloud.services.part(assurance).reconciler().run()
    assert (report.documents, report.objects, report.total) == (COMPARED, COMPARED, 0)
    of_all = calls["ListObjectsV2"] + calls["BatchGetItem"]
    assert of_all < COMPARED / 2
    for name, each in (("HeadObject", HEADS_OF_DOCUMENTS + HEADS_OF_CHUNKS), ("Query", QUERIES)):
        assert each <= calls[name] / COMPARED < each + 0.5

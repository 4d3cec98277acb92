"""Counts of documents in several runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.errors import StoreUnavailableError
from opx.lifecycle.holdings import DocumentSizes, Holdings, HoldingsCount
from opx.lifecycle.usage import UsageTally
from opx.ports import Item
from opx.ports.tables import DOCUMENTS, LIFECYCLE
from opx_testing.fake_time import FakeTime
from tests.doubles.hooked_table import HookedTable

DAY = "2023-11-13"
BEFORE, DURING, LATER = "2023-11-13T08:00:00Z", "2023-11-14T22:13:21Z", "2023-11-15T00:00:00Z"
"""The count begins on 2023-11-14 at 22:13:20."""


class CountedStores:
    """A catalog of versions, and a count of it. Pages have two items."""

    def __init__(self, folder: Path) -> None:
        self.time = FakeTime()
        self.database = open_database(folder / "opx.sqlite")
        self.documents = SqliteTable(DOCUMENTS, self.database, clock=self.time.clock)
        self.progress = HookedTable(SqliteTable(LIFECYCLE, self.database, clock=self.time.clock))
        self.categories = ["runbooks/procedures", "security/cve"]
        self.count = HoldingsCount(
            DocumentSizes(self.documents),
            self.progress,
            categories=lambda: self.categories,
            clock=self.time.clock,
        )

    def put(self, name: str, category: str = "runbooks/procedures", **attributes: Any) -> None:
        item: Item = {
            "documentId": name,
            "entry": f"document#{name}#00000001",
            "category": category,
            "lastUpdated": "2020-01-01",
            "clientId": "acme",
            "chunkCount": 3,
            "tokenCount": 100,
            "createdAt": BEFORE,
            "currentSince": BEFORE,
            "supersededAt": "",
            "state": "current",
        }
        self.documents.put(item | attributes)

    def run(self, seconds: float = 0.0) -> Holdings | None:
        return self.count.run(UsageTally(DAY), seconds=seconds)

    def runs(self) -> Holdings:
        """Runs of a page each, until one has the result."""
        for _ in range(100):
            if found := self.run():
                self.count.end()
                return found
        raise AssertionError("a count of a few documents takes a hundred runs")


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountedStores]:
    monkeypatch.setattr("opx.adapters.embedded.table.CONTINUED_PAGE", 2)
    found = CountedStores(tmp_path)
    yield found
    found.database.close()


def some_documents(stores: CountedStores, number: int = 7) -> None:
    for name in range(number):
        stores.put(f"d{name}", clientId=["acme", "acme-b", ""][name % 3])
    stores.put("cve", "security/cve", chunkCount=5, currentSince="2023-11-12T10:00:00Z")


def test_runs_count_what_one_run_counts(stores: CountedStores) -> None:
    some_documents(stores)
    at_once = stores.count.all(UsageTally(DAY))
    found = stores.runs()
    assert found == at_once
    assert dict(found.categories) == {"runbooks/procedures": [7, 21], "security/cve": [1, 5]}
    assert dict(found.usage.counts) == {
        "acme": [4, 14, 400, 3, 9, 300],
        "acme-b": [2, 6, 200, 2, 6, 200],
        "": [2, 6, 200, 2, 6, 200],
    }


def test_run_with_enough_time_needs_no_other(stores: CountedStores) -> None:
    some_documents(stores)
    found = stores.run(seconds=60)
    assert found is not None
    assert found.categories["runbooks/procedures"] == [7, 21]
    assert not stores.count.is_begun()


def test_count_without_categories_is_empty(stores: CountedStores) -> None:
    stores.categories = []
    assert stores.runs().categories == {}


def test_versions_count_that_were_current_at_the_beginning(stores: CountedStores) -> None:
    some_documents(stores)
    assert stores.run() is None
    stores.put("new", currentSince=DURING, createdAt=DURING)
    stores.put("d0", state="superseded", supersededAt=DURING)
    stores.put("d0-again", currentSince=DURING, lastUpdated="2026-01-01")
    stores.put("d6", state="deleted", supersededAt=DURING)
    assert stores.runs().categories["runbooks/procedures"] == [7, 21]


def test_versions_that_were_replaced_or_deleted_before_do_not_count(stores: CountedStores) -> None:
    stores.put("replaced", state="superseded", supersededAt=BEFORE)
    stores.put("deleted", state="deleted", supersededAt=BEFORE)
    stores.put("of an older release", state="superseded", currentSince="")
    stores.put("current of an older release", currentSince="")
    assert stores.runs().categories["runbooks/procedures"] == [1, 3]


def test_failed_run_is_repeated_from_where_it_began(stores: CountedStores) -> None:
    some_documents(stores)
    assert stores.run() is None

    def fail() -> None:
        raise StoreUnavailableError("throttled")

    stores.progress.arm(4, fail)  # the counts of this run are stored, its position isn't
    with pytest.raises(StoreUnavailableError):
        stores.run()
    assert not stores.progress.is_armed
    assert stores.runs().categories["runbooks/procedures"] == [7, 21]


def test_result_that_was_not_recorded_is_counted_again(stores: CountedStores) -> None:
    some_documents(stores)
    found = None
    while found is None:
        found = stores.run()
    assert stores.count.is_begun()
    assert stores.run(seconds=60) == found


def test_category_that_was_removed_meanwhile_leads_to_the_next(stores: CountedStores) -> None:
    some_documents(stores)
    assert stores.run() is None
    stores.categories.remove("runbooks/procedures")
    assert stores.runs().categories["security/cve"] == [1, 5]


def test_count_that_nothing_continued_for_a_week_begins_anew(stores: CountedStores) -> None:
    some_documents(stores)
    assert stores.run() is None
    stores.time.now += 8 * 86_400
    stores.put("later", currentSince=LATER)
    assert not stores.count.is_begun()
    assert stores.runs().categories["runbooks/procedures"] == [8, 24]


def test_next_count_has_nothing_of_the_last_one(stores: CountedStores) -> None:
    some_documents(stores)
    first = stores.runs()
    stores.time.now += 86_400
    second = stores.runs()
    assert second.categories == first.categories
    assert second.moment > first.moment

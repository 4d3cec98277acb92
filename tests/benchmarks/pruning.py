"""Measures the pruning of expired versions: `python -m tests.benchmarks.pruning`.

The first part fills the embedded tables with withdrawn versions (as many as `--entries`, over two years) and
removes those of some days, and then all, with every call of a table counted. It is a simulation, without objects
and index. The second part ingests documents over moto, with chunks in an index, tags and statements, and
counts the requests by which they are removed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import boto3
import moto

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import day_text, stable_hash
from opx.domain.knowledge import Tier
from opx.domain.scopes import Scope
from opx.ingestion.corpus.calendar import Calendar
from opx.ingestion.corpus.catalog import document_item
from opx.lifecycle.retention.due import RetentionState
from opx.ports import Item
from opx.ports.tables import CALENDAR, DOCUMENTS, KEYS, LIFECYCLE
from opx.settings import Settings
from opx.system import bootstrap
from opx_testing.fake_time import FakeTime
from tests.e2e.systems import a_system
from tests.support.builders import a_version
from tests.support.fakes import WordsEmbedder

DAY = 86_400
CATEGORY = "operations/alerts"
SPREAD_DAYS = 730
KEPT_DAYS = 180
AT_ONCE = 5_000


class CountedTable:
    """A table that counts its calls; of batches, the items."""

    def __init__(self, table: Any, name: str, counts: Counter[str]) -> None:
        self._table = table
        self._name = name
        self._counts = counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def _took(self, call: str) -> None:
        self._counts[f"{self._name.removeprefix('opx-knowledge-')} {call}"] += 1

    def get(self, key: Any) -> Any:
        self._took("get")
        return self._table.get(key)

    def get_many(self, keys: Any) -> Any:
        self._took("get_many")
        return self._table.get_many(keys)

    def put(self, item: Any, **options: Any) -> None:
        self._took("put")
        self._table.put(item, **options)

    def delete(self, key: Any, **options: Any) -> None:
        self._took("delete")
        self._table.delete(key, **options)

    def query(self, partition: Any, **options: Any) -> Any:
        self._took("query")
        return self._table.query(partition, **options)


class NoObjects:
    """An empty store that counts calls of `delete`."""

    def __init__(self) -> None:
        self.deleted = 0

    def delete(self, key: str, *, etag: str = "") -> bool:
        self.deleted += 1
        return True

    def list(self, prefix: str = "") -> Iterator[Any]:
        return iter(())

    def head(self, key: str) -> None:
        return None


def withdrawn(number: int, first_day: int) -> KnowledgeDocument:
    """A version that was withdrawn, as many a day over the days."""
    key = DocumentKey(Scope(), f"documents/operations/alerts/{number}.md")
    updated = day_text(first_day + number % SPREAD_DAYS)
    return a_version(
        document_id=stable_hash("document", number),
        key=key,
        title=f"Alert {number}",
        category=CATEGORY,
        tier=Tier.INTERNAL,
        trust=1.0,
        location=f"file:///{number}.md",
        source_uri=f"{number}.md",
        created_at=updated,
        last_updated=updated,
        state=DocumentState.DELETED,
        superseded_at=f"{updated}T00:00:00Z",
        current_since=f"{updated}T00:00:00Z",
        chunk_count=2,
    )


def head_of(document: KnowledgeDocument) -> Item:
    facts = {"documentId": document.document_id, "version": 1, "state": "deleted", "revision": 4, "leaseUntil": 0}
    return {"documentKey": document.key.id, "scope": "global", "source": document.key.source, **facts}


def fill(services: Any, documents: Iterable[KnowledgeDocument]) -> None:
    calendar: Calendar = services.corpus.calendar
    each = iter(documents)
    while batch := list(islice(each, AT_ONCE)):
        with services.tables.unit_of_work():
            services.tables.table(DOCUMENTS).put_many(map(document_item, batch))
            services.tables.table(KEYS).put_many(map(head_of, batch))
            services.tables.table(CALENDAR).put_many(row for document in batch for row in calendar._expected(document))


def simulated(entries: int, days: int) -> None:
    """Removes the versions of one day, of the next, and of many days, from the embedded tables."""
    time_of_day = FakeTime()
    counts: Counter[str] = Counter()
    first_day = int(time_of_day.now // DAY)
    with tempfile.TemporaryDirectory() as folder:
        services = bootstrap(Settings(home=folder), clock=time_of_day.clock, embedder=WordsEmbedder())
        make = services.tables.table
        objects = NoObjects()
        services.corpus.store = objects  # type: ignore[assignment]
        services.tables.table = lambda spec: CountedTable(make(spec), spec.name, counts)  # type: ignore[method-assign]
        began = time.perf_counter()
        fill(services, (withdrawn(number, first_day) for number in range(entries)))
        print(f"{entries:,} versions entered in {time.perf_counter() - began:.0f} s")
        _note_policies(services)
        RetentionState(make(LIFECYCLE), services.installation.knowledge).write_cursor(
            day_text(first_day + KEPT_DAYS - 1), ""
        )
        for day, share in ((KEPT_DAYS + 1, None), (KEPT_DAYS + 2, None), (KEPT_DAYS + 2 + days, 1.0)):
            time_of_day.now = time_of_day.started + day * DAY
            counts.clear()
            began = time.perf_counter()
            report = services.lifecycle.pruning().run(allow_share=share)
            print_counts(f"day {day}", report.versions, time.perf_counter() - began, counts)
        left = sum(1 for _ in make(DOCUMENTS).query(CATEGORY, index="category-lastUpdated-index"))
        print(f"files of chunks removed: {objects.deleted:,}; versions left: {left:,}")
        services.close()


def _note_policies(services: Any) -> None:
    state = RetentionState(services.tables.table(LIFECYCLE), services.installation.knowledge)
    for category in state.changed():
        state.note_policy(category)


def print_counts(name: str, versions: int, seconds: float, counts: Counter[str]) -> None:
    calls = sum(counts.values())
    each = f", {calls / versions:.2f} calls and {seconds / versions * 1000:.2f} ms each" if versions else ""
    print(f"{name}: {versions:,} removed in {seconds:.1f} s with {calls:,} calls of tables{each}")
    for call, count in sorted(counts.items(), key=lambda item: -item[1])[:12]:
        print(f"    {call}: {count:,}" + (f" ({count / versions:.3f} each)" if versions else ""))


def on_moto(documents: int) -> None:
    """Counts the requests by which documents are removed from DynamoDB and S3."""
    session = boto3.Session("testing", "testing", region_name="eu-central-1")
    requests: Counter[str] = Counter()

    def count(model: Any, **_: Any) -> None:
        requests[f"{model.service_model.service_name}:{model.name}"] += 1

    session.events.register("before-call", count)
    with moto.mock_aws(), tempfile.TemporaryDirectory() as folder, a_system("nextgen", Path(folder), session) as system:
        _note_policies(system.services)
        for number in range(documents):
            text = (
                f"# Alert {number}\n\nservice:web|DEPENDS_ON|service:db{number}\n\n" + f"Disk {number} is full. " * 150
            )
            system.put(f"documents/{CATEGORY}/{number}.md", text, '{"tags": ["disk"]}')
        system.work()
        chunks = len(system.entries())
        system.services.lifecycle.pruning().run()
        system.time.sleep((KEPT_DAYS + 1) * DAY)
        day = day_text(int(system.time.now // DAY) - 2)
        RetentionState(system.services.tables.table(LIFECYCLE), system.services.installation.knowledge).write_cursor(
            day, ""
        )
        before = Counter(requests)
        report = system.services.lifecycle.pruning().run(allow_share=1)
        print(
            f"moto: {report.versions} current documents with {chunks / documents:.1f} chunks each removed, requests each:"
        )
        for name, total in sorted((requests - before).items()):
            print(f"    {name}: {total / report.versions:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=SPREAD_DAYS, help="of which versions go; all by default")
    parser.add_argument("--documents", type=int, default=100)
    given = parser.parse_args()
    on_moto(given.documents)
    simulated(given.entries, given.days)


if __name__ == "__main__":
    main()

"""Writes of a document to the tables: `python -m tests.benchmarks.table_writes [--documents 40]`.

Global documents of ten chunks go through bucket, queue, function and tables of an AWS double, whose write units are counted
by partition. The busiest partition bounds how many documents a second can be ingested, whatever the number of functions: a
partition of DynamoDB takes 1,000 units a second.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3

from tests.aws.cloud import PREFIX, Cloud, a_cloud
from tests.doubles.counted_writes import CountedWrites, PartitionName
from tests.support.fakes import function_logs

PARTITION_UNITS = 1000
"""Write units that a partition of DynamoDB takes in a second."""

CATEGORY = "runbooks/procedures"
_WORDS = ("pods", "restart", "queue", "memory", "gateway", "certificate", "rollback", "failover", "latency", "broker")


@dataclass(frozen=True)
class DocumentWrites:
    """Write units a document, by table and index, and those of the busiest partition."""

    units: Counter[tuple[str, str]]
    busiest: dict[tuple[str, str], float]
    documents: int

    def each(self, table: str, index: str = "") -> float:
        return self.units[table, index] / self.documents

    @property
    def total(self) -> float:
        return self.units.total() / self.documents

    @property
    def hottest(self) -> tuple[tuple[str, str], float]:
        return max(self.busiest.items(), key=lambda one: one[1])


class CountingSession:
    """A session whose client of DynamoDB counts writes."""

    def __init__(self, session: boto3.Session) -> None:
        self._session: Any = session
        self.counted = CountedWrites(session.client("dynamodb"))

    def client(self, service: str, **options: Any) -> Any:
        return self.counted if service == "dynamodb" else self._session.client(service, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def a_text(number: int, round_: int = 0) -> str:
    """A runbook of about ten chunks, other than all others."""
    words = random.Random(number * 1000 + round_)
    steps = "\n\n".join(
        f"## Step {step} of {number}\n\n" + " ".join(words.choices(_WORDS, k=380)) + "." for step in range(9)
    )
    return (
        f"---\ntags: [kubernetes, payments]\n---\n# Restart service {number}\n\nRun it in round {round_}.\n\n{steps}\n"
    )


def measured(session: boto3.Session, documents: int) -> dict[str, DocumentWrites]:
    """Writes of documents that are ingested, changed, and deleted."""
    counting: Any = CountingSession(session)
    rounds: dict[str, Callable[[Cloud, int], object]] = {
        "new": lambda cloud, number: cloud.put(_key(number), a_text(number)),
        "changed": lambda cloud, number: cloud.put(_key(number), a_text(number, 1)),
        "deleted": lambda cloud, number: cloud.delete(_key(number)),
    }
    found = {}
    with function_logs(), a_cloud(counting) as cloud:
        for name, change in rounds.items():
            before = Counter(counting.counted.units)
            for number in range(documents):
                change(cloud, number)
            while cloud.services.queue.waiting():
                cloud.deliver()
            found[name] = _writes(counting.counted.units - before, documents)
    return found


def _key(number: int) -> str:
    return f"documents/{CATEGORY}/service-{number}.md"


def _writes(units: Counter[PartitionName], documents: int) -> DocumentWrites:
    total: Counter[tuple[str, str]] = Counter()
    busiest: dict[tuple[str, str], float] = {}
    for one, count in units.items():
        place = one.table.removeprefix(f"{PREFIX}opx-knowledge-"), one.index
        total[place] += count
        busiest[place] = max(busiest.get(place, 0.0), count / documents)
    return DocumentWrites(total, busiest, documents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=40)
    chosen = parser.parse_args()
    from moto import mock_aws

    with mock_aws():
        session = boto3.Session("test", "test", region_name="eu-central-1")
        for name, writes in measured(session, chosen.documents).items():
            print(f"{name}: {writes.total:.1f} units a document")
            for (table, index), count in sorted(writes.units.items()):
                busiest = writes.busiest[table, index]
                limit = PARTITION_UNITS / busiest
                print(
                    f"  {table:14} {index:28} {count / writes.documents:6.1f}  busiest {busiest:5.2f}  {limit:9,.0f}/s"
                )


if __name__ == "__main__":
    main()

"""Writes of a document to the tables: `python -m tests.benchmarks.table_writes [docs/scale.md]`.

Global documents of ten chunks go through bucket, queue, function and tables of an AWS double, whose write units are counted
by partition. The busiest partition bounds how many documents a second can be ingested, whatever the number of functions: a
partition of DynamoDB takes 1,000 units a second.
"""

from __future__ import annotations

import argparse
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import boto3

from infra.diagram import replaced
from opx.ports.tables import ALL_TABLES, SHARDS
from tests.aws.cloud import PREFIX, Cloud, a_cloud
from tests.doubles.counted_writes import CountedWrites, PartitionName
from tests.support.fakes import function_logs

BEGIN, END = "<!-- writes: begin -->", "<!-- writes: end -->"
DOCUMENTS = 10
"""A batch of the function, so that what it writes once a batch is a tenth of a document's."""

PARTITION_UNITS = 1000
"""Write units a second of a partition of DynamoDB."""

CATEGORY = "runbooks/procedures"
_WORDS = ("pods", "restart", "queue", "memory", "gateway", "certificate", "rollback", "failover", "latency", "broker")


@dataclass(frozen=True)
class DocumentWrites:
    """Write units a document, by table and index, and those of the busiest partition."""

    units: Counter[tuple[str, str]]
    busiest: dict[tuple[str, str], float]
    documents: int

    @property
    def total(self) -> float:
        return self.units.total() / self.documents


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


ROUNDS: Mapping[str, Callable[[Cloud, int], object]] = {
    "new": lambda cloud, number: cloud.put(_key(number), a_text(number)),
    "changed": lambda cloud, number: cloud.put(_key(number), a_text(number, 1)),
    "deleted": lambda cloud, number: cloud.delete(_key(number)),
}


def measured(
    session: boto3.Session, documents: int, rounds: Sequence[str] = tuple(ROUNDS)
) -> dict[str, DocumentWrites]:
    """Writes of documents that are ingested, changed, and deleted."""
    counting: Any = CountingSession(session)
    found = {}
    with function_logs(), a_cloud(counting) as cloud:
        cloud.services.indexing.count_change()  # the first one makes the counters
        for name in rounds:
            change = ROUNDS[name]
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


# -- table of the page


def rows(found: Mapping[str, DocumentWrites]) -> list[str]:
    """Units by table and index, and the documents a second that the busiest partition takes, with and without shards."""
    lines = [
        f"| write units a document | {' | '.join(found)} | new ones a second: one partition | now |",
        "|---|" + "---|" * (len(found) + 2),
    ]
    new = found["new"]
    for place in sorted({place for writes in found.values() for place in writes.units}):
        counts = " | ".join(f"{writes.units[place] / writes.documents:.1f}" for writes in found.values())
        lines.append(f"| {_shown(place)} | {counts} | {' | '.join(_rates(new, place))} |")
    totals = " | ".join(f"**{writes.total:.0f}**" for writes in found.values())
    return [*lines, f"| **all** | {totals} | | |"]


def _shown(place: tuple[str, str]) -> str:
    table, index = place
    return f"{table}: `{index}`" if index else table


def _rates(new: DocumentWrites, place: tuple[str, str]) -> tuple[str, str]:
    """Documents a second by the busiest partition, if one of them gets most writes. A value that is spread has as many in
    each shard, but for chance."""
    units = new.busiest.get(place, 0.0)
    spread = SHARDS if _is_spread(place) else 1
    if units * spread * new.documents < new.units[place] / 2 or not units:
        return "", ""
    before = new.units[place] / new.documents if spread > 1 else units
    return f"{PARTITION_UNITS / before:,.0f}", f"{spread * PARTITION_UNITS / before:,.0f}"


def _is_spread(place: tuple[str, str]) -> bool:
    specs = (spec for spec in ALL_TABLES if spec.short_name == place[0])
    return any(index.spread for spec in specs for index in spec.indexes if index.name == place[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, nargs="?")
    chosen = parser.parse_args()
    from moto import mock_aws

    logging.disable()
    with mock_aws(), redirect_stdout(StringIO()):
        found = measured(boto3.Session("test", "test", region_name="eu-central-1"), DOCUMENTS)
    text = "\n".join(rows(found))
    if chosen.page is None:
        print(text)
    else:
        chosen.page.write_text(replaced(chosen.page.read_text("utf-8"), text, begin=BEGIN, end=END), "utf-8")


if __name__ == "__main__":
    main()

"""Time and price of a bulk job on AWS, simulated: `python -m tests.benchmarks.bulk_simulation [docs/scale.md]`.

The stages of a job run one after the other, each as a pool of tasks within the limits that the services publish. Where AWS
publishes nothing (how long a batch job takes, what a capacity unit indexes), the figure is an assumption, named as one.
Failures are drawn: children that die, batch jobs that expire, a quota that is lowered in the middle. A comparison of all
stores (`opx reconcile`) is calculated from the same limits. With a path, the tables between that page's marks are written.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import ceil
from pathlib import Path

from infra.diagram import replaced
from opx.domain.prices import PRICES
from opx.ports.bulk import BatchLimits
from opx_bulk.listing import SHARD_DOCUMENTS
from opx_bulk.planning import (
    APPLY_SECONDS,
    BATCH_HOURS,
    CHILDREN,
    ENTRIES_A_UNIT,
    FUNCTION_GB,
    INDEXING_UNITS,
    LIST_A_SECOND,
    PREPARE_SECONDS,
    SEARCH_UNITS,
    STATES_A_SHARD,
)

BEGIN, END = "<!-- beyond: begin -->", "<!-- beyond: end -->"

HOUR, DAY = 3600.0, 86_400.0
CHUNKS_A_DOCUMENT, TOKENS_A_CHUNK = 10, 500
ATTEMPTS = 10
"""Attempts of a child; the documents of a shard that fails as often are named in the report."""

CATALOG_UNITS = 27.0
"""Write units of a new document in all tables but the cache of vectors, and those that reach the busiest partition:
`tests/aws/test_table_writes.py` counts them."""

BUSIEST_UNITS, BUSIEST_UNITS_BEFORE = 1.0, 4.0
CACHE_UNITS_A_CHUNK = 5.0
READS_A_DOCUMENT, PUTS_A_DOCUMENT, GETS_A_DOCUMENT = 10.0, 2.0, 6.0


@dataclass(frozen=True)
class Limits:
    """Limits of an account. Published defaults, but for those marked as assumptions."""

    children: int = CHILDREN  # at once; a Distributed Map runs up to 10,000, and an account 1,000 functions
    environments_a_second: float = 100.0  # new ones of a function: 1,000 every ten seconds
    batch: BatchLimits = field(default_factory=BatchLimits)
    batch_hours: float = BATCH_HOURS  # assumption: AWS publishes only when a job expires
    timeout_hours: float = 24.0  # the least that a job can be given
    on_demand_a_minute: int = 600  # 300,000 tokens a minute of 500 each
    partition_units: float = 1000.0
    table_units: float = 4000.0  # of a new table on demand, at once; the double half an hour later
    most_table_units: float = 40_000.0
    indexing_units: int = INDEXING_UNITS
    entries_a_unit: float = ENTRIES_A_UNIT  # assumption: AWS publishes none

    @property
    def entries_a_second(self) -> float:
        return self.indexing_units * self.entries_a_unit


@dataclass(frozen=True)
class Troubles:
    """Shares of children and batch jobs that fail, and the part of the batch jobs after which their quota is halved."""

    children: float = 0.0
    expired: float = 0.0
    halved_after: float = 1.0


@dataclass
class Outcome:
    """Hours by stage, dollars by service, and what became of the documents."""

    hours: dict[str, float] = field(default_factory=dict)
    dollars: dict[str, float] = field(default_factory=dict)
    documents: int = 0
    settled: int = 0
    named: int = 0
    repeated: int = 0

    @property
    def total_hours(self) -> float:
        return sum(self.hours.values())

    @property
    def total_dollars(self) -> float:
        return sum(self.dollars.values())

    @property
    def longest(self) -> str:
        return max(self.hours, key=lambda stage: self.hours[stage])


# -- pools


def pooled(
    seconds: Iterable[float], slots: int, fails: Callable[[], float | None], *, a_second: float = float("inf")
) -> tuple[float, list[int]]:
    """The time when all tasks are done in so many slots, of which `a_second` are new, and the attempts of each task. `fails`
    returns the share of its time after which an attempt fails, or None."""
    running: list[float] = []
    end, attempts = 0.0, []
    for number, each in enumerate(seconds):
        begin = number / a_second if len(running) < slots else heappop(running)
        tries = 1
        while (share := fails()) is not None and tries < ATTEMPTS:
            begin, tries = begin + each * share, tries + 1
        done = begin + each if share is None else begin + each * share
        heappush(running, done)
        end = max(end, done)
        attempts.append(tries if share is None else -tries)
    return end, attempts


def dying(rng: random.Random, share: float) -> Callable[[], float | None]:
    return lambda: rng.random() if rng.random() < share else None


# -- stages


class BulkSimulation:
    """A job that ingests so many documents."""

    def __init__(self, documents: int, limits: Limits, troubles: Troubles, seed: int = 7) -> None:
        self._documents = documents
        self._chunks = documents * CHUNKS_A_DOCUMENT
        self._limits = limits
        self._troubles = troubles
        self._rng = random.Random(seed)
        full, rest = divmod(documents, SHARD_DOCUMENTS)
        self._shards = [SHARD_DOCUMENTS] * full + ([rest] if rest else [])

    def run(self) -> Outcome:
        found = Outcome(documents=self._documents)
        found.hours["list"] = self._documents / LIST_A_SECOND / 3600
        found.hours["prepare"] = self._children(PREPARE_SECONDS, found) / HOUR
        found.hours["embed"] = self._embedding() / HOUR
        found.hours["apply"] = self._applying(found) / HOUR
        found.settled = self._documents - found.named
        found.dollars = self._dollars(found)
        return found

    def _children(self, seconds: float, found: Outcome) -> float:
        times = [documents * seconds for documents in self._shards]
        fails = dying(self._rng, self._troubles.children)
        slots, started = self._limits.children, self._limits.environments_a_second
        end, attempts = pooled(times, slots, fails, a_second=started)
        found.repeated += sum(abs(tries) - 1 for tries in attempts)
        found.named += sum(size for size, tries in zip(self._shards, attempts, strict=True) if tries < 0)
        return end

    # -- embedding

    def _embedding(self) -> float:
        """Batch jobs, in as many rounds as their quota needs; what expired is embedded on demand, at once with them."""
        limits, troubles = self._limits, self._troubles
        if self._chunks < limits.batch.minimum_records or not limits.batch.jobs:
            return self._chunks / limits.on_demand_a_minute * 60
        jobs = ceil(self._chunks / limits.batch.maximum_records)
        before = ceil(jobs * troubles.halved_after)
        expired = [self._rng.random() < troubles.expired for _ in range(jobs)]
        times = [limits.timeout_hours if one else limits.batch_hours for one in expired]
        first, _ = pooled([each * HOUR for each in times[:before]], limits.batch.jobs, lambda: None)
        then, _ = pooled([each * HOUR for each in times[before:]], max(1, limits.batch.jobs // 2), lambda: None)
        again = sum(expired) * limits.batch.maximum_records
        return first + then + again / limits.on_demand_a_minute * 60

    # -- applying

    def _applying(self, found: Outcome) -> float:
        """The children's time, or that of what they write to, if it takes less than they send."""
        by_children = self._children(APPLY_SECONDS, found)
        return max(by_children, self._documents / self.indexed_a_second, self._written())

    @property
    def indexed_a_second(self) -> float:
        """Documents a second by the index and by the busiest partition."""
        by_partition = self._limits.partition_units / BUSIEST_UNITS
        return min(self._limits.entries_a_second / CHUNKS_A_DOCUMENT, by_partition)

    def _written(self) -> float:
        """Seconds that the busiest table needs, whose throughput doubles every half hour."""
        units, seconds, rate = self._documents * CATALOG_UNITS / 3, 0.0, self._limits.table_units
        while units > rate * 1800:
            units, seconds = units - rate * 1800, seconds + 1800
            rate = min(2 * rate, self._limits.most_table_units)
        return seconds + units / rate

    # -- dollars

    def _dollars(self, found: Outcome) -> dict[str, float]:
        documents, million = self._documents, self._documents / 1e6
        shards = len(self._shards)
        in_batches = self._chunks >= self._limits.batch.minimum_records and self._limits.batch.jobs
        model = "Titan Text Embeddings V2" + (" in batches" if in_batches else "") + ", million tokens"
        seconds = documents * (PREPARE_SECONDS + APPLY_SECONDS) * (1 + self._troubles.children)
        puts, gets = documents * PUTS_A_DOCUMENT + 8 * shards, documents * GETS_A_DOCUMENT + 8 * shards
        return {
            "Bedrock": self._chunks * TOKENS_A_CHUNK / 1e6 * PRICES[model],
            "DynamoDB": million * CATALOG_UNITS * PRICES["DynamoDB, million writes of 1 KB"]
            + million * READS_A_DOCUMENT * PRICES["DynamoDB, million reads of 4 KB"],
            "Lambda": seconds * FUNCTION_GB * PRICES["Lambda arm64, GB-second"],
            "OpenSearch Serverless": found.hours["apply"]
            * (self._limits.indexing_units + SEARCH_UNITS)
            * PRICES["OpenSearch Serverless, OCU-hour"],
            "S3": puts / 1e3 * PRICES["S3, 1,000 writes"] + gets / 1e3 * PRICES["S3, 1,000 reads"],
            "Step Functions": shards * STATES_A_SHARD / 1e3 * PRICES["Step Functions, 1,000 transitions"],
        }


def simulated(documents: int, limits: Limits | None = None, troubles: Troubles | None = None) -> Outcome:
    return BulkSimulation(documents, limits or Limits(), troubles or Troubles()).run()


# -- comparing all stores

HEADS_OF_DOCUMENTS, HEADS_OF_CHUNKS, QUERIES = 2.0, 1.0, 3.0
"""Calls for a document: of its object, of its chunk file, and of tables (`tests/aws/test_reconcile_calls.py`)."""

CALL_SECONDS, COMPARE_SECONDS = 0.0021, 0.0005
"""Processor time of a call with its signature and answer, and of the comparison itself."""

READ_UNITS = 1.0
"""Of the busiest table: a version, read consistently."""

HEADS_A_SECOND, TABLE_READS = 5_500, 12_000
"""HEAD requests of one partition of a bucket, and read units of a table on demand, before either is split."""


@dataclass(frozen=True)
class Reconciled:
    """Minutes that each part needs to compare all documents."""

    processors: float
    objects: float
    tables: float

    @property
    def minutes(self) -> float:
        return max(self.processors, self.objects, self.tables)


def reconciled(documents: int, processors: int, partitions: int) -> Reconciled:
    """A comparison on so many processors, with documents, and chunk files, in so many partitions of the bucket."""
    calls = HEADS_OF_DOCUMENTS + HEADS_OF_CHUNKS + QUERIES
    seconds = documents * (calls * CALL_SECONDS + COMPARE_SECONDS) / processors
    heads = documents * max(HEADS_OF_DOCUMENTS, HEADS_OF_CHUNKS) / partitions / HEADS_A_SECOND
    return Reconciled(seconds / 60, heads / 60, documents * READ_UNITS / TABLE_READS / 60)


# -- tables

FIVE_MILLION, TEN_MILLION = 5_000_000, 10_000_000
MORE_JOBS = replace(Limits(), batch=BatchLimits(jobs=200))
QUICK_JOBS = replace(Limits(), batch_hours=0.25)
ON_DEMAND = replace(Limits(), batch=BatchLimits(jobs=0))

SCENARIOS: dict[str, tuple[Limits, Troubles]] = {
    "one text after the other, 600 a minute": (ON_DEMAND, Troubles()),
    "the same at 6,000 a minute": (replace(ON_DEMAND, on_demand_a_minute=6000), Troubles()),
    "20 batch jobs, 2 h each": (Limits(), Troubles()),
    "20 batch jobs, 15 min each": (QUICK_JOBS, Troubles()),
    "200 batch jobs (a raised quota), 2 h each": (MORE_JOBS, Troubles()),
    "... and 1 % of children die": (MORE_JOBS, Troubles(children=0.01)),
    "... and one job in 1,000 expires after 24 h": (MORE_JOBS, Troubles(children=0.01, expired=0.001)),
    "... and the quota is halved in the middle": (MORE_JOBS, Troubles(children=0.01, halved_after=0.5)),
    "... and the index takes half": (replace(MORE_JOBS, entries_a_unit=125.0), Troubles(children=0.01)),
}
COMPARISONS = (
    (1_000_000, 1, 1),
    (1_000_000, 16, 1),
    (TEN_MILLION, 16, 1),
    (TEN_MILLION, 192, 1),
    (TEN_MILLION, 192, 5),
)
GROWTH = (10_000, 100_000, 1_000_000)
"""Documents: 10^5 to 10^7 chunks."""


def rows() -> Iterable[str]:
    yield "| 5,000,000 documents of 10 chunks (simulated) | hours | of that the longest | US$ | lost | named | repeated |"
    yield "|---|---|---|---|---|---|---|"
    for name, (limits, troubles) in SCENARIOS.items():
        found = simulated(FIVE_MILLION, limits, troubles)
        lost = found.documents - found.settled - found.named
        longest = f"{found.longest} {found.hours[found.longest]:,.1f}"
        yield (
            f"| {name} | {found.total_hours:,.1f} | {longest} | {found.total_dollars:,.0f} | {lost} | {found.named} | "
            f"{found.repeated} |"
        )
    yield ""
    yield from growth()
    yield ""
    yield from comparisons()


def growth() -> Iterable[str]:
    """Growth from 10^5 to 10^7 chunks, at published defaults."""
    outcomes = {documents: simulated(documents) for documents in GROWTH}
    yield (
        "| simulated, with 20 batch jobs of 2 h each | " + " | ".join(f"{10 * each:,} chunks" for each in GROWTH) + " |"
    )
    yield "|---|" + "---|" * len(GROWTH)
    for stage in next(iter(outcomes.values())).hours:
        yield _row(f"{stage}, h", (one.hours[stage] for one in outcomes.values()), "{:,.2f}")
    yield _row("ingestion in all, h", (one.total_hours for one in outcomes.values()), "{:,.1f}")
    for service in next(iter(outcomes.values())).dollars:
        yield _row(f"{service}, US$", (one.dollars[service] for one in outcomes.values()), "{:,.2f}")
    yield _row("in all, US$", (one.total_dollars for one in outcomes.values()), "{:,.2f}")
    yield _row("write units, million", (each * CATALOG_UNITS / 1e6 for each in GROWTH), "{:,.2f}")


def comparisons() -> Iterable[str]:
    """Minutes of a comparison, and what they are limited by."""
    yield "| comparison of all stores (calculated), min | by processors | by HEAD requests | by reads of a table | in all |"
    yield "|---|---|---|---|---|"
    for documents, processors, partitions in COMPARISONS:
        found = reconciled(documents, processors, partitions)
        name = f"{documents:,} documents, processors: {processors}, partitions of the bucket: {partitions}"
        yield _row(name, (found.processors, found.objects, found.tables, found.minutes), "{:,.0f}")


def _row(name: str, values: Iterable[float], form: str) -> str:
    return f"| {name} | " + " | ".join(form.format(value) for value in values) + " |"


def main() -> None:
    text = "\n".join(rows())
    if len(sys.argv) < 2:
        print(text)
        return
    page = Path(sys.argv[1])
    page.write_text(replaced(page.read_text("utf-8"), text, begin=BEGIN, end=END), "utf-8")


if __name__ == "__main__":
    main()

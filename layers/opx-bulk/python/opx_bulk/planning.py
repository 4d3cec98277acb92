"""Estimates a bulk job before it starts: documents and bytes by a listing, chunks and tokens by a sample that is read,
dollars by the prices of AWS, and hours by published limits, or by the time that the sample takes on this machine."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from math import ceil

from opx.domain.prices import PRICES
from opx.domain.record import Record, replace
from opx.errors import StoreUnavailableError
from opx.ingestion.events import EventOutcome, Result
from opx.ingestion.indexing.embedding_cache import CachedEmbedder
from opx.lifecycle.costs import GRAPH_WRITES, INGEST_SECONDS_A_DOCUMENT, VERSION_WRITES
from opx.ports.bulk import BatchLimits
from opx.runtime.threads import cores
from opx_bulk.job import BulkKind, BulkWork
from opx_bulk.listing import SHARD_DOCUMENTS, Listed
from opx_bulk.preparing import TOKEN_CHARACTERS

SAMPLE = 20
"""Documents that are read for an estimate, in each turn of the listing."""

TIMED_TEXTS = 8
"""Texts that are embedded to estimate the time on this machine."""

STATES_A_SHARD = 6
"""Transitions of the state machine a shard, for preparing and applying it."""

LIST_A_SECOND = 2_000
CHILDREN = 100
PREPARE_SECONDS, APPLY_SECONDS = 0.15, 0.33
"""Keys a second of a listing; children at once, and seconds of one for a document: reading and chunking it, and writing it to
tables and index."""

QUOTAS = BatchLimits()
"""Batch jobs at once and records of each, by the service's default quotas."""

BATCH_HOURS = 2.0
"""Hours of a batch job: an assumption, as AWS publishes only that it ends within 24 hours."""

ON_DEMAND_A_MINUTE = 6_000
"""Default quota of requests of Titan Text Embeddings V2 a minute."""

FUNCTION_GB = 2
"""Memory of the function of the stages."""

INDEXING_UNITS, SEARCH_UNITS = 8, 2
ENTRIES_A_UNIT = 250.0
"""Capacity units of the collection while the job runs, and entries that one takes a second: assumptions, as AWS publishes
none."""


class PlanCount(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Counts of the listing and of the sample so far. `after` is the position of the listing, "" at its end. The fields
    behind `sampled` are sums over the sampled documents, of which `settled` are in order already."""

    after: str = ""
    documents: int = 0
    bytes: int = 0
    sampled: int = 0
    settled: int = 0
    unreadable: int = 0
    sampled_bytes: int = 0
    chunks: int = 0
    tokens: int = 0
    seconds_a_text: float = 0.0


class BulkPlan(Record, frozen=True, kw_only=True):
    """Estimate of a job. `counted.after`: the listing isn't at its end: give `counted` back to go on. `dollars` by service,
    empty where no service is paid. `assumptions`: how the figures were estimated, for people."""

    work: BulkWork
    documents: int
    bytes: int
    chunks: int
    tokens: int
    dollars: dict[str, float]
    hours: float
    assumptions: tuple[str, ...]
    counted: PlanCount

    @property
    def total(self) -> float:
        return sum(self.dollars.values())


Sample = Callable[[dict[str, str], ExitStack], Sequence[str] | EventOutcome]
"""Reads the texts of a listed document that are embedded, or returns the outcome of one that needs nothing."""


class Sampler:
    """Reads a sample of the listed documents. With `times`, the time that a passage takes on this machine is measured."""

    def __init__(self, read: Sample, embedder: CachedEmbedder, *, times: bool) -> None:
        self._read = read
        self._embedder = embedder
        self._times = times

    def count(self, listed: Iterator[Listed], known: PlanCount, stop: Callable[[], bool]) -> PlanCount:
        """Counts documents until `stop` returns True, and reads a sample of those."""
        chosen: list[tuple[dict[str, str], int]] = []
        documents, size, after = known.documents, known.bytes, ""
        pick = random.Random(known.documents)  # noqa: S311 - a sample, the same for the same listing
        for number, (line, each, position) in enumerate(listed, start=1):
            documents, size = documents + 1, size + each
            if len(chosen) < SAMPLE:
                chosen.append((line, each))
            elif (at := pick.randrange(number)) < SAMPLE:
                chosen[at] = line, each
            if number % 100 == 0 and stop():
                after = position
                break
        return self._sampled(chosen, known, documents=documents, size=size, after=after)

    def _sampled(
        self, chosen: Sequence[tuple[dict[str, str], int]], known: PlanCount, *, documents: int, size: int, after: str
    ) -> PlanCount:
        results = dict.fromkeys(Result, 0)
        texts: list[str] = []
        for line, _ in chosen:
            with ExitStack() as stack:
                found = self._read(line, stack)
                if isinstance(found, EventOutcome):
                    results[found.result] += 1
                else:
                    texts += found
        return PlanCount(
            after=after,
            documents=documents,
            bytes=size,
            sampled=known.sampled + len(chosen),
            settled=known.settled + results[Result.UNCHANGED] + results[Result.SKIPPED],
            unreadable=known.unreadable + results[Result.FAILED],
            sampled_bytes=known.sampled_bytes + sum(each for _, each in chosen),
            chunks=known.chunks + len(texts),
            tokens=known.tokens + sum(map(len, texts)) // TOKEN_CHARACTERS,
            seconds_a_text=known.seconds_a_text or self._timed(texts),
        )

    def _timed(self, texts: Sequence[str]) -> float:
        if not (self._times and texts):
            return 0.0
        few = list(texts[:TIMED_TEXTS])
        try:
            self._embedder.unkept(few[:1])  # loads the model
            began = time.perf_counter()
            self._embedder.unkept(few)
        except StoreUnavailableError:
            return 0.0
        return (time.perf_counter() - began) / len(few)


def estimate(work: BulkWork, count: PlanCount, *, model_id: str, cores: int) -> BulkPlan:
    """The plan of a job whose documents were counted; on `cores` of this machine, or with 0 on AWS."""
    share = count.documents / count.sampled if count.sampled else 0.0
    if work.kind is BulkKind.INGEST and count.sampled_bytes:
        share = count.bytes / count.sampled_bytes
    chunks, tokens = ceil(count.chunks * share), ceil(count.tokens * share)
    left = count.documents * (1 - count.settled / count.sampled) if count.sampled else 0.0
    assumed = [f"chunks and tokens by {count.sampled} documents that were read, in proportion to their size"]
    if count.settled:
        assumed.append(f"{count.settled} of them are in order already")
    if count.unreadable:
        assumed.append(f"{count.unreadable} of them can't be read")
    if cores:
        hours = chunks * count.seconds_a_text / cores / 3600
        assumed.append(f"hours by the time of {TIMED_TEXTS} passages, on each of {cores} cores; reading is not counted")
        dollars: dict[str, float] = {}
    else:
        by_stage = stage_hours(count.documents, chunks, listed=not work.inventory)
        hours = sum(by_stage.values())
        dollars = _dollars(work, left, tokens, model_id=model_id, hours=by_stage["apply"])
        assumed += [
            f"batch jobs of {QUOTAS.maximum_records:,} records, {QUOTAS.jobs} at once, {BATCH_HOURS:g} h each",
            f"{CHILDREN} children that take {PREPARE_SECONDS + APPLY_SECONDS:g} s a document",
            f"{INDEXING_UNITS} indexing units of OpenSearch Serverless, which take {ENTRIES_A_UNIT:g} entries a second each",
            "prices of us-east-1 without free tiers",
        ]
    return BulkPlan(
        work=work,
        documents=count.documents,
        bytes=count.bytes,
        chunks=chunks,
        tokens=tokens,
        dollars={name: round(value, 2) for name, value in dollars.items()},
        hours=round(hours, 2),
        assumptions=tuple(assumed),
        counted=count,
    )


def enlarged(plan: BulkPlan, documents: int, size: int) -> BulkPlan:
    """The plan of a job on this machine for more documents, of which those of `plan` are a sample."""
    counted = replace(plan.counted, documents=documents, bytes=size)
    return estimate(plan.work, counted, model_id="", cores=cores())


def stage_hours(documents: int, chunks: int, *, listed: bool = True) -> dict[str, float]:
    """Hours of each stage on AWS, without failures: by the children's time, the quotas of the model, and what the index
    takes. `tests/benchmarks/bulk_simulation.py` adds failures, and other limits."""
    shards = ceil(documents / SHARD_DOCUMENTS) or 1
    seconds_of_children = documents / min(CHILDREN, shards)
    rounds = ceil(chunks / QUOTAS.maximum_records / QUOTAS.jobs)
    indexing = chunks / (INDEXING_UNITS * ENTRIES_A_UNIT)
    return {
        "list": documents / LIST_A_SECOND / 3600 if listed else 0.0,
        "prepare": seconds_of_children * PREPARE_SECONDS / 3600,
        "embed": rounds * BATCH_HOURS if chunks >= QUOTAS.minimum_records else chunks / ON_DEMAND_A_MINUTE / 60,
        "apply": max(seconds_of_children * APPLY_SECONDS, indexing) / 3600,
    }


def _dollars(work: BulkWork, documents: float, tokens: int, *, model_id: str, hours: float) -> dict[str, float]:
    shards = ceil(documents / SHARD_DOCUMENTS)
    is_new = work.kind is BulkKind.INGEST
    writes = documents * (VERSION_WRITES + GRAPH_WRITES) if is_new else 0.0
    name = "Cohere Embed v4" if "cohere" in model_id else "Titan Text Embeddings V2"
    return {
        "Bedrock": tokens / 1e6 * PRICES[f"{name} in batches, million tokens"],
        "DynamoDB": writes / 1e6 * PRICES["DynamoDB, million writes of 1 KB"]
        + 10 * documents / 1e6 * PRICES["DynamoDB, million reads of 4 KB"],
        "Lambda": documents * INGEST_SECONDS_A_DOCUMENT * (1 if is_new else 0.3) * PRICES["Lambda arm64, GB-second"],
        "OpenSearch Serverless": hours * (INDEXING_UNITS + SEARCH_UNITS) * PRICES["OpenSearch Serverless, OCU-hour"],
        "S3": (2 * documents * is_new + 8 * shards) / 1e3 * PRICES["S3, 1,000 writes"]
        + (6 * documents + 8 * shards) / 1e3 * PRICES["S3, 1,000 reads"],
        "Step Functions": shards * STATES_A_SHARD / 1e3 * PRICES["Step Functions, 1,000 transitions"],
    }

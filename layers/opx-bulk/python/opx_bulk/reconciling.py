"""Stages of a job that compares the stores: its shards are segments of them, which children compare at the same time. After
an interruption, those that lack a result are compared.

`list` cuts the stores into segments, `prepare` compares one, `apply` repairs what was found in it, and `finish` sums the
findings up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from math import ceil

from opx.domain.prices import PRICES
from opx.domain.record import from_json
from opx.ingestion.events import Result
from opx.runtime.threads import cores
from opx_assurance.consistency.comparing import Comparison, StoreSegment
from opx_assurance.consistency.differences import REMOVALS, UNREPAIRED, ReconcileReport, StoreFinding
from opx_assurance.consistency.noted import SegmentFound
from opx_assurance.consistency.reconcile import Repairs
from opx_assurance.consistency.store_checks import CheckedDocuments
from opx_bulk.files import FOUND, MANIFEST, SHARDS, BulkFiles
from opx_bulk.job import BulkJob, BulkReport, BulkWork, Shard, ShardApplied, ShardPrepared
from opx_bulk.kinds import KindStages
from opx_bulk.planning import CHILDREN, FUNCTION_GB, STATES_A_SHARD, BulkPlan, PlanCount

SEGMENT_DOCUMENTS = 2_500
"""Documents of a segment: a child compares them in half a minute on AWS."""

MOST_SEGMENTS = 10_000
"""Of a kind: so many children may run at once."""


COMPARE_SECONDS = 0.0134
"""Processor time of a document's comparison: 16 processors compare a million in 14 minutes (decision 101)."""


class ReconcileStages(KindStages):
    """A shard is a segment of the stores, and `apply` repairs what was found in it. Removals are left to `opx reconcile`,
    which weighs them against everything that was compared."""

    applies_alone = False

    def plan(self, work: BulkWork, known: PlanCount, stop: Callable[[], bool]) -> BulkPlan:  # noqa: ARG002 - one call counts
        here = cores() if self._parts.tables.in_folder else 0
        return estimate_comparison(work, self._parts.comparison(work).documents(), cores=here)

    def list(self, job: BulkJob, files: BulkFiles, stop: Callable[[], bool]) -> bool:  # noqa: ARG002 - takes seconds
        list_segments(files, self._parts.comparison(job.work))
        return True

    def names(self, files: BulkFiles, shard: int) -> Sequence[str]:
        segment = segment_of(files, shard)[0]
        return [f"{segment.kind} behind {segment.low or 'none'} up to {segment.high or 'the last'}"]

    def prepare(self, job: BulkJob, files: BulkFiles, shard: int, *, attempt: int, embed: bool) -> ShardPrepared:  # noqa: ARG002
        return compare_segment(files, shard, self._parts.comparison(job.work))

    def apply(self, job: BulkJob, files: BulkFiles, shard: int) -> ShardApplied:
        """A segment that was not compared is compared here."""
        if files.read(files.name(FOUND, shard)) is None:
            compare_segment(files, shard, self._parts.comparison(job.work))
        return apply_segment(files, shard, self._parts.repairs(job.work) if job.work.repair else None)

    def finish(
        self,
        job: BulkJob,
        report: BulkReport,
        applied: Sequence[ShardApplied],
        stop: Callable[[], bool],  # noqa: ARG002 - takes seconds
    ) -> bool:
        """Sums up what was found, and ingests what was repaired by that, where this process does."""
        found = sum_up_found(BulkFiles(self._parts.store, job.job_id), repair=job.work.repair)
        drain = self._parts.ingestion.drain
        if job.work.repair and drain:
            found.waiting = sum(1 for one in drain.run() if one.result is Result.FAILED)
        report.reconciled = found
        report.unsettled = job.shards - len(applied)  # segments, whose documents were estimated
        return True


def list_segments(files: BulkFiles, comparison: Comparison) -> None:
    """Writes a shard for each segment of the stores, unless they are written."""
    if files.read(files.prefix + MANIFEST) is not None:
        return
    cut, documents = comparison.cut(SEGMENT_DOCUMENTS, MOST_SEGMENTS)
    share = -(-documents // (len(cut) // 2))
    shards = []
    for number, segment in enumerate(cut):
        shard = Shard(number, share if segment.counts_documents else 0, 0)
        files.put_lines(SHARDS, number, [{**segment.to_json(), "documents": shard.documents}])
        shards.append(shard)
    files.put_list(MANIFEST, shards)


def segment_of(files: BulkFiles, shard: int) -> tuple[StoreSegment, int]:
    """A segment, and the estimated number of its documents."""
    (row,) = files.lines(files.name(SHARDS, shard))
    documents = int(row.pop("documents"))
    return from_json(StoreSegment, row), documents


def compare_segment(files: BulkFiles, shard: int, comparison: Comparison) -> ShardPrepared:
    """Compares a segment and keeps what was found. Raises `StoreUnavailableError`."""
    checked = CheckedDocuments()
    for batch in comparison.compare(segment_of(files, shard)[0]):
        checked.add(batch)
    files.put(FOUND, shard, SegmentFound.of(checked))
    return ShardPrepared(shard=shard, left=())


def apply_segment(files: BulkFiles, shard: int, repairs: Repairs | None) -> ShardApplied:
    """Repairs what was found in a segment, if there are `repairs`. Raises `StoreUnavailableError`."""
    found = files.get(FOUND, shard, SegmentFound)
    if found and repairs:
        repairs.make(_repaired(found.found))
    documents = segment_of(files, shard)[1]
    return ShardApplied(shard=shard, documents=documents, unchanged=documents)


def _repaired(found: Sequence[StoreFinding]) -> list[StoreFinding]:
    return [one for one in found if one.problem not in (*REMOVALS, *UNREPAIRED)]


def sum_up_found(files: BulkFiles, *, repair: bool) -> ReconcileReport:
    """The report of all segments that were compared."""
    report = ReconcileReport()
    waiting: set[str] = set()
    for one in _all_found(files):
        report.add(one.found)
        report.in_flight += one.in_flight
        report.failed += one.failed
        for name, number in one.compared.items():
            setattr(report, name, getattr(report, name) + number)
        if repair:
            repaired = _repaired(one.found)
            report.repaired += len(repaired)
            report.held_back += sum(1 for each in one.found if each.problem in REMOVALS)
            waiting.update(each.object_key for each in repaired if each.object_key)
    report.waiting = len(waiting)
    return report


def _all_found(files: BulkFiles) -> Iterator[SegmentFound]:
    for number in files.numbers(FOUND):
        data = files.read(files.name(FOUND, number))
        if data is not None:
            yield from_json(SegmentFound, json.loads(data))


def estimate_comparison(work: BulkWork, documents: int, *, cores: int) -> BulkPlan:
    """The plan of a job that compares the stores of so many documents."""
    seconds = documents * COMPARE_SECONDS
    shards = 2 * ceil(documents / SEGMENT_DOCUMENTS)
    assumed = [f"{COMPARE_SECONDS * 1000:g} ms of processor time a document"]
    dollars: dict[str, float] = {}
    if not cores:
        assumed.append(f"{CHILDREN} children at once; prices of us-east-1 without free tiers")
        dollars = {
            "DynamoDB": 5 * documents / 1e6 * PRICES["DynamoDB, million reads of 4 KB"],
            "Lambda": seconds * FUNCTION_GB * PRICES["Lambda arm64, GB-second"],
            "S3": (3 * documents + 8 * shards) / 1e3 * PRICES["S3, 1,000 reads"],
            "Step Functions": shards * STATES_A_SHARD / 1e3 * PRICES["Step Functions, 1,000 transitions"],
        }
    return BulkPlan(
        work=work,
        documents=documents,
        bytes=0,
        chunks=0,
        tokens=0,
        dollars={name: round(value, 2) for name, value in dollars.items()},
        hours=round(seconds / 3600 / min(cores or CHILDREN, shards or 1), 2),
        assumptions=tuple(assumed),
        counted=PlanCount(documents=documents),
    )

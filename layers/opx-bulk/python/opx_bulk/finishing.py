"""The last stage's report: sums the results of all shards up, and names each document that failed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from opx.domain.record import from_json
from opx.runtime.threads import Each
from opx_bulk.files import APPLIED, FAILURES, REPORT, BulkFiles
from opx_bulk.job import BulkFailure, BulkJob, BulkReport, Shard, ShardApplied

MOST_FAILURES = 100
"""Failures in a report; all of them are in a file beside it."""

_COUNTS = ("documents", "ingested", "unchanged", "skipped", "deleted", "failed", "chunks", "embedded")


def sum_up(
    files: BulkFiles, shards: Sequence[Shard], job: BulkJob, each: Each
) -> tuple[BulkReport, Sequence[ShardApplied]]:
    """The report of the shards that were applied so far, and their results."""
    settled = set(files.numbers(APPLIED))
    numbers = [shard.number for shard in shards if shard.number in settled]
    found = each(lambda number: files.get(APPLIED, number, ShardApplied), numbers)
    applied = [one for one in found if one]
    report = BulkReport(job.job_id)
    for name in _COUNTS:
        setattr(report, name, sum(getattr(one, name) for one in applied))
    report.documents = job.documents
    counted = report.ingested + report.unchanged + report.skipped + report.deleted + report.failed
    report.unsettled = job.documents - counted
    report.failures = [failure for one in applied for failure in one.failures][:MOST_FAILURES]
    return report, applied


def write_report(files: BulkFiles, report: BulkReport, applied: Sequence[ShardApplied]) -> None:
    """Writes the report, and all failures beside it."""
    lines = [msgspec.json.encode(failure) + b"\n" for one in applied for failure in one.failures]
    files.store.put(files.prefix + FAILURES, b"".join(lines))
    files.store.put(files.prefix + REPORT, msgspec.json.encode(report))


def read_report(files: BulkFiles) -> BulkReport | None:
    """The report of a job; None if there is none."""
    data = files.read(files.prefix + REPORT)
    return from_json(BulkReport, json.loads(data)) if data is not None else None


def failures(files: BulkFiles, shards: Sequence[Shard]) -> Iterator[BulkFailure]:
    """The failures of a job, in the order of its shards: from the file beside its report, or of the shards applied so far."""
    if files.read(files.prefix + REPORT) is not None:
        yield from (from_json(BulkFailure, row) for row in files.lines(files.prefix + FAILURES))
        return
    for shard in shards:
        found = files.get(APPLIED, shard.number, ShardApplied)
        yield from found.failures if found else ()

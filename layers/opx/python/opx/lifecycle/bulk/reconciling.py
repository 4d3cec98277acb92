"""Stages of a job that compares the stores: its shards are segments of them, which children compare at the same time. After
an interruption, those that lack a result are compared.

`list` cuts the stores into segments, `prepare` compares one, `apply` repairs what was found in it, and `finish` sums the
findings up. Removals are left to `opx reconcile`, which weighs them against everything that was compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from opx.domain.record import from_json
from opx.lifecycle.bulk.files import FOUND, MANIFEST, SHARDS, BulkFiles
from opx.lifecycle.bulk.job import Shard, ShardApplied, ShardPrepared
from opx.lifecycle.consistency.comparing import Comparison, StoreSegment
from opx.lifecycle.consistency.differences import REMOVALS, UNREPAIRED, ReconcileReport, StoreFinding
from opx.lifecycle.consistency.noted import SegmentFound
from opx.lifecycle.consistency.reconcile import Repairs
from opx.lifecycle.consistency.store_checks import CheckedDocuments

SEGMENT_DOCUMENTS = 2_500
"""Documents of a segment: a child compares them in half a minute on AWS."""

MOST_SEGMENTS = 10_000
"""Of a kind: so many children may run at once."""


def list_segments(files: BulkFiles, comparison: Comparison) -> None:
    """Writes a shard for each segment of the stores, unless they are written."""
    if files.read(files.prefix + MANIFEST) is not None:
        return
    cut, documents = comparison.cut(SEGMENT_DOCUMENTS, MOST_SEGMENTS)
    share = -(-documents // (len(cut) // 2))
    shards = []
    for number, segment in enumerate(cut):
        files.put_lines(SHARDS, number, [segment.to_json()])
        shards.append(Shard(number, share if segment.counts_documents else 0, 0))
    files.put_list(MANIFEST, shards)


def segment_of(files: BulkFiles, shard: int) -> StoreSegment:
    (row,) = files.lines(files.name(SHARDS, shard))
    return from_json(StoreSegment, row)


def compare_segment(files: BulkFiles, shard: int, comparison: Comparison) -> ShardPrepared:
    """Compares a segment and keeps what was found. Raises `StoreUnavailableError`."""
    checked = CheckedDocuments()
    for batch in comparison.compare(segment_of(files, shard)):
        checked.add(batch)
    files.put(FOUND, shard, SegmentFound.of(checked))
    return ShardPrepared(shard=shard, left=())


def apply_segment(files: BulkFiles, shard: Shard, repairs: Repairs | None) -> ShardApplied:
    """Repairs what was found in a segment, if there are `repairs`. Raises `StoreUnavailableError`."""
    found = files.get(FOUND, shard.number, SegmentFound)
    if found and repairs:
        repairs.make(_repaired(found.found))
    return ShardApplied(shard=shard.number, documents=shard.documents, unchanged=shard.documents)


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

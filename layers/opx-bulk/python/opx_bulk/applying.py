"""The fourth stage: applies the documents of a shard by the ordinary path: the pipeline that claims each and reads its
object's present state, or the filler of a new edition. A newer state wins as it does there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from opx.errors import ThrottledError
from opx.ingestion.events import EventOutcome, ObjectEvent, Result
from opx.ingestion.indexing.editions import OpenEdition
from opx.ingestion.worker import IngestionWorker
from opx.lifecycle.reindex.filling import Filler
from opx.lifecycle.reindex.job import smallest_hashes
from opx.ports import Item
from opx.runtime.deadlines import remaining
from opx_bulk.job import BulkFailure, ShardApplied, ShardPrepared

LONGEST_WAIT = 30.0
WRITING_TIME = 90.0
"""Seconds before the end of a call in which documents that have to wait are left to the next one."""


def apply_objects(
    prepared: ShardPrepared, worker: IngestionWorker, *, sleep: Callable[[float], None] = time.sleep
) -> ShardApplied:
    """Ingests the documents of a shard that are left. Transient errors are retried as those of messages are. Raises
    `ThrottledError` if documents have to wait longer than this call has time for: those that are done will be unchanged."""
    waiting = dict.fromkeys(prepared.left, 1)
    outcomes: dict[str, EventOutcome] = {}
    while waiting:
        bodies = [(ObjectEvent(key, deleted=False, sequencer="").to_json(), tries) for key, tries in waiting.items()]
        found = dict(zip(waiting, worker.process(bodies), strict=True))
        outcomes |= found
        again = {key: one for key, one in found.items() if one.result is Result.RETRY}
        waiting = {key: waiting[key] + (not one.postponed) for key, one in again.items()}
        if waiting:
            pause = min(LONGEST_WAIT, max(one.delay_seconds for one in again.values()))
            left = remaining()
            if left is not None and left < pause + WRITING_TIME:
                reason = next(iter(again.values())).reason
                raise ThrottledError(f"{len(waiting)} documents have to wait: {reason}", pause)
            sleep(pause)
    return _counted(prepared, outcomes)


def _counted(prepared: ShardPrepared, outcomes: Mapping[str, EventOutcome]) -> ShardApplied:
    results = Counter(one.result for one in outcomes.values())
    failed = [BulkFailure(key, one.reason) for key, one in outcomes.items() if one.result is Result.FAILED]
    failures = (*prepared.failures, *failed)
    return ShardApplied(
        shard=prepared.shard,
        documents=len(prepared.left) + prepared.unchanged + len(prepared.failures),
        ingested=results[Result.INGESTED],
        unchanged=results[Result.UNCHANGED] + prepared.unchanged,
        skipped=results[Result.SKIPPED],
        deleted=results[Result.DELETED],
        failed=len(failures),
        chunks=sum(one.chunks for one in outcomes.values()),
        failures=failures,
    )


def apply_heads(
    prepared: ShardPrepared, filler: Filler, edition: OpenEdition, heads: Sequence[Item]
) -> tuple[ShardApplied, list[str]]:
    """Adds the current versions of a shard's documents to the edition; also returns the keys of documents that the journal of
    changes has to get to. Raises `StoreUnavailableError`."""
    filled = filler.fill(edition, heads)
    applied = ShardApplied(
        shard=prepared.shard,
        documents=len(prepared.left),
        ingested=filled.documents,
        deleted=len(prepared.left) - filled.documents,
        chunks=filled.chunks,
        lacking=tuple(filled.lacking),
        sample=tuple(smallest_hashes(str(head["documentKey"]) for head in heads)),
    )
    return applied, filled.postponed

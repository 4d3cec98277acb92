"""The third stage: groups shards into batch jobs of the embedding model, and follows each to its end.

Texts that have no vector afterwards are embedded on demand when they are applied: those of a group that is too small for a
batch job, of one that failed or expired, and single records that a batch job refused.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from msgspec import field

from opx.domain.record import Record, from_json
from opx.errors import InvalidInputError
from opx.ports.bulk import BatchEmbedder, BatchLimits, BatchPhase
from opx_bulk.files import BATCHES, GROUPS, OUTPUTS, TEXTS, BulkFiles
from opx_bulk.job import ShardPrepared

log = logging.getLogger(__name__)

POLL_SECONDS = 60.0
"""Pause between looks at a batch job."""

ATTEMPTS = 2
"""Batch jobs of a group: one that failed, expired or was stopped is tried once more."""


class ShardGroup(Record, frozen=True):
    """Shards whose texts are embedded by one batch job; without any (`on_demand`) if they are too few."""

    number: int
    shards: tuple[int, ...]
    texts: int
    bytes: int
    on_demand: bool = False


class GroupEmbedding(Record, frozen=True):
    """State of a group: its batch job, and at the end the keys of its outputs by shard. `attempts` counts its batch
    jobs; `reason`: why some of its texts are embedded on demand, for people."""

    batch_id: str = ""
    attempts: int = 0
    is_ended: bool = False
    outputs: dict[str, str] = field(default_factory=dict)
    reason: str = ""


def group_shards(prepared: Sequence[ShardPrepared], limits: BatchLimits) -> Iterator[ShardGroup]:
    """Groups shards with texts, in order, up to the limits of a batch job. A shard that alone exceeds a limit of files is a
    group on demand."""
    shards: list[int] = []
    texts = size = count = 0
    for one in prepared:
        if not one.texts:
            continue
        if one.texts > limits.maximum_records or one.bytes > limits.file_bytes:
            yield ShardGroup(count, (one.shard,), one.texts, one.bytes, on_demand=True)
            count += 1
            continue
        if shards and (texts + one.texts > limits.maximum_records or size + one.bytes > limits.job_bytes):
            yield ShardGroup(count, tuple(shards), texts, size, on_demand=texts < limits.minimum_records)
            shards, texts, size, count = [], 0, 0, count + 1
        shards.append(one.shard)
        texts, size = texts + one.texts, size + one.bytes
    if shards:
        yield ShardGroup(count, tuple(shards), texts, size, on_demand=texts < limits.minimum_records)


class GroupEmbeddings:
    """Starts and follows the batch jobs of one bulk job."""

    def __init__(self, files: BulkFiles, batch: BatchEmbedder) -> None:
        self._files = files
        self._batch = batch

    def groups(self) -> list[ShardGroup]:
        return [from_json(ShardGroup, row) for row in self._files.get_list(GROUPS) or ()]

    def step(self, number: int) -> GroupEmbedding:
        """Starts the batch job of a group, or looks at it. Ended when `is_ended`; else call it again after a while. Raises
        `StoreUnavailableError`, and `ThrottledError` while the quota of batch jobs is used up."""
        known = self._files.get(BATCHES, number, GroupEmbedding) or GroupEmbedding()
        if known.is_ended:
            return known
        group = next(one for one in self.groups() if one.number == number)
        found = self._followed(group, known) if known.batch_id else self._started(group, known.attempts + 1)
        if found != known:
            self._files.put(BATCHES, number, found)
        if found.reason:
            log.warning("texts of group %d are embedded on demand: %s", number, found.reason)
        return found

    def _started(self, group: ShardGroup, attempt: int) -> GroupEmbedding:
        if group.on_demand:
            return GroupEmbedding(is_ended=True, reason="too few texts, or too many, for a batch job")
        inputs = [self._files.name(TEXTS, shard) for shard in group.shards]
        outputs = self._files.name(OUTPUTS, group.number)
        name = self._files.prefix.strip("/").replace("/", "-") + f"-{group.number:05}-{attempt}"
        try:
            return GroupEmbedding(batch_id=self._batch.start(name, inputs, outputs), attempts=attempt)
        except InvalidInputError as exc:
            return GroupEmbedding(attempts=attempt, is_ended=True, reason=str(exc))

    def _followed(self, group: ShardGroup, known: GroupEmbedding) -> GroupEmbedding:
        state = self._batch.state(known.batch_id)
        if state.phase is BatchPhase.RUNNING:
            return known
        if state.phase is BatchPhase.FAILED and known.attempts < ATTEMPTS:
            log.warning("a batch job for group %d is tried again: %s", group.number, state.reason)
            return GroupEmbedding(attempts=known.attempts)
        outputs = {}
        for shard in group.shards:
            output = state.outputs.get(self._files.name(TEXTS, shard))
            if output:
                outputs[str(shard)] = output
        return GroupEmbedding(known.batch_id, known.attempts, True, outputs, state.reason)

    def outputs_of(self, shard: int) -> str:
        """Key of the output for a shard's texts; "" if there is none."""
        for group in self.groups():
            if shard in group.shards:
                known = self._files.get(BATCHES, group.number, GroupEmbedding)
                return known.outputs.get(str(shard), "") if known else ""
        return ""

    def stop(self) -> None:
        """Stops the batch jobs that run."""
        for number in self._files.numbers(BATCHES):
            known = self._files.get(BATCHES, number, GroupEmbedding)
            if known and known.batch_id and not known.is_ended:
                self._batch.stop(known.batch_id)

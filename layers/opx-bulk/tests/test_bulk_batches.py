"""Batch jobs of an embedding model: groups within its limits; what a batch job doesn't return is embedded on demand."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from opx.errors import EmbeddingError, ThrottledError
from opx.operations.system import System
from opx.ports import ObjectStore, Vectors
from opx.ports.bulk import BatchLimits, BatchPhase, BatchState
from opx_bulk.capability import Bulk
from opx_bulk.embedding import group_shards
from opx_bulk.job import BulkReport, ShardPrepared
from tests.support.bulk_support import begun, contents, drained, put_pages, system_at
from tests.support.fakes import WordsEmbedder

Row = dict[str, Any]
Spoil = Callable[[list[Row]], list[Row]]


class CountingEmbedder(WordsEmbedder):
    """Counts the texts that are embedded on demand."""

    def __init__(self) -> None:
        self.texts = 0

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        self.texts += len(texts)
        return super().embed_documents(texts)


class FakeBatches:
    """A `BatchEmbedder` whose jobs end when they are looked at for the second time; `spoil` changes the rows of an output."""

    model_id = WordsEmbedder.model_id

    def __init__(self, store: Callable[[], ObjectStore], *, minimum: int = 1, spoil: Spoil = list) -> None:
        self.limits = BatchLimits(minimum_records=minimum)
        self.store = store
        self.spoil = spoil
        self.started: dict[str, tuple[Sequence[str], str]] = {}
        self.looked: dict[str, int] = {}
        self.stopped: list[str] = []
        self.expires = False

    def request(self, text: str) -> Mapping[str, Any]:
        return {"inputText": text}

    def vectors(self, output: Mapping[str, Any]) -> Vectors:
        if "embedding" not in output:
            raise EmbeddingError("no vector")
        return [array("f", output["embedding"])]

    def start(self, name: str, inputs: Sequence[str], outputs: str) -> str:
        self.started.setdefault(name, (inputs, outputs))
        return name

    def state(self, batch_id: str) -> BatchState:
        self.looked[batch_id] = self.looked.get(batch_id, 0) + 1
        if self.looked[batch_id] < 2:
            return BatchState(BatchPhase.RUNNING)
        if self.expires:
            return BatchState(BatchPhase.FAILED, reason="it expired")
        inputs, folder = self.started[batch_id]
        return BatchState(BatchPhase.ENDED, {one: self._output(one, folder) for one in inputs})

    def _output(self, key: str, folder: str) -> str:
        with self.store().open(key) as stream:
            rows = [json.loads(line) for line in stream]
        embed = WordsEmbedder().embed_query
        made = [(row["recordId"], list(embed(row["modelInput"]["inputText"]))) for row in rows]
        results = [{"recordId": one, "modelOutput": {"embedding": vector}} for one, vector in made]
        name = f"{folder}{key.rpartition('/')[2]}.out"
        self.store().put(name, b"".join(json.dumps(row).encode() + b"\n" for row in self.spoil(results)))
        return name

    def stop(self, batch_id: str) -> None:
        self.stopped.append(batch_id)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with system_at(tmp_path_factory.mktemp("ordinary")) as system:
        put_pages(system, 8, quiet=False)
        drained(system)
        return contents(system)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[..., tuple[System, FakeBatches, CountingEmbedder]]]:
    opened: list[System] = []

    def made(**options: Any) -> tuple[System, FakeBatches, CountingEmbedder]:
        batches, embedder = FakeBatches(lambda: opened[0].store, **options), CountingEmbedder()
        opened.append(system_at(tmp_path / "home", embedder=embedder, batch_embedder=batches))
        put_pages(opened[0], 8)
        return opened[0], batches, embedder

    yield made
    for system in opened:
        system.close()


def run_stages(system: System) -> BulkReport:
    """Runs the calls of the state machine one after the other."""
    job_id, stages = begun(system).job_id, system.part(Bulk.of).stages
    assert stages.list(job_id)
    for shard in stages.shards(job_id):
        stages.prepare(job_id, shard.number)
    for group in stages.group(job_id):
        while not stages.embed(job_id, group.number).is_ended:
            pass
    for shard in stages.shards(job_id):
        stages.apply(job_id, shard.number)
    report = stages.finish(job_id)
    assert report is not None
    return report


def shuffled(rows: list[Row]) -> list[Row]:
    return rows[::-1]


def twice(rows: list[Row]) -> list[Row]:
    return [*rows, *rows]


def with_errors(rows: list[Row]) -> list[Row]:
    return [
        {"recordId": row["recordId"], "error": {"errorCode": 400}} if n % 3 == 0 else row for n, row in enumerate(rows)
    ]


def some_left_out(rows: list[Row]) -> list[Row]:
    return rows[::2]


def of_another_dimension(rows: list[Row]) -> list[Row]:
    return [{**row, "modelOutput": {"embedding": [1.0]}} if n == 0 else row for n, row in enumerate(rows)]


@pytest.mark.parametrize("spoil", [list, shuffled, twice, with_errors, some_left_out, of_another_dimension])
def test_records_in_any_order_twice_or_failed_make_the_same_index(
    world: Callable[..., tuple[System, FakeBatches, CountingEmbedder]], expected: dict[str, Any], spoil: Spoil
) -> None:
    system, batches, embedder = world(spoil=spoil)
    report = run_stages(system)
    assert len(batches.started) == 1
    assert (report.ingested, report.failed, report.unsettled) == (8, 0, 0)
    assert (report.embedded > 0) == (spoil in (with_errors, some_left_out, of_another_dimension))
    assert embedder.texts == report.embedded
    assert contents(system) == expected


def test_texts_of_an_expired_batch_job_are_embedded_on_demand(
    world: Callable[..., tuple[System, FakeBatches, CountingEmbedder]], expected: dict[str, Any]
) -> None:
    system, batches, _ = world()
    batches.expires = True
    report = run_stages(system)
    assert (report.ingested, report.embedded) == (8, report.chunks)
    assert contents(system) == expected


def test_texts_below_the_minimum_of_a_batch_job_are_embedded_on_demand(
    world: Callable[..., tuple[System, FakeBatches, CountingEmbedder]],
) -> None:
    system, batches, _ = world(minimum=10_000)
    assert run_stages(system).ingested == 8
    assert not batches.started


def test_a_cancelled_job_stops_its_batch_jobs(
    world: Callable[..., tuple[System, FakeBatches, CountingEmbedder]],
) -> None:
    system, batches, _ = world()
    job_id, stages = begun(system).job_id, system.part(Bulk.of).stages
    stages.list(job_id)
    stages.prepare(job_id, 0)
    (group,) = stages.group(job_id)
    assert not stages.embed(job_id, group.number).is_ended
    stages.cancel(job_id)
    assert batches.stopped == list(batches.started)


def test_a_quota_of_batch_jobs_that_is_used_up_is_waited_for(
    world: Callable[..., tuple[System, FakeBatches, CountingEmbedder]], monkeypatch: pytest.MonkeyPatch
) -> None:
    system, batches, _ = world()
    start = batches.start

    def refused(*_: object) -> str:
        raise ThrottledError("20 jobs are running", 60.0)

    monkeypatch.setattr(batches, "start", refused)
    with pytest.raises(ThrottledError):
        run_stages(system)
    monkeypatch.setattr(batches, "start", start)
    assert run_stages(system).ingested == 8


# -- groups

LIMITS = BatchLimits(minimum_records=10, maximum_records=100, file_bytes=1000, job_bytes=2000)


@pytest.mark.parametrize(
    ("texts", "groups"),
    [
        ([50, 50], [((0, 1), False)]),
        ([60, 50], [((0,), False), ((1,), False)]),
        ([0, 5], [((1,), True)]),
        ([101, 50], [((0,), True), ((1,), False)]),
        ([0, 0], []),
    ],
)
def test_groups_keep_to_the_limits_of_a_batch_job(texts: list[int], groups: list[tuple[tuple[int, ...], bool]]) -> None:
    prepared = [ShardPrepared(shard=n, left=(), texts=each, bytes=each) for n, each in enumerate(texts)]
    assert [(group.shards, group.on_demand) for group in group_shards(prepared, LIMITS)] == groups


def test_groups_keep_to_the_bytes_of_a_batch_job() -> None:
    prepared = [ShardPrepared(shard=n, left=(), texts=20, bytes=900) for n in range(3)]
    assert [group.shards for group in group_shards(prepared, LIMITS)] == [(0, 1), (2,)]
    giant = ShardPrepared(shard=0, left=(), texts=20, bytes=1001)
    assert [(group.shards, group.on_demand) for group in group_shards([giant], LIMITS)] == [((0,), True)]

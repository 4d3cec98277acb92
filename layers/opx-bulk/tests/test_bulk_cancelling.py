"""Cancelling a job with ten thousand shards fits into an HTTP request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from opx.ports import ObjectInfo
from opx_bulk.capability import Bulk
from opx_bulk.files import APPLIED, CUTS, MANIFEST, PREPARED, SHARDS, TEXTS
from opx_bulk.finishing import read_report
from opx_bulk.job import Shard, ShardApplied
from tests.doubles.memory_bucket import MemoryObjects, MemoryStorage
from tests.support.bulk_support import begun, system_at


class CountedObjects(MemoryObjects):
    """Counts requests."""

    def __init__(self) -> None:
        super().__init__("corpus")
        self.requests: Counter[str] = Counter()

    def open(self, key: str) -> BinaryIO:
        self.requests["open"] += 1
        return super().open(key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        self.requests["list"] += 1
        return super().list(prefix, after=after)

    def delete_many(self, keys: Iterable[str]) -> None:
        self.requests["delete_many"] += 1
        for key in keys:
            super().delete(key)

    def delete(self, key: str, *, etag: str = "") -> bool:
        self.requests["delete"] += 1
        return super().delete(key, etag=etag)


def test_a_job_with_many_shards_is_cancelled_in_few_requests(tmp_path: Path) -> None:
    objects = CountedObjects()
    storage: Any = MemoryStorage(objects)
    with system_at(tmp_path / "home", storage=storage) as system:
        job, shards = begun(system), [Shard(number, 500, 1) for number in range(10_000)]
        files = system.part(Bulk.of).stages.files(job.job_id)
        files.put_list(MANIFEST, shards)
        for kind in (SHARDS, PREPARED, CUTS, TEXTS):
            for shard in shards:
                objects.put(files.name(kind, shard.number), b"{}")
        for number in range(100):
            files.put(APPLIED, number, ShardApplied(shard=number, documents=500, ingested=500))
        objects.requests.clear()
        system.part(Bulk.of).stages.cancel(job.job_id)
        assert objects.requests["delete"] == 0
        assert objects.requests["open"] < 110
        assert objects.requests["list"] + objects.requests["delete_many"] < 10
        assert [info.key.rpartition("/")[2] for info in objects.list("bulk/")] == ["failures.jsonl", "report.json"]
        report = read_report(files)
        assert report is not None
        assert report.ingested == 50_000

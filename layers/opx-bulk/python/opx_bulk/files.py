"""Names, reads and writes the files of a bulk job, below `bulk/JOB/` of the corpus store.

Progress is the presence of result files: children that work at the same time never write the same one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from opx.domain.record import Record, from_json, to_json
from opx.errors import ObjectNotFoundError
from opx.ports import ObjectStore
from opx.ports.objects import read_object

FOLDER = "bulk/"
SHARDS, PREPARED, APPLIED = "shards", "prepared", "applied"
CUTS, TEXTS, VECTORS, OUTPUTS, BATCHES, READING = "cuts", "texts", "vectors", "outputs", "batches", "reading"
FOUND = "found"
MANIFEST, LISTING, GROUPS = "shards.json", "listing.json", "groups.json"
REPORT, FAILURES = "report.json", "failures.jsonl"

R = TypeVar("R", bound=Record)
_SUFFIXES = {SHARDS: ".jsonl", TEXTS: ".jsonl", CUTS: ".bin", VECTORS: ".bin", OUTPUTS: "/"}


class BulkFiles:
    """The files of one job."""

    def __init__(self, store: ObjectStore, job_id: str) -> None:
        self.store = store
        self.prefix = f"{FOLDER}{job_id}/"

    def name(self, kind: str, number: int) -> str:
        """Object key of a shard's (or group's) file of this kind."""
        return f"{self.prefix}{kind}/{number:05}{_SUFFIXES.get(kind, '.json')}"

    # -- records

    def put(self, kind: str, number: int, record: Record) -> None:
        self.store.put(self.name(kind, number), msgspec.json.encode(record))

    def get(self, kind: str, number: int, of: type[R]) -> R | None:
        """The record in a file; None if there is none."""
        data = self.read(self.name(kind, number))
        return None if data is None else from_json(of, json.loads(data))

    def numbers(self, kind: str) -> list[int]:
        """Numbers of the files of this kind that exist, ascending."""
        names = (info.key.rpartition("/")[2] for info in self.store.list(f"{self.prefix}{kind}/"))
        return sorted(int(name.partition(".")[0]) for name in names)

    # -- lists

    def put_list(self, name: str, rows: Iterable[Any]) -> None:
        """Writes a JSON array."""
        self.store.put(self.prefix + name, json.dumps([to_json(row) for row in rows]).encode())

    def get_list(self, name: str) -> list[Any] | None:
        """The rows of a JSON array; None if there is no such file."""
        data = self.read(self.prefix + name)
        return None if data is None else list(json.loads(data))

    def put_lines(self, kind: str, number: int, rows: Iterable[Any]) -> int:
        """Writes JSON Lines; returns their bytes."""
        data = b"".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for row in rows)
        self.store.put(self.name(kind, number), data)
        return len(data)

    def lines(self, key: str) -> Iterator[Any]:
        """The rows of JSON Lines; none if there is no such file."""
        try:
            with self.store.open(key) as stream:
                yield from map(json.loads, stream)
        except ObjectNotFoundError:
            return

    # -- bytes

    def read(self, key: str) -> bytes | None:
        return read_object(self.store, key)

    def delete(self, number: int, kinds: Sequence[str]) -> None:
        """Deletes the files of a shard of these kinds, if they exist."""
        self.store.delete_many(self.name(kind, number) for kind in kinds)

    def clear(self) -> int:
        """Deletes all files but the report and its failures; returns how many."""
        kept = {self.prefix + REPORT, self.prefix + FAILURES}
        keys = [info.key for info in self.store.list(self.prefix) if info.key not in kept]
        self.store.delete_many(keys)
        return len(keys)

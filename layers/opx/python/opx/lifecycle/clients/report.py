"""Reports of removals of clients, as they are kept and shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import field

from opx.domain.record import Record, derive

FORMAT = 1
FOLDER = "offboarding/"
"""In the corpus store, outside of every client's folder. Nothing there becomes knowledge."""


class StoreCounts(Record, frozen=True):
    """How much of a client a store had before its removal, and has after it."""

    before: int
    after: int
    removed: int = 0

    def __post_init__(self) -> None:
        derive(self, removed=self.before - self.after)


class CheckCounts(Record, frozen=True):
    """How much of a client was found by asking in another way, before its removal and after it."""

    before: int
    after: int


class RemovalReport(Record, frozen=True, kw_only=True):
    """`stores` counts by store, `checks` what was found of the client by asking in other ways; `left` is what is still
    there, of either. Times are ISO 8601. `notes` say what no count can show. `sha256` is over all the rest, as
    `content_hash` has it."""

    format: int = FORMAT
    client_id: str
    removal: str
    by: str
    backend: str
    started: str = field(name="startedAt")
    finished: str = field(name="finishedAt")
    scopes: int
    stores: dict[str, StoreCounts]
    checks: dict[str, CheckCounts]
    left: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sha256: str = ""

    def __post_init__(self) -> None:
        counts: dict[str, StoreCounts | CheckCounts] = {**self.stores, **self.checks}
        derive(self, left={name: count.after for name, count in counts.items() if count.after})
        derive(self, sha256=content_hash(self.to_json()))

    @property
    def object_key(self) -> str:
        return f"{FOLDER}{self.removal}/report.json"

    def lines(self) -> Iterator[str]:
        """The same for people."""
        yield f"client {self.client_id}: removed by {self.by or 'somebody'}, {self.started} to {self.finished}"
        width = max(map(len, (*self.stores, *self.checks)), default=0)
        for name, store in self.stores.items():
            yield f"  {name:<{width}}  {store.before:>9,} -> {store.after:,}"
        yield "asked in other ways"
        for name, check in self.checks.items():
            yield f"  {name:<{width}}  {check.before:>9,} -> {check.after:,}"
        for note in self.notes:
            yield f"note: {note}"


def content_hash(content: Mapping[str, Any]) -> str:
    """SHA-256 of a report without its `sha256`, as JSON with sorted keys and no blanks."""
    data = {name: value for name, value in content.items() if name != "sha256"}
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()

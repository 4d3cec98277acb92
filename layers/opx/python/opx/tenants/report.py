"""What a removal did, as it is kept and shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = 1
FOLDER = "offboarding/"
"""In the corpus store, outside of every client's folder. Nothing there becomes knowledge."""


@dataclass(frozen=True, slots=True)
class RemovalReport:
    """`before` and `after` count by store; `checks` what was found of the client by asking in other ways. Times are ISO
    8601. `notes` say what no count can show."""

    client_id: str
    removal: str
    by: str
    backend: str
    started: str
    finished: str
    scopes: int
    before: Mapping[str, int]
    after: Mapping[str, int]
    checks_before: Mapping[str, int]
    checks: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @property
    def left(self) -> dict[str, int]:
        """What is still there, by store or check."""
        return {name: count for name, count in {**self.after, **self.checks}.items() if count}

    @property
    def object_key(self) -> str:
        return f"{FOLDER}{self.removal}/report.json"

    def to_json(self) -> dict[str, Any]:
        """The camelCase form; `sha256` is over all the rest, as `content_hash` has it."""
        content = {
            "format": FORMAT,
            "clientId": self.client_id,
            "removal": self.removal,
            "by": self.by,
            "backend": self.backend,
            "startedAt": self.started,
            "finishedAt": self.finished,
            "scopes": self.scopes,
            "stores": {
                name: {"before": count, "removed": count - self.after.get(name, 0), "after": self.after.get(name, 0)}
                for name, count in self.before.items()
            },
            "checks": {
                name: {"before": count, "after": self.checks.get(name, 0)} for name, count in self.checks_before.items()
            },
            "left": self.left,
            "notes": list(self.notes),
        }
        return {**content, "sha256": content_hash(content)}

    def lines(self) -> Iterator[str]:
        """The same for people."""
        yield f"client {self.client_id}: removed by {self.by or 'somebody'}, {self.started} to {self.finished}"
        width = max(map(len, (*self.before, *self.checks_before)), default=0)
        for name, count in self.before.items():
            yield f"  {name:<{width}}  {count:>9,} -> {self.after.get(name, 0):,}"
        yield "asked in other ways"
        for name, count in self.checks_before.items():
            yield f"  {name:<{width}}  {count:>9,} -> {self.checks.get(name, 0):,}"
        for note in self.notes:
            yield f"note: {note}"


def content_hash(content: Mapping[str, Any]) -> str:
    """SHA-256 of a report without its `sha256`, as JSON with sorted keys and no blanks."""
    data = {name: value for name, value in content.items() if name != "sha256"}
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()

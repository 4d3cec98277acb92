"""Other names of things, and which things were made one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a thing, for those who may see the scope `area` (its key).

    `seen_count` is how often it was registered, `last_seen_at` when last (ISO 8601). `set_by` is who set it, "" if that is
    not known or nobody did; `is_set` tells whether a person did. `documents` is how many documents say it.
    """

    alias: str
    canonical: str
    area: str
    seen_count: int = 1
    last_seen_at: str = ""
    is_set: bool = False
    set_by: str = ""
    documents: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "alias": self.alias,
            "canonical": self.canonical,
            "area": self.area,
            "seenCount": self.seen_count,
            "lastSeenAt": self.last_seen_at,
            "isSet": self.is_set,
            "setBy": self.set_by,
            "documents": self.documents,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Alias:
        return cls(
            given["alias"],
            given["canonical"],
            given["area"],
            int(given["seenCount"]),
            given["lastSeenAt"],
            bool(given["isSet"]),
            given["setBy"],
            int(given["documents"]),
        )


class MergeState(StrEnum):
    """How far a merge is. What is `merging` or `undoing` was interrupted, or is being done."""

    MERGING = "merging"
    MERGED = "merged"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Merge:
    """Two things that were made one in the scope `area` (its key): what is said of `source` is said of `into`."""

    merge_id: str
    area: str
    source: str
    into: str
    state: MergeState
    by: str = ""
    at: str = ""
    undone_by: str = ""
    undone_at: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "mergeId": self.merge_id,
            "area": self.area,
            "source": self.source,
            "into": self.into,
            "state": self.state.value,
            "by": self.by,
            "at": self.at,
            "undoneBy": self.undone_by,
            "undoneAt": self.undone_at,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Merge:
        return cls(
            given["mergeId"],
            given["area"],
            given["source"],
            given["into"],
            MergeState(given["state"]),
            given["by"],
            given["at"],
            given["undoneBy"],
            given["undoneAt"],
        )

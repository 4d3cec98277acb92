"""Other names of things, and which things were made one."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from opx.domain.record import Record


class Alias(Record, frozen=True):
    """Another name of a thing, for those who may see the scope `area` (its key).

    `seen_count` is how often it was registered, `last_seen_at` when last (ISO 8601). `set_by` is who set it, "" if that is
    not known or nobody did; `is_set` tells whether a person did. `documents` is how many documents say it.
    """

    alias: str
    canonical: str
    area: Annotated[str, Meta(description="The scope that it is of.")]
    seen_count: int = 1
    last_seen_at: str = ""
    is_set: bool = False
    set_by: str = ""
    documents: int = 0


class MergeState(StrEnum):
    """How far a merge is. What is `merging` or `undoing` was interrupted, or is being done."""

    MERGING = "merging"
    MERGED = "merged"
    UNDOING = "undoing"
    UNDONE = "undone"


class Merge(Record, frozen=True):
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

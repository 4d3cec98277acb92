"""How versions of a document differ, and what became of one that was restored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class VersionName:
    """One version of a document, current since a time ("" if it didn't say)."""

    version: int
    document_id: str
    since: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "documentId": self.document_id, "since": self.since}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> VersionName:
        return cls(int(data["version"]), str(data["documentId"]), str(data["since"]))


@dataclass(frozen=True, slots=True)
class Change:
    """A field of the metadata that has another value."""

    field: str
    before: str
    after: str

    def to_json(self) -> dict[str, Any]:
        return {"field": self.field, "before": self.before, "after": self.after}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Change:
        return cls(str(data["field"]), str(data["before"]), str(data["after"]))


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """What is different in `after`. `diff` is a unified diff of the texts, "" if they are equal; `added` and `removed` count
    its lines. `cut`: there is more of it than is shown."""

    source: str
    before: VersionName
    after: VersionName
    changes: tuple[Change, ...] = ()
    diff: str = ""
    added: int = 0
    removed: int = 0
    cut: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "changes": [change.to_json() for change in self.changes],
            "diff": self.diff,
            "added": self.added,
            "removed": self.removed,
            "cut": self.cut,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> VersionDiff:
        return cls(
            source=str(data["source"]),
            before=VersionName.from_json(data["before"]),
            after=VersionName.from_json(data["after"]),
            changes=tuple(map(Change.from_json, data["changes"])),
            diff=str(data["diff"]),
            added=int(data["added"]),
            removed=int(data["removed"]),
            cut=bool(data["cut"]),
        )


@dataclass(frozen=True, slots=True)
class Restored:
    """A version that was put back. Its object waits to be taken in, and becomes a new version.

    `original`: the object is the one of then, byte for byte; else it is the text that was read of it, as Markdown, with what
    the catalog knows of it. `notes` say what is not as it was.
    """

    object_key: str
    restored: VersionName
    original: bool
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "objectKey": self.object_key,
            "restored": self.restored.to_json(),
            "original": self.original,
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Restored:
        name = VersionName.from_json(data["restored"])
        return cls(str(data["objectKey"]), name, bool(data["original"]), tuple(map(str, data["notes"])))

"""Defines the differences between stores that reconciliation finds, with their repairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import field

from opx.domain.documents import DocumentKey
from opx.domain.record import Draft, Record


class Problem(StrEnum):
    """Kind of difference between two stores."""

    NOT_TAKEN_IN = "not_taken_in"
    CHANGED = "changed"
    INTERRUPTED = "interrupted"
    MALFORMED_OWNER = "malformed_owner"
    VERSION_MISSING = "version_missing"
    CHUNKS_MISSING = "chunks_missing"
    OLD_CHUNKS_MISSING = "old_chunks_missing"
    INDEX_DIFFERS = "index_differs"
    INDEX_HAS_OTHERS = "index_has_others"
    GRAPH_MISSING = "graph_missing"
    GRAPH_HAS_OTHERS = "graph_has_others"
    CALENDAR_MISSING = "calendar_missing"
    OBJECT_MISSING = "object_missing"
    INDEX_UNKNOWN = "index_unknown"
    CHUNK_FILE_UNKNOWN = "chunk_file_unknown"
    OUTLINE_UNKNOWN = "outline_unknown"
    CHUNKS_DAMAGED = "chunks_damaged"
    OLD_CHUNKS_DAMAGED = "old_chunks_damaged"
    OUTLINE_DAMAGED = "outline_damaged"
    OLD_OUTLINE_DAMAGED = "old_outline_damaged"
    OBJECT_DAMAGED = "object_damaged"
    METADATA_DAMAGED = "metadata_damaged"
    INDEX_DAMAGED = "index_damaged"
    STORE_DAMAGED = "store_damaged"
    ROW_DAMAGED = "row_damaged"
    OLD_ROW_DAMAGED = "old_row_damaged"


_AGAIN = "the document is ingested again"
_NOTHING = "none; restore it from a backup, if one has it"
_NEW = "`opx repair` makes it again; what it can't rebuild is in a backup"

WORDS: Mapping[Problem, tuple[str, str]] = {
    Problem.NOT_TAKEN_IN: ("the corpus has an object that the catalog doesn't know", _AGAIN),
    Problem.CHANGED: ("the object, or the rules by which it is read, changed since it was ingested", _AGAIN),
    Problem.INTERRUPTED: ("a change was begun and never finished", _AGAIN),
    Problem.MALFORMED_OWNER: (
        "the key of an object has an empty or malformed owner",
        "none; remove or rename the object",
    ),
    Problem.VERSION_MISSING: ("the catalog has lost the current version", _AGAIN),
    Problem.CHUNKS_MISSING: ("the chunk file of the current version is missing", _AGAIN),
    Problem.OLD_CHUNKS_MISSING: ("the chunk file of an earlier version is missing: its text is lost", _NOTHING),
    Problem.INDEX_DIFFERS: ("the index has other entries of the current version than its chunk file", _AGAIN),
    Problem.INDEX_HAS_OTHERS: ("the index has entries of a version that is not current", _AGAIN),
    Problem.GRAPH_MISSING: ("the graph has nothing of the document", _AGAIN),
    Problem.GRAPH_HAS_OTHERS: ("the graph has statements of a version that is not current", _AGAIN),
    Problem.CALENDAR_MISSING: ("the calendar lacks days of a version", "the version is entered"),
    Problem.OBJECT_MISSING: ("the catalog has a document whose object is gone", "the document is withdrawn"),
    Problem.INDEX_UNKNOWN: ("the index has entries of a document that the catalog doesn't know", "they are removed"),
    Problem.CHUNK_FILE_UNKNOWN: ("a chunk file belongs to no version in the catalog", "the file is removed"),
    Problem.OUTLINE_UNKNOWN: ("an outline belongs to no version in the catalog", "the file is removed"),
    Problem.CHUNKS_DAMAGED: ("the chunk file of the current version is damaged", _AGAIN),
    Problem.OLD_CHUNKS_DAMAGED: ("the chunk file of an earlier version is damaged: some of its text is lost", _NOTHING),
    Problem.OUTLINE_DAMAGED: ("the outline of the current version is damaged", _AGAIN),
    Problem.OLD_OUTLINE_DAMAGED: ("the outline of an earlier version is damaged", "it is made again from the chunks"),
    Problem.OBJECT_DAMAGED: (
        "the bytes of the object are not those that were stored",
        "none; ingest the document from where it came, or restore it from a backup. Its text is still in the chunk file",
    ),
    Problem.METADATA_DAMAGED: (
        "the record of the object's metadata is damaged",
        "it is made again from the catalog, and the document ingested again",
    ),
    Problem.INDEX_DAMAGED: ("the index has damaged entries of the current version", _AGAIN),
    Problem.STORE_DAMAGED: ("a file of the stores is damaged", _NEW),
    Problem.ROW_DAMAGED: ("a row of the catalog can't be read", "it is made again, and the document ingested again"),
    Problem.OLD_ROW_DAMAGED: ("the row of an earlier version can't be read", _NOTHING),
}
"""Description and repair of each problem."""

REMOVALS = (Problem.OBJECT_MISSING, Problem.INDEX_UNKNOWN, Problem.CHUNK_FILE_UNKNOWN, Problem.OUTLINE_UNKNOWN)
"""Repaired by removal; many of them indicate that another store was lost, not that this one has too much."""

UNREPAIRED = (
    Problem.MALFORMED_OWNER,
    Problem.OLD_CHUNKS_MISSING,
    Problem.OLD_CHUNKS_DAMAGED,
    Problem.OBJECT_DAMAGED,
    Problem.STORE_DAMAGED,
    Problem.OLD_ROW_DAMAGED,
)
"""Not repaired by reconciliation: what is lost, and files that other processes have open."""

MOST_SHOWN = 1000


class StoreDifference(Record, frozen=True):
    """One problem of one document in a report. `object_key` is that of its object, or of the superfluous object; "" if no
    document is known."""

    problem: Problem
    object_key: str = field(name="object")
    scope_key: str = field(name="scope")
    document_id: str
    text: str
    repair: str


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """A difference with the data that its repair needs. `key` is None if no document is known. `object_key` names the file
    in the home folder, if it is no object that is damaged."""

    problem: Problem
    object_key: str
    document_id: str = ""
    detail: str = ""
    key: DocumentKey | None = None
    key_id: str = ""
    scope_key: str = ""

    @property
    def difference(self) -> StoreDifference:
        text, repair = WORDS[self.problem]
        text = f"{text}: {self.detail}" if self.detail else text
        return StoreDifference(self.problem, self.object_key, self.scope_key, self.document_id, text, repair)


class ReconcileReport(Draft):
    """Counts of compared items, differences and repairs. `differences` has the first thousand; `counts` covers all.

    `in_flight` items were being worked on, or too recent to be visible everywhere; `failed` ones are failed items
    already. `held_back` are removals that were not done because there were too many; `waiting` documents are left to
    functions; `given_up` are interrupted imports that need not be finished, as nothing differs any more.
    """

    objects: int = 0
    documents: int = 0
    chunk_files: int = 0
    outlines: int = 0
    index_documents: int = 0
    in_flight: int = 0
    failed: int = 0
    differences: list[StoreDifference] = field(default_factory=list)
    counts: dict[Problem, int] = field(default_factory=Counter)
    repaired: int = 0
    held_back: int = 0
    waiting: int = 0
    given_up: int = field(default=0, name="importsGivenUp")

    def add(self, found: Iterable[StoreFinding]) -> None:
        for finding in found:
            self.counts[finding.problem] += 1
            if len(self.differences) < MOST_SHOWN:
                self.differences.append(finding.difference)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

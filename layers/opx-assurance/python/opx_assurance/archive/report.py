"""Reports of exports and imports."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from msgspec import field

from opx.domain.record import Draft, Record


class ExportReport(Draft):
    """Contents of a written archive, whose own checksum is `sha256`. `notes` list what could not be exported."""

    path: str
    size: int = field(default=0, name="bytes")
    sha256: str = ""
    counts: dict[str, int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


class Fate(StrEnum):
    """Outcome of importing one document of an archive."""

    RESTORED = "restored"
    REPLACED = "newer than what is here"
    SAME = "same as what is here"
    KEPT = "older than what is here"


class ArchiveFacts(Record, frozen=True):
    """Origin of an archive as its manifest states it: time, program version and kind of system."""

    made: str
    version: str
    backend: str
    sha256: str


class ImportReport(Draft):
    """Contents of an archive, outcome per document and row, and notes for the operator. `waiting` documents are left to
    functions; `failed` ones could not be ingested and are among the failed items."""

    archive: ArchiveFacts
    contents: dict[str, int]
    notes: list[str]
    dry_run: bool = False
    documents: dict[Fate, int] = field(default_factory=Counter)
    rows: dict[str, int] = field(default_factory=Counter)
    files: int = 0
    failed: int = 0
    waiting: int = 0

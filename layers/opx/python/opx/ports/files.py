"""Port of the files behind the stores of an installation on this machine: finds damaged ones, and sets them aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, field


class StoreFile(StrEnum):
    """Content of a damaged file. `ENTRIES` are those of one document in an index that can be read; `IRREGULAR` is something
    else than a file under the name of one, such as a folder or a link; `UNREADABLE` lacks its owner's right to read it."""

    DATABASE = "database"
    INDEX = "index"
    ENTRIES = "entries"
    IRREGULAR = "irregular"
    UNREADABLE = "unreadable"


class FileDamage(Struct, frozen=True):
    """A damaged file, by its path in the home folder. `key_id` is the document key of damaged entries."""

    file: str
    kind: StoreFile
    problem: str
    key_id: str = ""


class Loss(Struct, frozen=True):
    """Rows that could not be read of a table; of a whole database if there is no table."""

    table: str
    text: str


class MendedFiles(Struct):
    """`folder` of the home folder to which files were moved, "" if none was damaged; the numbers of rows that were read from
    damaged databases by table, and what could not be read."""

    folder: str = ""
    rows: dict[str, int] = field(default_factory=dict)
    lost: list[Loss] = field(default_factory=list)


class StoreFiles(Protocol):
    """The databases and indexes of an installation, as files that nothing else has open."""

    def damaged(self) -> Iterator[FileDamage]:
        """The damage that is found by reading every file whole. Changes nothing. Raises `StoreUnavailableError` while
        another process writes."""

    def glance(self) -> Iterator[FileDamage]:
        """The damage that is found in about a second, whatever the size of the stores: of databases their structure, of
        large ones the ends of each table, of indexes lists, sizes and small files, and nothing of documents. Changes nothing,
        and waits for nobody. Raises `StoreUnavailableError`."""

    def mend(self, progress: Callable[[str], None]) -> MendedFiles:
        """Moves damaged files aside, never deletes them, and makes databases of the rows that can still be read; completes
        what an interrupted call has begun. A removed index is made again by its writer. Raises `StoreUnavailableError`
        while another process works."""

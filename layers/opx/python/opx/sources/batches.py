"""Collects what a connector read into pages; odd records are refused, and the others are still taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from opx.domain.sources import Cursor, Page, Refused, SourceDocument
from opx.errors import SourceShapeError
from opx.sources.shapes import OddRecordError

R = TypeVar("R")


@dataclass(slots=True)
class Batch:
    """What the next page of a pull will have."""

    documents: list[SourceDocument] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes or characters of the documents."""
        return sum(len(document.content) for document in self.documents)

    def refuse(self, key: str, reason: object) -> None:
        self.refused.append(Refused(key, str(reason)))

    @contextmanager
    def refusing(self, key: str) -> Iterator[None]:
        """Refuse the document if the block finds its record odd."""
        try:
            yield
        except OddRecordError as exc:
            self.refuse(key, exc)

    def page(self, cursor: Cursor | None = None, *, seen_until: str = "", complete: bool = False) -> Page:
        """The page, after which the batch is empty."""
        documents, unchanged = tuple(self.documents), tuple(self.unchanged)
        withdrawn, refused = tuple(self.withdrawn), tuple(self.refused)
        self.documents, self.unchanged, self.withdrawn, self.refused = [], [], [], []
        return Page(documents, unchanged, withdrawn, refused, cursor or {}, seen_until, complete)


def read_each(records: Iterable[R], read: Callable[[R], SourceDocument], key: Callable[[R], str], of: str) -> Batch:
    """Records as documents. Raises `SourceShapeError` if there are several and all are odd: then it is not the records,
    but their shape has changed."""
    batch = Batch()
    for record in records:
        try:
            batch.documents.append(read(record))
        except OddRecordError as exc:
            batch.refuse(key(record), exc)
    if len(batch.refused) > 1 and not batch.documents:
        raise SourceShapeError(f"{of}: no record is as expected; the first: {batch.refused[0].reason}")
    return batch


def page_of(
    records: Iterable[tuple[str, R]],
    read: Callable[[str, R], SourceDocument | None],
    *,
    cursor: Cursor,
    seen_until: str = "",
    complete: bool,
) -> Page:
    """Each record, under its key, as a document. One for which `read` gives None is withdrawn; one that has not the
    expected shape (`SourceShapeError`) is refused with the reason."""
    batch = Batch()
    for key, record in records:
        try:
            document = read(key, record)
        except SourceShapeError as exc:
            batch.refuse(key, exc)
            continue
        if document is None:
            batch.withdrawn.append(key)
        else:
            batch.documents.append(document)
    return batch.page(cursor, seen_until=seen_until, complete=complete)

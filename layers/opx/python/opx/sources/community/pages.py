"""Records of a listing as a page of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from opx.domain.sources import Cursor, Page, Refused, SourceDocument
from opx.errors import SourceShapeError

R = TypeVar("R")


def page_of(
    records: Iterable[tuple[str, R]],
    read: Callable[[str, R], SourceDocument | None],
    *,
    cursor: Cursor,
    seen_until: str = "",
    complete: bool,
) -> Page:
    """Each record, under its key, as a document. One for which `read` gives None is withdrawn; one that has not the
    expected shape (`SourceShapeError`) is refused with the reason, and the others are still taken."""
    documents: list[SourceDocument] = []
    withdrawn: list[str] = []
    refused: list[Refused] = []
    for key, record in records:
        try:
            document = read(key, record)
        except SourceShapeError as exc:
            refused.append(Refused(key, str(exc)))
            continue
        if document is None:
            withdrawn.append(key)
        else:
            documents.append(document)
    return Page(
        documents=tuple(documents),
        withdrawn=tuple(withdrawn),
        refused=tuple(refused),
        cursor=cursor,
        seen_until=seen_until,
        complete=complete,
    )

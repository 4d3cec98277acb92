"""Listings of NVD as pages of documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opx.domain.record import replace
from opx.domain.sources import Page, SourceDocument
from opx.errors import SourceUnavailableError
from opx.sources.security.cve import Feeds, cve_document
from opx.sources.security.nvd_api import NvdApi
from opx.sources.security.nvd_place import Place
from opx.sources.shapes import Loose, Shape, read_each, shaped

PAGE_RECORDS = 500


class _Mark(Shape, frozen=True, rename="camel"):
    id: Loose[str] = ""
    vuln_status: Loose[str] = ""


class _Marked(Shape, frozen=True):
    """The part of a record that names it, if it does."""

    cve: Loose[_Mark] = _Mark()


Step = tuple[Page, Place]
"""A page and the place behind it."""


def listed(api: NvdApi, query: Mapping[str, str], place: Place, feeds: Feeds) -> Iterator[Step]:
    """The records of a query from `place.index` on, at least one page. Positions shift when a record leaves the listing,
    as one does that is changed again while its range is read: then what may have been skipped is read, too."""
    while True:
        records = api.records(query, at=place.index)
        left = place.total - records.total
        place = replace(place, total=records.total, now=records.moment)
        if left > 0:
            place = replace(place, index=max(0, place.index - left))
            continue
        if not records.found and place.index < place.total:
            raise SourceUnavailableError(f"NVD: no records at {place.index:,} of {place.total:,}")
        for at in range(0, max(1, len(records.found)), PAGE_RECORDS):
            some = records.found[at : at + PAGE_RECORDS]
            place = replace(place, index=place.index + len(some))
            yield page_of(some, feeds), place
        if place.index >= place.total:
            return


def page_of(records: list[Any], feeds: Feeds) -> Page:
    """Records as documents; CVEs that turned out to be none are withdrawn."""
    rejected = {id(record): name for record in records if (name := _rejected(record))}

    def read(record: Any) -> SourceDocument:
        return cve_document(record, feeds)

    documents, refused = read_each((record for record in records if id(record) not in rejected), read, _named, "NVD")
    return Page(documents=documents, refused=refused, withdrawn=tuple(rejected.values()))


def _rejected(record: Any) -> str:
    """The id of a CVE that turned out to be none, else ""."""
    return _named(record) if _mark(record).vuln_status == "Rejected" else ""


def _named(record: Any) -> str:
    return _mark(record).id or "a record without id"


def _mark(record: Any) -> _Mark:
    return shaped(_Marked, record if isinstance(record, dict) else {}).cve

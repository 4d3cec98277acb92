"""The index of RFCs: what an RFC can't say of itself, such as by what it was obsoleted.

Source of the format: RFC Editor, "RFC Index" (`rfc-index.xml`, namespace `https://www.rfc-editor.org/rfc-index`).
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import date

from opx.domain.ids import stable_hash
from opx.errors import SourceShapeError
from opx.sources.markdown import one_line

_NUMBER = re.compile(r"([A-Z]+)0*(\d+)\Z")
_MONTHS = {date(2000, month, 1).strftime("%B"): month for month in range(1, 13)}


@dataclass(frozen=True, slots=True)
class RfcEntry:
    """An RFC of the index. Others are named as `RFC 9110`; `published` is the first of the month, if the day isn't told.
    `texts`: there is a plain text of it."""

    number: int
    title: str
    authors: tuple[str, ...]
    published: str
    status: str
    first_status: str
    stream: str
    group: str
    keywords: tuple[str, ...]
    abstract: tuple[str, ...]
    obsoletes: tuple[str, ...]
    obsoleted_by: tuple[str, ...]
    updates: tuple[str, ...]
    updated_by: tuple[str, ...]
    also: tuple[str, ...]
    errata: str
    texts: bool

    @property
    def name(self) -> str:
        return f"RFC {self.number}"

    @property
    def mark(self) -> str:
        """Differs as soon as anything in the entry does."""
        return stable_hash("rfc", *map(str, astuple(self)))[:12]


def read_index(body: bytes, url: str) -> Iterator[RfcEntry]:
    """The entries, in the order of the index. Raises `SourceShapeError`, also in the middle, if the index is cut."""
    if b"<!DOCTYPE" in body[:4096] or b"<!ENTITY" in body:
        raise SourceShapeError(f"{url}: expected an index without a document type")
    found = 0
    try:
        for _, element in ET.iterparse(io.BytesIO(body)):  # noqa: S314 - entities can't be declared, as checked above
            if _name(element) != "rfc-entry":
                continue
            yield _entry(element, url)
            found += 1
            element.clear()
    except ET.ParseError as exc:
        raise SourceShapeError(f"{url}: the index is not XML: {exc}; it may be cut") from exc
    if not found:
        raise SourceShapeError(f"{url}: expected an index with elements 'rfc-entry'")


def _entry(element: ET.Element, url: str) -> RfcEntry:
    number = _number(_text(element, "doc-id"))
    title = _text(element, "title")
    if not number or not title:
        raise SourceShapeError(f"{url}: expected an rfc-entry with 'doc-id' and 'title'")
    formats = [_words(each) for part in _children(element, "format") for each in part]
    return RfcEntry(
        number=int(number.rpartition(" ")[2]),
        title=title,
        authors=tuple(_text(author, "name") for author in _children(element, "author")),
        published=_published(element),
        status=_text(element, "current-status"),
        first_status=_text(element, "publication-status"),
        stream=_text(element, "stream"),
        group=_text(element, "wg_acronym"),
        keywords=tuple(_words(word) for part in _children(element, "keywords") for word in part),
        abstract=tuple(_words(part) for whole in _children(element, "abstract") for part in whole),
        obsoletes=_others(element, "obsoletes"),
        obsoleted_by=_others(element, "obsoleted-by"),
        updates=_others(element, "updates"),
        updated_by=_others(element, "updated-by"),
        also=_others(element, "is-also"),
        errata=_text(element, "errata-url"),
        texts=not formats or any(each in ("TXT", "ASCII", "TEXT") for each in formats),
    )


def _published(element: ET.Element) -> str:
    for told in _children(element, "date"):
        year, month, day = (_text(told, part) for part in ("year", "month", "day"))
        if year.isdigit() and len(year) == 4:
            return f"{year}-{_MONTHS.get(month, 1):02d}-{int(day) if day.isdigit() else 1:02d}"
    return ""


def _others(element: ET.Element, name: str) -> tuple[str, ...]:
    named = [_number(_words(each)) for part in _children(element, name) for each in part]
    return tuple(each for each in named if each)


def _number(doc_id: str) -> str:
    """`RFC 793` for `RFC0793`, and likewise for STD, BCP and FYI."""
    match = _NUMBER.match(doc_id)
    return f"{match[1]} {match[2]}" if match else doc_id


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _children(element: ET.Element, name: str) -> list[ET.Element]:
    return [child for child in element if _name(child) == name]


def _text(element: ET.Element, name: str) -> str:
    return next((_words(child) for child in _children(element, name)), "")


def _words(element: ET.Element) -> str:
    return one_line("".join(element.itertext()))

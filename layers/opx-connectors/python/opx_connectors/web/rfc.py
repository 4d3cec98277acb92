"""Pulls Internet standards and the other RFCs from the RFC Editor.

The text of an RFC never changes; its status and its relations to other RFCs do, and are in the index. Each text is
requested together with a hash of its entry in the index, so that it is sent again only if the entry changed.

Source of the index's format: RFC Editor, "RFC Index" (`rfc-index.xml`, namespace
`https://www.rfc-editor.org/rfc-index`).
"""

from __future__ import annotations

import hashlib
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from datetime import date
from typing import Annotated, Any

from opx.connectors.connector import Batch, Connector, Options, Texts
from opx.domain.ids import stable_hash
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, RateLimit, SourceDocument
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError
from opx.formats.markdown import facts, joined, nested, one_line
from opx.ports.sources import WebReply
from opx_connectors.web.rfc_text import rfc_markdown

_NUMBER = re.compile(r"([A-Z]+)0*(\d+)\Z")
_MONTHS = {date(2000, month, 1).strftime("%B"): month for month in range(1, 13)}


@dataclass(frozen=True, slots=True)
class RfcEntry:
    """An RFC of the index. Others are named as `RFC 9110`; `published` is the first of the month if the day is unknown.
    `texts`: it has a plain text."""

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
        """Hash of the entry: differs as soon as anything in it does."""
        return stable_hash("rfc", *map(str, astuple(self)))[:12]


def read_index(body: bytes, url: str) -> Iterator[RfcEntry]:
    """Parses the entries, in the order of the index. Raises `SourceShapeError`, also in the middle, if the index is cut."""
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
    for found in _children(element, "date"):
        year, month, day = (_text(found, part) for part in ("year", "month", "day"))
        if year.isdigit() and len(year) == 4:
            return f"{year}-{_MONTHS.get(month, 1):02d}-{int(day) if day.isdigit() else 1:02d}"
    return ""


def _others(element: ET.Element, name: str) -> tuple[str, ...]:
    named = [_number(_words(each)) for part in _children(element, name) for each in part]
    return tuple(each for each in named if each)


def _number(doc_id: str) -> str:
    """Formats an id: `RFC 793` for `RFC0793`, and likewise for STD, BCP and FYI."""
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


BASE_URL = "https://www.rfc-editor.org"
PAGE_DOCUMENTS = 20
_INDEX_BYTES = 96 * 1024 * 1024
_RANGE = re.compile(r"(?:RFC\s*)?(\d{1,5})(?:\s*-\s*(?:RFC\s*)?(\d{1,5}))?\Z", re.IGNORECASE)
_MAX_TAGS = 12
_MAX_TAG = 60
_MAX_AUTHORS = 250
"""Characters of the list of authors. Metadata of an object in S3 have 2 KB in all; RFCs have up to 30 authors and 50
keywords."""


class RfcOptions(Options, frozen=True):
    """Selection of RFCs; an empty option allows all."""

    numbers: Annotated[Texts, about("Numbers and ranges, such as 9110 and 9000-9002.")] = ()
    statuses: Annotated[
        Texts, about("Only those of these statuses, such as INTERNET STANDARD and BEST CURRENT PRACTICE.")
    ] = ()
    topics: Annotated[Texts, about("Only those with one of these words in title, keywords or working group.")] = ()
    obsolete: Annotated[bool, about("Read obsoleted RFCs too.")] = True
    base_url: Annotated[str, about("The address of the RFC editor, for a mirror.")] = BASE_URL


class RfcConnector(Connector[RfcOptions]):
    """Pulls one document per RFC."""

    about = "RFCs of the IETF, with what they obsolete and update"
    limit = RateLimit(3, 1.0)  # none is documented; the whole series takes an hour with this one

    def probe(self) -> None:
        """Requests a short RFC to check the address, as the index is large."""
        self._ranges()
        reply = self._text_of(2119, "")
        if reply.gone:
            raise SourceRefusedError(f"{reply.url}: no RFC there; set base_url", reply.status)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        url = f"{self._base}/rfc-index.xml"
        choice = self._choice()
        reply = self.web.get(url, conditional=not request.cursor, limit=_INDEX_BYTES)
        if reply.not_modified and request.left.get("choice") != choice:
            reply = self.web.get(url, limit=_INDEX_BYTES)
        if reply.gone:
            raise SourceRefusedError(f"{reply.url}: there is no index; set base_url", reply.status)
        if reply.not_modified:
            yield Page(cursor={"choice": choice})
            return
        mark = hashlib.sha256(reply.body + choice.encode()).hexdigest()[:16]
        chosen = self._chosen(read_index(reply.body, url))
        position = int(request.cursor.get("position", 0)) if request.cursor.get("index") == mark else 0
        for at in range(position, max(position + 1, len(chosen)), PAGE_DOCUMENTS):
            some = chosen[at : at + PAGE_DOCUMENTS]
            cursor = {"index": mark, "choice": choice, "position": at + len(some)}
            yield self._page(some, cursor, last=at + PAGE_DOCUMENTS >= len(chosen))

    @property
    def _base(self) -> str:
        return self.options.base_url.rstrip("/")

    # -- selection

    def _choice(self) -> str:
        """Hash of the options that select RFCs: if they change, an unchanged index is processed again."""
        options = self.options
        return stable_hash("rfcs", options.numbers, options.statuses, options.topics, options.obsolete)[:16]

    def _ranges(self) -> list[range]:
        ranges = []
        for given in self.options.numbers:
            match = _RANGE.match(given.strip())
            if not match:
                raise InvalidInputError(f"source {self.name}: numbers are such as 9110 or 9000-9002, not {given!r}")
            ranges.append(range(int(match[1]), int(match[2] or match[1]) + 1))
        return ranges

    def _chosen(self, entries: Iterable[RfcEntry]) -> list[RfcEntry]:
        ranges = self._ranges()
        statuses = {one_line(status).upper() for status in self.options.statuses}
        topics = [topic.lower() for topic in self.options.topics]
        return [
            entry
            for entry in entries
            if (not ranges or any(entry.number in some for some in ranges))
            and (not statuses or entry.status.upper() in statuses)
            and (not topics or _is_about(entry, topics))
            and (self.options.obsolete or not entry.obsoleted_by)
        ]

    # -- texts

    def _page(self, entries: list[RfcEntry], cursor: dict[str, Any], *, last: bool) -> Page:
        batch = Batch()
        known = self.known([_key(entry) for entry in entries])
        for entry in entries:
            key = _key(entry)
            reply = self._text_of(entry.number, entry.mark) if entry.texts else None
            if reply and reply.not_modified and key not in known:
                reply = self._text_of(entry.number, entry.mark, conditional=False)
            if reply and reply.not_modified:
                batch.unchanged.append(key)
            elif reply and reply.gone:
                batch.refuse(key, f"{reply.url}: the index lists it, but it has no text")
            elif reply and _is_no_text(reply.body):
                batch.refuse(key, f"{reply.url}: the reply is not a plain text of an RFC")
            else:
                batch.add(rfc_document(entry, reply.text() if reply else "", self._base))
        return batch.page(cursor, complete=last)

    def _text_of(self, number: int, mark: str, *, conditional: bool = True) -> WebReply:
        """Requests the text, unless it was sent with this hash before. File servers ignore the query string."""
        url = f"{self._base}/rfc/rfc{number}.txt"
        return self.web.get(url, query={"entry": mark} if mark else None, conditional=conditional and bool(mark))


def _is_no_text(body: bytes) -> bool:
    """True if a body is empty, binary, or a page that replaces a missing text."""
    return not body.strip() or b"\0" in body or body.lstrip().startswith(b"<")


def rfc_document(entry: RfcEntry, text: str, base: str) -> SourceDocument:
    """Renders the document of an RFC; without a plain text, from the index alone."""
    abstract = "\n\n".join(entry.abstract)
    body = rfc_markdown(text) if text else ""
    has_own = "\n## Abstract\n" in f"\n{body[:4096]}\n"
    parts = (
        _warning(entry),
        _facts(entry),
        "" if has_own or not abstract else f"## Abstract\n\n{nested(abstract, 2)}",
        body or "There is no plain text of this RFC.",
    )
    metadata: dict[str, Any] = {
        "title": f"{entry.name}: {entry.title}",
        "source_uri": f"{base}/info/rfc{entry.number}",
        "tags": _tags(entry),
        "author": _listed_authors(entry),
    }
    if entry.published:
        metadata.update(created_at=entry.published, last_updated=entry.published)
    return SourceDocument(_key(entry), joined(parts), metadata)


def _warning(entry: RfcEntry) -> str:
    if entry.obsoleted_by:
        return f"**Obsolete: {entry.name} was replaced by {', '.join(entry.obsoleted_by)}.**"
    return f"**Historic: {entry.name} is no longer recommended.**" if entry.status == "HISTORIC" else ""


def _facts(entry: RfcEntry) -> str:
    pairs = (
        ("Status", entry.status),
        ("Published as", entry.first_status if entry.first_status != entry.status else ""),
        ("Published", entry.published[:7]),
        ("Also", ", ".join(entry.also)),
        ("Obsoletes", ", ".join(entry.obsoletes)),
        ("Updates", ", ".join(entry.updates)),
        ("Updated by", ", ".join(entry.updated_by)),
        ("Working group", entry.group),
        ("Keywords", ", ".join(entry.keywords)),
        ("Errata", entry.errata),
    )
    return facts(pairs)


def _tags(entry: RfcEntry) -> list[str]:
    marks = ["obsolete", *(f"obsoleted-by:{other.replace(' ', '')}" for other in entry.obsoleted_by)]
    found = [entry.status.lower(), *(marks if entry.obsoleted_by else []), entry.group, *entry.keywords]
    return [tag[:_MAX_TAG] for tag in dict.fromkeys(found) if tag][:_MAX_TAGS]


def _listed_authors(entry: RfcEntry) -> str:
    names = ", ".join(entry.authors)
    return names if len(names) <= _MAX_AUTHORS else names[:_MAX_AUTHORS].rpartition(", ")[0] + " and others"


def _is_about(entry: RfcEntry, topics: list[str]) -> bool:
    words = " ".join((entry.title, entry.group, *entry.keywords)).lower()
    return any(re.search(rf"(?<!\w){re.escape(topic)}(?!\w)", words) for topic in topics)


def _key(entry: RfcEntry) -> str:
    return f"rfc{entry.number}"

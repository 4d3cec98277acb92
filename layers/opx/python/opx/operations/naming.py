"""Finds documents by id, path, address, link or title."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import ID_LENGTH
from opx.domain.procedures import Outline
from opx.domain.queries import MAX_QUERY_CHARACTERS, QueryConfig, SearchMode
from opx.domain.results import Answer
from opx.domain.scopes import scope_of_key
from opx.domain.titles import MAX_TITLE, repeats
from opx.errors import DocumentNotFoundError, IndexUnavailableError, InvalidInputError
from opx.operations.context import Context
from opx.operations.documents import current_documents, find_document, versions_of
from opx.runtime.deadlines import deadline

log = logging.getLogger(__name__)

_NEAREST = 3
"""Documents suggested where none has the requested name."""
_LOOKED_AT = 20
"""Search results that are compared with a title."""
_NAMED_AT_MOST = 10
_SEARCH_SECONDS = 5.0
_SCANNED = 5_000
"""Documents whose names are scanned where a search finds none of that name."""
_LIKENESS = 0.6
"""Minimum similarity of two titles, by difflib."""
_OWN_FOLDER = "documents/"
_DIGITS = re.compile(r"[0-9a-fA-F]{4,32}")
_ID = re.compile(r"[0-9a-fA-F]{12,32}")
"""Shorter hexadecimal words may be names of alerts."""
_LINK = re.compile(r"(?:\.{1,2}/)*(?P<path>[^\s#]*[./][^\s#]*)(?:#(?P<section>\S*))?")
"""A link in a document: `../runbooks/kafka-lag.md#verify`."""
_FILES = (".md", ".markdown", ".txt", ".html", ".htm", ".rst", ".adoc", ".pdf", ".docx")


def named_document(context: Context, name: str) -> tuple[KnowledgeDocument, tuple[str, ...]]:
    """The document that an id, a path, an address, a link of another document or a title refers to, in its current
    version; and notes about it. Raises `DocumentNotFoundError`, and `InvalidInputError` for a name that several documents
    have."""
    link = _LINK.fullmatch(name.strip())
    text = link["path"] if link else name.strip()
    if _DIGITS.fullmatch(text):
        try:
            return _current(context, find_document(context, text))
        except DocumentNotFoundError:
            if len(text) == ID_LENGTH:
                raise
    return _by_path(context, text) or _by_title(context, text), ()


def section_of_link(name: str) -> str:
    """Returns the section after the `#` of a link of a document; "" without one."""
    link = _LINK.fullmatch(name.strip())
    return link["section"] or "" if link else ""


def _current(context: Context, document: KnowledgeDocument) -> tuple[KnowledgeDocument, tuple[str, ...]]:
    """Returns the current version of a document that was found by its id, with a note if it is another one."""
    if document.state is DocumentState.CURRENT:
        return document, ()
    current = next((one for one in versions_of(context, document) if one.state is DocumentState.CURRENT), None)
    if current is None:
        raise DocumentNotFoundError(
            f"{document.title} was withdrawn on {document.superseded_at[:10] or 'an unknown day'}"
        )
    documents = context.system.questions.documents
    note = (
        f"version {document.version} was replaced on {document.superseded_at[:10]}; this is version {current.version}"
    )
    return documents.find(context.reader, current.document_id), (note,)


def _by_path(context: Context, text: str) -> KnowledgeDocument | None:
    """The document with this path in the corpus, in the narrowest scope that the caller sees."""
    catalog = context.system.corpus.catalog
    path = text.partition("://")[2].partition("/")[2] if "://" in text else text
    names = [path.removeprefix("/")] + ([] if path.startswith(_OWN_FOLDER) else [_OWN_FOLDER + path.removeprefix("/")])
    keys = [
        DocumentKey(scope, source) for scope in map(scope_of_key, context.reader.visible) for source in names if source
    ]
    found = list(catalog.current_versions(key.id for key in keys).values()) if "/" in path or "." in path else []
    scopes = context.reader.visible
    visible = sorted(
        (one for one in found if context.reader.may_see(one.scope)), key=lambda one: scopes.index(one.scope.key)
    )
    return context.system.questions.documents.find(context.reader, visible[-1].document_id) if visible else None


class _Named(NamedTuple):
    """A document with its names."""

    document_id: str
    title: str
    source: str


def _all_documents(context: Context) -> Iterator[_Named]:
    documents = islice(current_documents(context), _SCANNED)
    return (_Named(one.document_id, one.title, one.source_uri) for one in documents)


def _by_title(context: Context, text: str) -> KnowledgeDocument:
    """The document with this title, or whose path or address has this suffix. Raises `DocumentNotFoundError`, which names
    the nearest ones, and `InvalidInputError` for a name of several."""
    near = _alike(context, text)
    found = _exactly(context, text, near)
    documents = [] if found else list(_all_documents(context))
    found = found or _exactly(context, text, documents, partly=True)
    if found is not None:
        return found
    titles = {one.title.casefold(): one for one in (*documents, *near)}
    written_alike = get_close_matches(text.casefold(), titles, n=_NEAREST, cutoff=_LIKENESS)
    nearest = list(dict.fromkeys((*(titles[name] for name in written_alike), *near)))[:_NEAREST]
    named = "".join(f"\n  {one.document_id}  {one.title}" for one in nearest)
    also = f"; the nearest are:{named}" if named else ""
    raise DocumentNotFoundError(f"no document has this id, path, address or title: {text[:200]}{also}")


def _alike(context: Context, text: str, *, reports: bool = True) -> list[_Named]:
    """Returns the documents that a search for a name finds; none while the index is unavailable."""
    config = QueryConfig(
        min_confidence=0, max_results=_LOOKED_AT, max_chunks_per_document=1, mode=SearchMode.FAST, plain=True
    )
    words = " ".join(
        part for part in text.replace("/", " ").replace("-", " ").replace("_", " ").split() if "://" not in part
    )
    try:
        with deadline(_SEARCH_SECONDS):  # names are in the catalog, too
            search = context.system.questions.for_reader(context.identity, recorded=False)
            return _named_results(search.search(words[:MAX_QUERY_CHARACTERS], config), reports=reports)
    except IndexUnavailableError as exc:
        log.warning("a name is looked up in the catalog alone: %s", exc)
        return []


def _named_results(answer: Answer, *, reports: bool) -> list[_Named]:
    kept = (one for one in answer.results if one.document_id and (reports or not one.is_report))
    return [_Named(one.document_id, one.title, one.source) for one in kept]


def _exactly(context: Context, name: str, among: Iterable[_Named], *, partly: bool = False) -> KnowledgeDocument | None:
    """The one of these documents with this title, else with this suffix of its path or address; with `partly` else with
    these words in its title. Raises `InvalidInputError` for several."""
    wanted = name.casefold().removeprefix("./").strip("/")
    known = list(dict.fromkeys(among))
    found = (
        [one for one in known if one.title.casefold() == wanted]
        or [one for one in known if repeats(wanted, one.title)]
        or [one for one in known if f"/{one.source.casefold()}".endswith(f"/{wanted}")]
        or [one for one in known if partly and wanted in one.title.casefold()]
    )
    if len({one.document_id for one in found}) > 1:
        named = "".join(f"\n  {one.document_id}  {one.title}  {one.source}" for one in found[:_NAMED_AT_MOST])
        raise InvalidInputError(f"{name[:200]!r} is the name of {len(found)} documents; give the id of one:{named}")
    return context.system.questions.documents.find(context.reader, found[0].document_id) if found else None


class NamedDocument(NamedTuple):
    """A document that was given instead of an alert; `notes` state if it is another version than the given one."""

    document: KnowledgeDocument
    outline: Outline
    notes: tuple[str, ...] = ()


def document_of_name(context: Context, text: str) -> NamedDocument | None:
    """The document if the text is its id, or its path with a file extension, and not an alert."""
    name = text.strip()
    is_name = len(name) <= MAX_TITLE and (_ID.fullmatch(name) or name.casefold().endswith(_FILES))
    if not is_name or "\n" in name:
        return None
    try:
        found, notes = named_document(context, name)
        return NamedDocument(found, context.system.questions.documents.outline_of(found), notes)
    except (DocumentNotFoundError, InvalidInputError):
        return None


def document_titled(context: Context, text: str, answer: Answer) -> NamedDocument | None:
    """The document if the text is its title, or a suffix of its path, and not an alert; no report. `answer` is a search for
    the text."""
    name = text.strip()
    if len(name) > MAX_TITLE or "\n" in name or name.startswith(("{", "[")):
        return None
    try:
        near = _alike(context, name, reports=False) if " " in name else _named_results(answer, reports=False)
        found = _exactly(context, name, near)
        return NamedDocument(found, context.system.questions.documents.outline_of(found)) if found else None
    except (DocumentNotFoundError, InvalidInputError):
        return None

"""Operations on the originals of documents as text: read one, and write its next version unless it was changed meanwhile."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated

from opx import errors
from opx.domain.policy import Action
from opx.domain.provenance import ChannelKind
from opx.domain.record import Record, about
from opx.domain.requests import Filled, Request
from opx.hygiene.secrets import mask
from opx.ingestion.channels import arrival_of
from opx.ingestion.originals import MAGIC
from opx.operations.context import Context
from opx.operations.corpus import manager_of, object_key
from opx.operations.registry import Function, operation
from opx.ports import ObjectInfo

MAX_TEXT = 1_000_000
"""Bytes of text that is edited: it goes through a request, and a person reads it."""

SUFFIXES = (".md", ".markdown", ".txt", ".text")
_FED = (ChannelKind.SOURCE, ChannelKind.WEBHOOK, ChannelKind.STREAM, ChannelKind.LEARNING)
"""Channels whose next change would replace an edit."""

Source = Annotated[
    Filled, about("The document's name in the corpus, such as `runbooks/disk-full.md`.", max_length=1000)
]
Revision = Annotated[
    str, about("Stands for the content: as `expected`, it has a write replace no other.", max_length=200)
]


class ReadText(Request, frozen=True):
    source: Source


class OriginalText(Record, frozen=True):
    """The original of a document as text, front matter included."""

    source: str
    object_key: str
    text: str
    revision: Revision


@operation(http="GET /texts", function=Function.MANAGE, action=Action.WRITE)
def read_text(context: Context, request: ReadText) -> OriginalText:
    """Read the original of one of the caller's own documents, to edit it.

    Raises `DocumentNotFoundError`, and `InvalidInputError` for a document that isn't edited here: no text, of a source, with
    secrets, or too large.
    """
    key = object_key(context, request.source)
    info = _editable(context, key)
    if info is None:
        raise errors.DocumentNotFoundError(f"{context.scope.key} has no document {request.source}")
    text = _text_of(context, info)  # read after its revision: a write between the two is found by the next one
    if mask(text)[0] != text:
        raise errors.InvalidInputError(f"{request.source} has secrets: remove them in the file, and upload that")
    return OriginalText(request.source, key, text, info.etag)


class WriteText(Request, frozen=True):
    source: Source
    text: Annotated[Filled, about("The whole text, front matter included.", max_length=MAX_TEXT)]
    expected: Annotated[
        str, about("`revision` of the text that this one was made from; empty for a new document.", max_length=200)
    ] = ""


class WrittenText(Record, frozen=True):
    object_key: str
    revision: Revision


@operation(http="PUT /texts", function=Function.MANAGE, status=202, action=Action.WRITE)
def write_text(context: Context, request: WriteText) -> WrittenText:
    """Write a new document, or the next version of one of the caller's own. It is ingested asynchronously.

    Raises `DocumentChangedError` if the document isn't as it was read, or exists already: nothing is written then. Raises
    `InvalidInputError` for a document that isn't edited here, and for a name without the extension of text.
    """
    key = object_key(context, request.source)
    _editable(context, key)
    if len(request.text.encode("utf-8", "surrogatepass")) > MAX_TEXT:
        raise _too_large(key)
    try:
        info = manager_of(context).put_text(key, request.text, etag=request.expected)
    except errors.ConditionFailedError:
        raise errors.DocumentChangedError(_change_of(context, request, key)) from None
    return WrittenText(key, info.etag)


def _editable(context: Context, key: str) -> ObjectInfo | None:
    """The object, None if there is none. Raises `InvalidInputError` if it isn't edited here."""
    if PurePosixPath(key).suffix.lower() not in SUFFIXES:
        raise errors.InvalidInputError(f"only text is edited here: names end with {', '.join(SUFFIXES)}")
    store = context.system.store
    info = store.head(key)
    if info is None:
        return None
    if info.size > MAX_TEXT:
        raise _too_large(key)
    channel = arrival_of(store, info).channel
    if channel.kind in _FED:
        raise errors.InvalidInputError(
            f"it comes from {channel.title}, whose next change would replace an edit: change it there"
        )
    return info


def _text_of(context: Context, info: ObjectInfo) -> str:
    try:
        with context.system.store.open(info.key) as stream:
            data = stream.read()
        if not data.startswith(MAGIC):
            return data.decode("utf-8")
    except errors.ObjectNotFoundError:
        raise errors.DocumentNotFoundError(f"{info.key} is gone") from None
    except UnicodeDecodeError:
        raise errors.InvalidInputError(f"{info.key} isn't UTF-8: save it as UTF-8, and upload it") from None
    raise errors.InvalidInputError("its original is encrypted, as it has secrets: upload it without them")


def _change_of(context: Context, request: WriteText, key: str) -> str:
    """Words for a change that a write found."""
    store = context.system.store
    info = store.head(key)
    if info is None:
        return f"{request.source} was deleted meanwhile: write it as a new document, or leave it"
    by = arrival_of(store, info).channel.principal
    who = f" by {by}" if by else ""
    if not request.expected:
        return f"there is a document {request.source} already, put{who}: choose another name, or edit that one"
    return f"{request.source} was changed{who} since it was read: read it again, and merge both texts"


def _too_large(key: str) -> errors.InvalidInputError:
    return errors.InvalidInputError(f"{key} has more than {MAX_TEXT:,} bytes: edit the file, and upload it")

"""Reads and writes the files of a document version: its chunks and its outline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import msgspec

from opx.domain.documents import DocumentChunk, DocumentKey
from opx.domain.procedures import Outline
from opx.domain.record import Record, from_json, prepared
from opx.errors import ObjectNotFoundError
from opx.ports import ObjectStore

VERSION_FILE = re.compile(r"chunks/([0-9a-f]+)\.(?:jsonl|outline\.json)\Z")
"""Name of a version's file within its scope, with the document id."""

OUTLINE_SUFFIX = ".outline.json"

OUTLINE_RULES = 3
"""Raise when `opx.text.procedures.outline` finds other sections or steps: stored outlines are then rebuilt when they are
read."""


class _OutlineFile(Record, frozen=True):
    rules: int
    outline: Outline


def chunk_file(key: DocumentKey, document_id: str) -> str:
    """Object key of the chunks of a document version, one JSON line each."""
    return f"{key.scope.prefix}chunks/{document_id}.jsonl"


def outline_file(key: DocumentKey, document_id: str) -> str:
    """Object key of the outline of a document version."""
    return f"{key.scope.prefix}chunks/{document_id}{OUTLINE_SUFFIX}"


def version_files(key: DocumentKey, document_id: str) -> tuple[str, str]:
    """Object keys of all files of a document version."""
    return chunk_file(key, document_id), outline_file(key, document_id)


def read_chunks(store: ObjectStore, key: DocumentKey, document_id: str) -> Iterator[DocumentChunk]:
    """The chunks of any version, current or not, in order. Raises `ObjectNotFoundError` if they are gone."""
    with store.open(chunk_file(key, document_id)) as stream:
        yield from map(chunk_of_line, stream)


def chunk_of_line(line: bytes) -> DocumentChunk:
    """The chunk of a line of a chunk file. Raises `InvalidInputError`."""
    try:
        return _chunks.decode(line)
    except (
        msgspec.MsgspecError,
        UnicodeDecodeError,
    ):  # half of a surrogate pair, or an error, which `from_json` names
        return from_json(DocumentChunk, json.loads(line.decode("utf-8", "surrogatepass")))


_chunks = msgspec.json.Decoder(DocumentChunk)


def joined_text(chunks: Iterable[DocumentChunk]) -> Iterator[str]:
    """The document's text, in pieces: the overlap of chunks is removed by their offsets."""
    written = 0
    for chunk in chunks:
        if chunk.end > written:
            yield chunk.content[max(0, written - chunk.start) :]
            written = chunk.end


def write_outline(store: ObjectStore, key: DocumentKey, outline: Outline) -> None:
    file = _OutlineFile(OUTLINE_RULES, outline)
    try:
        data = msgspec.json.encode(file)
    except UnicodeEncodeError:  # a half of a surrogate pair, which only `json` writes
        data = json.dumps(file.to_json(), separators=(",", ":")).encode()
    store.put(outline_file(key, outline.document_id), data)


def read_outline(store: ObjectStore, key: DocumentKey, document_id: str, title: str) -> Outline:
    """The outline of any version, current or not. A missing outline, or one of earlier rules, is built from the chunks.
    Raises `ObjectNotFoundError` if they are gone, too."""
    file = _outline_on_file(store, outline_file(key, document_id))
    if file and file.rules == OUTLINE_RULES:
        return file.outline
    from opx.text.procedures.outline import MAX_CHARACTERS, outline_of  # with its parser, only where it is needed

    text = (
        file.outline.text if file else _beginning(joined_text(read_chunks(store, key, document_id)), MAX_CHARACTERS + 1)
    )
    return outline_of(document_id, title, text)


def _beginning(pieces: Iterable[str], length: int) -> str:
    """The first `length` characters of text in pieces."""
    parts: list[str] = []
    for piece in pieces:
        parts.append(piece[:length])
        length -= len(parts[-1])
        if not length:
            break
    return "".join(parts)


def _outline_on_file(store: ObjectStore, name: str) -> _OutlineFile | None:
    try:
        with store.open(name) as stream:
            data = stream.read()
    except ObjectNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=prepared(_OutlineFile))
    except msgspec.ValidationError:
        return None
    except msgspec.DecodeError:  # written by `json`
        return from_json(_OutlineFile, json.loads(data))

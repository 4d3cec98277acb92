"""Reads and writes the files of a document version: its chunks and its outline."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator

import msgspec

from opx.domain.documents import DocumentChunk, DocumentKey
from opx.domain.procedures import KnownEffects, Outline, StoredEffects
from opx.domain.record import Record, from_json, prepared
from opx.errors import DamagedStoreError, InvalidInputError
from opx.ports import ObjectStore
from opx.ports.objects import read_object

log = logging.getLogger(__name__)

VERSION_FILE = re.compile(r"chunks/([0-9a-f]+)\.(?:jsonl|outline\.json)\Z")
"""Name of a version's file within its scope, with the document id."""

OUTLINE_SUFFIX = ".outline.json"

OUTLINE_RULES = 3
"""Raise when `opx.text.procedures.outline` finds other sections or steps: stored outlines are then rebuilt when they are
read."""


class _OutlineFile(Record, frozen=True, omit_defaults=True):
    """`effects` is a `StoredEffects`, or JSON that should be one: if it is damaged, the outline is still good."""

    rules: int
    outline: Outline
    effects: object = None


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
    """The chunks of any version, current or not, in order. Raises `ObjectNotFoundError` if they are gone, and
    `DamagedStoreError` at the first line that is no chunk."""
    name = chunk_file(key, document_id)
    with store.open(name) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield chunk_of_line(line)
            except (ValueError, RecursionError, InvalidInputError) as exc:
                raise DamagedStoreError(_DAMAGED.format(name=name, number=number)) from exc


_DAMAGED = "the chunk file {name} is damaged in line {number}: `opx repair` makes it again from its document"


def chunk_of_line(line: bytes) -> DocumentChunk:
    """The chunk of a line of a chunk file. Raises `InvalidInputError` and `ValueError`."""
    try:
        return _chunks.decode(line)
    except (
        msgspec.MsgspecError,
        UnicodeDecodeError,
    ):  # half of a surrogate pair, or an error, which `from_json` names
        return from_json(DocumentChunk, json.loads(line.decode("utf-8", "surrogatepass")))


def text_hash(chunks: Iterable[DocumentChunk]) -> str:
    """The `content_hash` of the version that these are all chunks of."""
    digest = hashlib.sha256()
    for piece in joined_text(chunks):
        digest.update(piece.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


_chunks = msgspec.json.Decoder(prepared(DocumentChunk))


def joined_text(chunks: Iterable[DocumentChunk]) -> Iterator[str]:
    """The document's text, in pieces: the overlap of chunks is removed by their offsets."""
    written = 0
    for chunk in chunks:
        if chunk.end > written:
            yield chunk.content[max(0, written - chunk.start) :]
            written = chunk.end


def outline_data(outline: Outline, effects: StoredEffects | None = None) -> bytes:
    """The bytes of an outline's file."""
    file = _OutlineFile(OUTLINE_RULES, outline, effects)
    try:
        return msgspec.json.encode(file)
    except UnicodeEncodeError:  # a half of a surrogate pair, which only `json` writes
        return json.dumps(file.to_json(), separators=(",", ":")).encode()


def read_outline(
    store: ObjectStore, key: DocumentKey, document_id: str, title: str, known: KnownEffects | None = None
) -> Outline:
    """The outline of any version, current or not. A missing or unreadable outline, or one of earlier rules, is built from
    the chunks. Effects that are stored with it are added to `known`. Raises `ObjectNotFoundError` if they are gone, too, and
    `DamagedStoreError`."""
    name = outline_file(key, document_id)
    file = _outline_on_file(store, name)
    if file is None or file.rules != OUTLINE_RULES:
        return _built(store, key, document_id, title, file.outline.text if file else "")
    if known is not None and file.effects is not None:
        try:
            stored = from_json(StoredEffects, file.effects)
            commands = ((stored.table, command) for step in file.outline.steps for command in step.commands)
            known.update(dict(zip(commands, stored.commands, strict=True)))
        except (InvalidInputError, ValueError):
            log.warning("the effects of commands in %s are damaged: they are found again", name)
    return file.outline


def rebuilt_outline(store: ObjectStore, key: DocumentKey, document_id: str, title: str) -> Outline:
    """The outline of any version, built from its chunks. Raises `ObjectNotFoundError` and `DamagedStoreError`."""
    return _built(store, key, document_id, title, "")


def _built(store: ObjectStore, key: DocumentKey, document_id: str, title: str, text: str) -> Outline:
    from opx.text.procedures.outline import MAX_CHARACTERS, outline_of  # with its parser, only where it is needed

    text = text or _beginning(joined_text(read_chunks(store, key, document_id)), MAX_CHARACTERS + 1)
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
    data = read_object(store, name)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=prepared(_OutlineFile))
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):  # written by `json`, or damaged
        return _outline_of_json(data)


def _outline_of_json(data: bytes) -> _OutlineFile | None:
    try:
        return from_json(_OutlineFile, json.loads(data))
    except (ValueError, RecursionError, InvalidInputError):
        return None

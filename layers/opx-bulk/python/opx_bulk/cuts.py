"""Files of documents that were read and chunked before they are applied, so that this is done once, on any core."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import IO, BinaryIO

import msgspec
from msgspec import Struct

from opx.domain.documents import KnowledgeDocument
from opx.domain.knowledge import Category
from opx.domain.provenance import Provenance
from opx.domain.record import prepared
from opx.ingestion.prepared import CutDocument, spool

_LENGTH = 8
_BLOCK = 1024 * 1024


class _Cut(Struct, frozen=True):
    """A document without its chunks, of which `lines` bytes follow it in the file."""

    key: str
    fingerprint: str
    document: KnowledgeDocument
    outline: bytes
    provenance: Provenance
    suspected: tuple[tuple[int, int], ...]
    lines: int


def write_cut(to: IO[bytes], object_key: str, cut: CutDocument) -> bool:
    """Appends a document. False for one that can't be written (a half of a surrogate pair): it is read again when it is
    applied."""
    size = cut.lines.seek(0, 2)
    suspected = tuple((start, end) for start, end in cut.suspected)
    made = (cut.fingerprint, cut.document, cut.outline, cut.provenance, suspected, size)
    try:
        data = msgspec.msgpack.encode(_Cut(object_key, *made))
    except UnicodeEncodeError:
        return False
    to.write(len(data).to_bytes(_LENGTH, "big") + data)
    cut.lines.seek(0)
    shutil.copyfileobj(cut.lines, to, _BLOCK)
    return True


class CutFile:
    """The documents of a file, in a temporary copy, for any thread. A document is found by the key and the fingerprint of its
    object: one that was changed since isn't."""

    def __init__(self, stream: BinaryIO, category: Callable[[str], Category]) -> None:
        self._category = category
        self._reading = threading.Lock()
        self._data = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        shutil.copyfileobj(stream, self._data, _BLOCK)
        self._found: dict[tuple[str, str], tuple[_Cut, int]] = {}
        self._scan(self._data.tell())

    def _scan(self, end: int) -> None:
        at = 0
        while at < end:
            self._data.seek(at)
            size = int.from_bytes(self._data.read(_LENGTH), "big")
            cut = msgspec.msgpack.decode(self._data.read(size), type=prepared(_Cut))
            at += _LENGTH + size
            self._found[cut.key, cut.fingerprint] = cut, at
            at += cut.lines

    def get(self, object_key: str, fingerprint: str, stack: ExitStack) -> CutDocument | None:
        """The document, with its chunks in a temporary file that `stack` closes; None if the file has none."""
        found = self._found.get((object_key, fingerprint))
        if found is None:
            return None
        cut, at = found
        lines = stack.enter_context(spool())
        with self._reading:
            self._data.seek(at)
            left = cut.lines
            while left and (block := self._data.read(min(left, _BLOCK))):
                lines.write(block)
                left -= len(block)
        category = self._category(cut.document.category)
        return CutDocument(cut.document, category, fingerprint, lines, cut.outline, cut.provenance, cut.suspected)

    def close(self) -> None:
        self._data.close()

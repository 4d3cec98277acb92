"""Documents, versions and files of an archive as they are read, to find lines that contradict each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Annotated, Any

from msgspec import Meta

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.record import Record
from opx.domain.scopes import scope_of_object
from opx.errors import ArchiveError, InvalidInputError
from opx.ingestion.corpus.chunk_files import OUTLINE_SUFFIX, VERSION_FILE, chunk_of_line
from opx.ports.rows import REFUSALS
from opx_assurance.archive.exporting import DOCUMENT_LINES, FILE_LINES, VERSION_LINES
from opx_assurance.archive.file import MAX_LINE_BYTES, Blob

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Size of an outline or a report of a removal; documents have 100 MB at most."""

_CURRENT = DocumentState.CURRENT


class DocumentHead(Record, frozen=True):
    """The exported part of a key's item in the catalog."""

    document_id: str
    version: Annotated[int, Meta(ge=1, lt=2**31)]
    state: DocumentState
    source: str
    scope: str
    since: str = ""


@dataclass(frozen=True, slots=True)
class ArchivedDocument:
    """A document of an archive: its key, the key's item in the catalog (empty if it was never ingested), the time since
    which it has been in that state, its object and its sidecar."""

    key: DocumentKey
    head: Mapping[str, Any]
    since: str
    object: Blob | None
    sidecar: Blob | None

    @property
    def object_key(self) -> str:
        return self.key.scope.prefix + self.key.source


class References:
    """Documents and versions of an archive as they are read, to find lines that contradict each other."""

    def __init__(self) -> None:
        self._heads: dict[str, tuple[str, str, int, bool] | None] = {}
        self._versions: set[tuple[str, str, int]] = set()
        self._current: dict[str, tuple[str, int]] = {}
        self._files: set[tuple[str, str]] = set()
        self._named: set[str] = set()

    def add_document(self, document: ArchivedDocument) -> None:
        key, head = document.key, document.head
        if key.id in self._heads:
            raise refusal(DOCUMENT_LINES, len(self._heads) + 1, f"{key.source[:200]} is listed twice")
        is_current = head.get("state") == _CURRENT.value
        self._heads[key.id] = (key.source, str(head["documentId"]), head["version"], is_current) if head else None

    def add_version(self, version: KnowledgeDocument) -> None:
        key, number = version.key, len(self._versions) + 1
        name = f"version {version.version} of {key.source[:200]}"
        if self._heads.get(key.id) is None:
            raise refusal(VERSION_LINES, number, f"{name} belongs to no ingested document of the archive")
        if (key.id, version.document_id, version.version) in self._versions:
            raise refusal(VERSION_LINES, number, f"{name} is listed twice")
        if version.state is _CURRENT and key.id in self._current:
            raise refusal(VERSION_LINES, number, f"{name} is a second current version")
        if version.state is _CURRENT:
            self._current[key.id] = (version.document_id, version.version)
        self._versions.add((key.id, version.document_id, version.version))
        self._files.add((key.scope.key, version.document_id))

    def check_heads(self) -> None:
        """Raises `ArchiveError` unless heads name the current versions, and versions that aren't have no head."""
        for number, (key_id, head) in enumerate(self._heads.items(), start=1):
            named = head[1:3] if head and head[3] else None
            if self._current.get(key_id) != named:
                name = head[0][:200] if head else key_id
                raise refusal(DOCUMENT_LINES, number, f"the head of {name} does not name its current version")

    def check_file(self, blob: Blob) -> None:
        """Raises `ArchiveError` for a file of a version that the archive lacks, and for one that is listed twice."""
        scope, name = scope_of_object(blob.key)
        match = VERSION_FILE.match(name)
        if match and (scope.key, match[1]) not in self._files:
            raise refusal(FILE_LINES, len(self._named) + 1, f"{blob.key[:200]} belongs to no version of the archive")
        if blob.key in self._named:
            raise refusal(FILE_LINES, len(self._named) + 1, f"{blob.key[:200]} is listed twice")
        self._named.add(blob.key)


class PackOrder:
    """Requires the objects of a list in the order of their bytes, so that each pack is read once however long the list is."""

    def __init__(self, entry: str) -> None:
        self._entry = entry
        self._end = ("", 0)

    def check(self, blob: Blob, number: int) -> None:
        if (blob.pack, blob.start) < self._end:
            raise refusal(self._entry, number, f"the bytes of {blob.key[:200]} are not behind those before them")
        self._end = (blob.pack, blob.start + blob.size)


def refusal(entry: str, number: int, problem: str) -> ArchiveError:
    return ArchiveError(f"{entry}, line {number}: {problem[:500]}; the archive is refused, and nothing was changed")


def reason_of(exc: BaseException) -> str:
    return f"{exc.args[0]} is missing" if isinstance(exc, KeyError) and exc.args else str(exc)


def check_file_content(blob: Blob, data: IO[bytes]) -> None:
    """Raises `ArchiveError` for a chunk file with a line that is no chunk of its version, or another file that is no JSON."""
    match = VERSION_FILE.match(scope_of_object(blob.key)[1])
    try:
        if not match or blob.key.endswith(OUTLINE_SUFFIX):
            if blob.size > MAX_FILE_BYTES:
                raise InvalidInputError(f"it has more than {MAX_FILE_BYTES:,} bytes")
            if not isinstance(json.loads(data.read().decode("utf-8", "surrogatepass")), dict):
                raise TypeError("it is no JSON object")
            return
        while line := data.readline(MAX_LINE_BYTES):
            if chunk_of_line(line).document_id != match[1]:
                raise InvalidInputError("it has a chunk of another version")
    except (RecursionError, *REFUSALS) as exc:
        raise ArchiveError(
            f"{FILE_LINES}: {blob.key[:200]} can't be read: {str(exc)[:200]}; the archive is refused, and nothing was changed"
        ) from exc

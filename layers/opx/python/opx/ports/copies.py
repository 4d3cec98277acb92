"""Copies of the chunks, for a managed service that makes an index of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from opx.domain.documents import DocumentKey
from opx.domain.results import IndexedChunk


@dataclass(frozen=True, slots=True)
class CopyChange:
    """The chunks of a document version, and the ids of other versions of the same key that they replace.

    `chunks` may be a generator; it is consumed once, in bounded memory. A version without chunks leaves; `document_id`
    is empty if there is only what is superseded.
    """

    key: DocumentKey
    document_id: str
    chunks: Iterable[IndexedChunk] = ()
    superseded: Sequence[str] = ()


class ChunkCopies(Protocol):
    """Copies of the searchable chunks, of which a managed service makes an index of its own."""

    def apply(self, changes: Iterable[CopyChange]) -> None:
        """Write and remove copies, and ask for them to be indexed. Durable on return; they are found some minutes
        later. Applying changes again, or removing what is not there, does no harm. Raises `StoreUnavailableError`; then
        some changes may be applied, and all may be applied again."""


class IndexSync(Protocol):
    """Has a managed service index what `ChunkCopies` wrote, one run at a time."""

    def cover(self, since: float) -> bool:
        """See to it that a run began after `since` (seconds since the epoch). True if one did or does now; False while
        an earlier one is under way, or if the service wants to be asked later. Raises `StoreUnavailableError`."""

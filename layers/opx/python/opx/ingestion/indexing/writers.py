"""Which index is written to, where there may be more than one: what the pipeline asks of whoever makes new ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol


class Writers(Protocol):
    """Keeps writers of the index and a new index that is being made in step."""

    def writing(self) -> AbstractContextManager[Any]:
        """Within it, embedder and index are those of the one edition that answers now. May be entered again."""

    def note(self, key_ids: Sequence[str]) -> None:
        """Say which documents are about to change, after their claims say so and before the index changes. Raises
        `EditionChangedError` if another edition answers than the one that this block is about."""

    def confirm(self) -> None:
        """See that everybody still agrees, after the index changed and before the catalog says so. Raises
        `EditionChangedError`: then all is to be done again."""

    def lineage(self) -> str:
        """By which model documents count as embedded, "" for the embedder's own: an index that was made of another one
        lacks nothing that the other has."""


class OneIndex:
    """Where there is one index for good."""

    def writing(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def note(self, key_ids: Sequence[str]) -> None:
        pass

    def confirm(self) -> None:
        pass

    def lineage(self) -> str:
        return ""

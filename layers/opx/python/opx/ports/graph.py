"""What takes up the statements of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from opx.domain.graph import Origin, Statements
from opx.domain.scopes import Scope

Canonical = Callable[[Scope, Sequence[str]], Mapping[str, str]]
"""The canonical references of normalised ones, as far as those who own a document in this scope know them; those that
have none are left out. Raises `StoreUnavailableError`."""


class GraphWriter(Protocol):
    """Keeps what documents say of things. One worker at a time writes a document, while it holds the claim on it."""

    def write(self, origin: Origin, statements: Statements) -> None:
        """Make these the statements of the document key, in place of all it said before. Writing again does no harm, also
        after an attempt that was interrupted anywhere. Raises `InvalidInputError` for a statement without evidence, and
        `StoreUnavailableError`."""

    def remove(self, key_id: str, scope: Scope, *, document_ids: Iterable[str] | None = None) -> None:
        """Take out what the document key says; with `document_ids`, only what those versions of it say. Removing what is
        not there does nothing. Raises `StoreUnavailableError`."""

"""A client's holdings: what each store has of it, counted and removed through one interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from opx.domain.documents import DocumentKey
from opx.domain.scopes import Scope, scope_of_key
from opx.errors import InvalidScopeError
from opx.ports.tables import Item, Table, Tables, TableSpec


@dataclass(frozen=True, slots=True)
class ClientDocument:
    """A document key with the ids of all its known versions."""

    key: DocumentKey
    document_ids: tuple[str, ...] = ()

    @property
    def object_key(self) -> str:
        return self.key.scope.prefix + self.key.source

    def to_json(self) -> list[Any]:
        return [self.key.scope.key, self.key.source, list(self.document_ids)]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> ClientDocument:
        return cls(DocumentKey(scope_of_key(data[0]), data[1]), tuple(data[2]))


@dataclass(frozen=True, slots=True)
class HeldItems:
    """Locates everything of a client: its scopes and documents, including removed ones; a few sample `words` of its
    documents; and scope and id of each version with a chunk file (`files`)."""

    client_id: str
    scopes: tuple[str, ...] = ()
    documents: tuple[ClientDocument, ...] = ()
    words: tuple[str, ...] = ()
    files: tuple[tuple[Scope, str], ...] = ()

    @property
    def folders(self) -> tuple[str, str]:
        """The client's folders in the corpus store: documents with derived files, and copies for a managed service."""
        prefix = Scope(self.client_id).prefix
        return prefix, f"managed/{prefix}"

    def with_more(self, more: HeldItems) -> HeldItems:
        """The union of both, with the files of `more`."""
        ids: dict[DocumentKey, dict[str, None]] = {}
        for document in (*self.documents, *more.documents):
            ids.setdefault(document.key, {}).update(dict.fromkeys(document.document_ids))
        return HeldItems(
            self.client_id,
            tuple(sorted({*self.scopes, *more.scopes})),
            tuple(ClientDocument(key, tuple(found)) for key, found in ids.items()),
            self.words or more.words,
            more.files,
        )


class Holding(Protocol):
    """A client's items in one store."""

    @property
    def name(self) -> str:
        """Display name of the counted items: `index entries`."""

    def count(self, held: HeldItems) -> int:
        """Number of items now. Raises `StoreUnavailableError`."""

    def remove(self, held: HeldItems) -> object:
        """Remove the items. Idempotent, also after an interruption. Raises `StoreUnavailableError`."""


@runtime_checkable
class SourceHolding(Holding, Protocol):
    """A holding of what brings documents or values in. It is removed before all others, so that nothing more arrives."""

    def declared(self, held: HeldItems) -> Iterable[str]:
        """Names in knowledge.yaml that remain active until the operator removes them there."""


@dataclass(frozen=True, slots=True)
class CountedHolding:
    """A `Holding` of two functions."""

    name: str
    count: Callable[[HeldItems], int]
    remove: Callable[[HeldItems], object]


def is_of(client_id: str, scope_key: str) -> bool:
    """True for the key of one of the client's scopes."""
    try:
        return scope_of_key(scope_key).client_id == client_id
    except InvalidScopeError:
        return False


# -- table holdings


def in_table(tables: Tables, name: str, spec: TableSpec, items: Callable[[HeldItems], Iterable[Item]]) -> Holding:
    """A holding of these items of a table; only their keys are read."""

    def remove(held: HeldItems) -> None:
        with tables.unit_of_work():
            delete(tables.table(spec), spec, list(items(held)))

    return CountedHolding(name, lambda held: sum(1 for _ in items(held)), remove)


def delete(table: Table, spec: TableSpec, items: Iterable[Item]) -> None:
    for item in items:
        table.delete(spec.key_of(item))

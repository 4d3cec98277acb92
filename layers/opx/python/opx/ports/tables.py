"""Items by key with secondary indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from opx.ports.tables_specs import TableSpec

Item = dict[str, Any]
"""A table item: JSON-like values (str, int, float, bool, None, list, dict) and bytes. Numbers come back as they went in."""


@dataclass(frozen=True, slots=True)
class Absent:
    """True if the item or the attribute doesn't exist. Without attribute: the item itself."""

    attribute: str = ""


@dataclass(frozen=True, slots=True)
class Equals:
    """True if the attribute exists and equals the value."""

    attribute: str
    value: str | int | float | bool


@dataclass(frozen=True, slots=True)
class LessThan:
    """True if the attribute exists and sorts before the value (same type)."""

    attribute: str
    value: str | int | float


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True if one of the conditions is."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """True if all of the conditions are."""

    conditions: tuple[Condition, ...]


Condition = Absent | Equals | LessThan | AnyOf | AllOf


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Bounds on a sort attribute, both included; `begins_with` excludes the other two."""

    low: str | int | None = None
    high: str | int | None = None
    begins_with: str = ""


class Table(Protocol):
    """Items by key with secondary indexes, as described by a `TableSpec`. Writes are durable when the call returns.

    Items whose `ttl` attribute lies in the past are never returned. Empty strings are valid values, but not as keys.
    """

    def get(self, key: Mapping[str, Any]) -> Item | None:
        """The item with this full key, read consistently, or None."""

    def get_many(self, keys: Sequence[Mapping[str, Any]]) -> list[Item]:
        """The items that exist among `keys`, in no particular order; any number of keys, duplicates allowed."""

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        """Write the item, replacing one with the same key. With a condition, only if it holds for the stored item
        (atomically); raises `ConditionFailedError` otherwise."""

    def put_many(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Write all items, unconditionally, in batches; the last of several with one key wins. Not atomic as a whole."""

    def delete(self, key: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        """Remove the item. Removing what is not there does nothing, unless a condition fails: `ConditionFailedError`."""

    def query(
        self,
        partition: str | int,
        *,
        index: str = "",
        where: KeyRange | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Item]:
        """Items of one partition of the table or an index, ordered by its sort attribute (in an index, ties in no
        particular order). Reads page by page as the caller goes on. An index may lag behind on AWS."""


class Tables(Protocol):
    """The tables of an installation, each by its specification.

    `read_threads` reads at once are quicker than one after the other; an index shows a write after `settling_seconds` at
    the latest. `in_folder`: a home folder holds them, and may be replaced by an older copy or an empty one.
    """

    read_threads: int
    settling_seconds: float
    in_folder: bool

    def table(self, spec: TableSpec) -> Table:
        """The table of a specification. Nothing is opened or created before it is used."""

    def every_item(self, spec: TableSpec) -> Iterator[Item]:
        """All items of a table, in no particular order: for a backup, and for nobody who acts for a reader."""

    def check_item(self, spec: TableSpec, item: Mapping[str, Any]) -> None:
        """Raise `InvalidInputError` for an item that the table wouldn't store."""

    def unit_of_work(self) -> AbstractContextManager[Any]:
        """Groups writes into one commit where the store can; nothing depends on it but speed."""

    def purge_expired(self) -> int:
        """Delete items whose `ttl` has passed, where the store doesn't do so itself; how many there were."""

    def scrub(self) -> None:
        """Overwrite what deleted items left in files of this machine."""

    def close(self) -> None:
        """Release files and connections."""

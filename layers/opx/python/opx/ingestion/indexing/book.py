"""Records of the index's editions, the active one, and journals of changes: one item, written with an optimistic lock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import StrEnum
from secrets import token_hex

from msgspec import Struct

from opx.domain.record import Record, replace
from opx.errors import ConditionFailedError, EditionChangedError
from opx.ports import Equals, Item, KeyAbsent, Table
from opx.ports.tables import delete_if

_ENTRY = "editions"


class EditionState(StrEnum):
    """State of an edition. `UNREADABLE`: built by another release or for another model; it can't be activated again."""

    BUILDING = "building"
    ACTIVE = "active"
    PREVIOUS = "previous"
    UNREADABLE = "unreadable"
    DISCARDED = "discarded"


KEPT_IN_STEP = (EditionState.BUILDING, EditionState.PREVIOUS)
"""Changes of documents are recorded in the journals of editions in these states."""


class Edition(Record, frozen=True, rename=None):
    """An index and its model. The first edition of an installation has no name.

    `model` and `model_path` are as the settings of these names; `collection` is that of the service which has several. It
    is active since `switched_at`, in seconds since the epoch.
    `lineage` and `ancestor` are the model and the identity of the index that this one was built from, `incarnation` is the
    name that the index had itself then.
    """

    name: str = ""
    model: str = ""
    model_path: str = ""
    model_id: str = ""
    dimension: int = 0
    state: EditionState = EditionState.ACTIVE
    made_at: str = ""
    switched_at: float = 0
    lineage: str = ""
    ancestor: str = ""
    incarnation: str = ""
    collection: str = ""


class IndexState(Struct, frozen=True):
    """The editions of an index. `target` is the name of the edition to switch to, None while there is none."""

    revision: int
    active: Edition
    others: tuple[Edition, ...] = ()
    target: str | None = None

    @property
    def editions(self) -> tuple[Edition, ...]:
        return (self.active, *self.others)

    @property
    def kept_in_step(self) -> tuple[Edition, ...]:
        return tuple(one for one in self.others if one.state in KEPT_IN_STEP)

    def edition(self, name: str) -> Edition | None:
        return next((one for one in self.editions if one.name == name), None)

    def of_state(self, *states: EditionState) -> Edition | None:
        return next((one for one in self.others if one.state in states), None)

    def with_edition(self, edition: Edition) -> IndexState:
        """The state with this edition replacing the one of its name, or added."""
        if self.active.name == edition.name:
            return replace(self, active=edition)
        return replace(self, others=(*(one for one in self.others if one.name != edition.name), edition))


class EditionBook:
    """Reads and writes the item of editions. `first` returns the edition if none is recorded; `subject` separates
    installations that share a table."""

    def __init__(self, table: Table, first: Callable[[], Edition], *, subject: str = "index") -> None:
        self._table = table
        self._first = first
        self.subject = subject

    def read(self) -> IndexState:
        """The current state. Raises `StoreUnavailableError`."""
        item = self._table.get({"subject": self.subject, "entry": _ENTRY})
        return _state(item) if item else IndexState(0, self._first())

    def write(self, state: IndexState) -> IndexState:
        """Replaces the state that was read. Raises `EditionChangedError` if another process changed it."""
        item: Item = {
            "subject": self.subject,
            "entry": _ENTRY,
            "revision": state.revision + 1,
            "active": state.active.name,
            "editions": [one.to_json() for one in state.editions],
            "target": state.target,
        }
        condition = Equals("revision", state.revision) if state.revision else KeyAbsent()
        try:
            self._table.put(item, condition=condition)
        except ConditionFailedError as exc:
            raise EditionChangedError(
                "another process has just changed the list of indexes: check it, then try again"
            ) from exc
        return replace(state, revision=state.revision + 1)


class Journal:
    """Journal of the documents that changed since an edition was complete, one item per document."""

    def __init__(self, table: Table, subject: str) -> None:
        self._table = table
        self._subject = subject

    def note(self, edition: str, key_ids: Iterable[str]) -> None:
        partition = self._partition(edition)
        rows = ({"subject": partition, "entry": key, "mark": token_hex(8)} for key in dict.fromkeys(key_ids))
        self._table.put_many(rows)

    def read(self, edition: str, limit: int, *, skip: Collection[str] = ()) -> list[tuple[str, str]]:
        """The first keys and marks, without those to skip."""
        found: list[tuple[str, str]] = []
        for row in self._table.query(self._partition(edition)):
            if row["entry"] not in skip:
                found.append((row["entry"], row["mark"]))
            if len(found) == limit:
                break
        return found

    def count(self, edition: str, most: int) -> int:
        """Number of changed documents, at most `most`."""
        return sum(1 for _ in self._table.query(self._partition(edition), limit=most))

    def drop(self, edition: str, key_id: str, mark: str) -> bool:
        """Deletes a change that was applied; False if the document changed again meanwhile."""
        return delete_if(self._table, {"subject": self._partition(edition), "entry": key_id}, Equals("mark", mark))

    def clear(self, edition: str) -> None:
        for row in list(self._table.query(self._partition(edition))):
            self._table.delete({"subject": self._partition(edition), "entry": row["entry"]})

    def _partition(self, edition: str) -> str:
        return f"{self._subject}#changed#{edition}"


def _state(item: Item) -> IndexState:
    editions = [Edition.from_json(one) for one in item["editions"]]
    active = next(one for one in editions if one.name == item["active"])
    others = tuple(one for one in editions if one.name != item["active"])
    return IndexState(int(item["revision"]), active, others, item["target"])

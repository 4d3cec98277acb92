"""Stores legal holds, which ban the removal of documents, whatever their retention, until an operator lifts them.

A hold covers documents that meet all its criteria: scope, category, source. Versions that are replaced or withdrawn while
it is in force are kept, too. A lifted hold is kept as a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from msgspec import field

from opx.domain.documents import DocumentKey
from opx.domain.ids import iso_time, stable_hash
from opx.domain.knowledge import KnowledgeModel
from opx.domain.record import Record, about, derive, replace
from opx.domain.scopes import Scope, scope_of_key, scope_of_object
from opx.errors import HeldError, HoldNotFoundError, InvalidInputError
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ports import Clock, Table

MAX_REASON = 1000
HOLDS, LIFTED = "holds", "holds#lifted"
"""Partition keys of the holds in force and of the lifted ones."""

_ID_LENGTH = 12


class Hold(Record, frozen=True):
    """A legal hold with its reason, author and time. `within` is the key of a scope: a client's includes those of its groups
    and projects; "" covers all scopes. `category` is a path or its beginning, and `source` that of one document, whose
    scope is `within`; "" for any. `lifted` and `lifted_by` are when and by whom it was ended. `id` is a hash of criteria
    and reason."""

    reason: str
    by: str
    within: Annotated[str, about("The key of a scope; empty for all scopes.")] = ""
    category: Annotated[str, about("A category, or the beginning of one's path; empty for any.")] = ""
    source: Annotated[str, about("A document's name in the corpus, in its scope; empty for any.")] = ""
    since: str = ""
    lifted: Annotated[str, about("When it was ended; empty while it is in force.")] = ""
    lifted_by: str = ""
    id: str = field(default="", name="holdId")

    def __post_init__(self) -> None:
        derive(self, id=stable_hash("hold", self.within, self.category, self.source, self.reason)[:_ID_LENGTH])

    @property
    def what(self) -> str:
        """Display text of the criteria: `document documents/x.md of client:acme`, `category operations/incidents of
        everybody`."""
        parts = [f"document {self.source}"] if self.source else []
        parts += [f"category {self.category}"] if self.category else []
        return f"{', '.join(parts) or 'everything'} of {self.within or 'everybody'}"

    def covers(self, key: DocumentKey, category: str) -> bool:
        """True if the hold bans the removal of a document of this category."""
        if self.source and (key.source, key.scope.key) != (self.source, self.within):
            return False
        return self.may_cover(key.scope, category)

    def may_cover(self, scope: Scope, category: str) -> bool:
        """True if the hold covers documents of this scope and category, or one of them."""
        return _is_within(scope.key, self.within) and _is_below(category, self.category)

    def concerns(self, client_id: str) -> bool:
        """True if the hold may cover something of a client."""
        return not self.within or scope_of_key(self.within).client_id == client_id


class Holds:
    """Stores the holds of an installation and checks removals against them."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def add(self, hold: Hold, knowledge: KnowledgeModel | None = None) -> Hold:
        """Put a hold in force; one that is in force already stays as it is. Raises `InvalidInputError` without a reason or
        a name, `InvalidScopeError`, and `UnknownCategoryError` for a category that `knowledge` doesn't have."""
        checked = _checked(hold, knowledge)
        known = self._table.get({"subject": HOLDS, "entry": checked.id})
        if known:
            return Hold.from_json(known)
        placed = replace(checked, since=iso_time(self._clock()))
        self._table.put({"subject": HOLDS, "entry": placed.id, **placed.to_json()})
        return placed

    def lift(self, hold_id: str, by: str) -> Hold:
        """Lift a hold, which is kept as a record. Raises `HoldNotFoundError`."""
        found = self.get(hold_id)
        lifted = replace(found, lifted=iso_time(self._clock()), lifted_by=by)
        self._table.put({"subject": LIFTED, "entry": f"{lifted.lifted}#{lifted.id}", **lifted.to_json()})
        self._table.delete({"subject": HOLDS, "entry": found.id})
        return lifted

    def get(self, hold_id: str) -> Hold:
        """A hold that is in force. Raises `HoldNotFoundError`."""
        item = self._table.get({"subject": HOLDS, "entry": hold_id}) if hold_id else None
        if item is None:
            raise HoldNotFoundError(f"no hold {hold_id[:100]} is in force; `opx hold list` lists all")
        return Hold.from_json(item)

    def in_force(self) -> list[Hold]:
        return [Hold.from_json(item) for item in self._table.query(HOLDS)]

    def lifted(self) -> list[Hold]:
        """Lifted holds, in the order in which they were lifted."""
        return [Hold.from_json(item) for item in self._table.query(LIFTED)]

    def check(self, documents: Iterable[tuple[DocumentKey, str]]) -> None:
        """Raises `HeldError` if a hold covers one of these documents, each given with its category."""
        holds = self.in_force()
        for key, category in documents if holds else ():
            hold = covering(holds, key, category)
            if hold:
                raise HeldError(f"{key.source} can't be removed: {hold_message(hold)}")


def covering(holds: Sequence[Hold], key: DocumentKey, category: str) -> Hold | None:
    """The first hold that covers a document."""
    return next((hold for hold in holds if hold.covers(key, category)), None)


def hold_message(hold: Hold) -> str:
    """Description of a hold for error messages, with the remedy."""
    return (
        f"hold {hold.id} on {hold.what}, by {hold.by} since {hold.since}: {hold.reason}. "
        f"Once it is over: `opx hold remove {hold.id}`"
    )


def _checked(hold: Hold, knowledge: KnowledgeModel | None) -> Hold:
    reason = " ".join(hold.reason.split())
    if not reason or len(reason) > MAX_REASON:
        raise InvalidInputError(f"a hold needs a reason of 1 to {MAX_REASON} characters, such as the matter's name")
    if not hold.by.strip():
        raise InvalidInputError("a hold needs the name of the person who requests it")
    if hold.within:
        scope_of_key(hold.within)
    if hold.source and not hold.within:
        raise InvalidInputError("a hold on a document needs the document's scope")
    if hold.category and knowledge:
        knowledge.within(hold.category)
    return replace(hold, reason=reason, by=hold.by.strip())


def _is_within(scope_key: str, within: str) -> bool:
    if not within or scope_key == within:
        return True
    outer = scope_of_key(within)
    return outer == Scope(outer.client_id) and bool(outer.client_id) and scope_key.startswith(f"{within}/")


def _is_below(category: str, beginning: str) -> bool:
    return not beginning or category == beginning or category.startswith(f"{beginning}/")


def versions_of_objects(catalog: Catalog, object_keys: Iterable[str]) -> Iterator[tuple[DocumentKey, str]]:
    """All versions of the documents of these objects, each with its category."""
    for object_key in object_keys:
        key = DocumentKey(*scope_of_object(object_key.removesuffix(SIDECAR_SUFFIX)))
        yield from ((version.key, version.category) for version in catalog.versions(key))

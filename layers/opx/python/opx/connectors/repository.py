"""Sources, the states of their pulls, and what of theirs was taken in: above one table."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from opx.connectors.declared import definition_of
from opx.connectors.states import PullState
from opx.domain.knowledge import KnowledgeModel
from opx.domain.record import replace
from opx.domain.sources import SourceDefinition
from opx.domain.times import Clock
from opx.errors import ConditionFailedError, InvalidInputError, SourceBusyError
from opx.ports.tables import Absent, AllOf, AnyOf, Condition, Equals, KeyRange, LessThan, Table

log = logging.getLogger(__name__)

REGISTERED = "#registered"
_STATE = "state"
_ITEM = "item#"
_PAGE = "page#"


class SourceRepository:
    """The sources that `declared` has and those that were registered. One that is declared can't be registered."""

    def __init__(
        self, table: Table, declared: Mapping[str, SourceDefinition], knowledge: KnowledgeModel, clock: Clock
    ) -> None:
        self._table = table
        self._declared = dict(declared)
        self._knowledge = knowledge
        self._clock = clock

    def all(self) -> list[SourceDefinition]:
        """Every source, by id. A registered one that is wrong by now is left out, which the log tells."""
        found = {}
        for item in self._table.query(REGISTERED):
            try:
                found[item["entry"]] = self._registered(item)
            except InvalidInputError as exc:  # of a category, say, that knowledge.yaml had when it was registered
                log.warning("source %s is left out: %s", item["entry"], exc)
        return sorted({**found, **self._declared}.values(), key=lambda definition: definition.source_id)

    def provide(self, definition: SourceDefinition) -> None:
        """Know a source while this process lives."""
        self._declared[definition.source_id] = definition

    def is_declared(self, source_id: str) -> bool:
        return source_id in self._declared

    def get(self, source_id: str) -> SourceDefinition:
        """The source with this id. Raises `InvalidInputError` that lists those there are."""
        if source_id in self._declared:
            return self._declared[source_id]
        item = self._table.get({"sourceId": REGISTERED, "entry": source_id}) if source_id else None
        if item is None:
            known = ", ".join(definition.source_id for definition in self.all()) or "none yet"
            raise InvalidInputError(f"no source {source_id!r}; there are: {known}")
        return self._registered(item)

    def register(self, definition: SourceDefinition) -> None:
        """Keep a source, replacing what was registered under its id. Raises `InvalidInputError` for a declared id."""
        if definition.source_id in self._declared:
            raise InvalidInputError(f"source {definition.source_id} is declared in knowledge.yaml; change it there")
        self._table.put({"sourceId": REGISTERED, "entry": definition.source_id, "definition": definition.fields()})

    def remove(self, source_id: str) -> None:
        """Forget a registered source and its state. Its documents stay in the corpus, and what is known of them stays with
        them: registered again, it goes on with them.

        Raises `InvalidInputError` for one that is declared, or isn't there.
        """
        if source_id in self._declared:
            raise InvalidInputError(f"source {source_id} is declared in knowledge.yaml; remove it there")
        if not self._table.get({"sourceId": REGISTERED, "entry": source_id}):
            self.get(source_id)
        self._table.delete({"sourceId": REGISTERED, "entry": source_id})
        self._table.delete({"sourceId": source_id, "entry": _STATE})

    def _registered(self, item: Mapping[str, object]) -> SourceDefinition:
        return definition_of(str(item["entry"]), item["definition"], self._knowledge)  # type: ignore[arg-type]

    # -- states

    def state(self, source_id: str) -> PullState:
        return self._read(source_id)[0]

    def _read(self, source_id: str) -> tuple[PullState, int]:
        """The state, and how often it was written; 0 if it never was."""
        item = self._table.get({"sourceId": source_id, "entry": _STATE})
        return (PullState.from_json(item["state"]), int(item["revision"])) if item else (PullState(source_id), 0)

    def claim(self, source_id: str, *, seconds: float) -> PullState:
        """The state, held for so long by the caller alone. Raises `SourceBusyError` if another holds it."""
        now = self._clock()
        state, revision = self._read(source_id)
        held = replace(state, owner=secrets.token_hex(8), lease_until=now + seconds)
        free = AnyOf((Equals("owner", ""), LessThan("leaseUntil", now)))
        as_read = AllOf((Equals("revision", revision), free)) if revision else Absent()
        try:
            self._put(held, revision, as_read)
        except ConditionFailedError as exc:
            raise SourceBusyError(f"source {source_id} is being pulled already; wait until that ends") from exc
        return held

    def save(self, state: PullState, owner: str) -> None:
        """Write the state of a source that `owner` holds. Raises `SourceBusyError` if another has taken it over."""
        try:
            self._put(state, self._read(state.source_id)[1], Equals("owner", owner))
        except ConditionFailedError as exc:
            raise SourceBusyError(f"source {state.source_id}: another pull has taken over") from exc

    def _put(self, state: PullState, revision: int, condition: Condition) -> None:
        key = {"sourceId": state.source_id, "entry": _STATE}
        held = {"owner": state.owner, "leaseUntil": state.lease_until, "revision": revision + 1}
        self._table.put({**key, **held, "state": state.to_json()}, condition=condition)


@dataclass(frozen=True, slots=True)
class SourceItem:
    """A document of a source that was put: under which object key, with which content, and in which pull it was seen."""

    key: str
    digest: str
    object_key: str
    run: str


class SourceItems:
    """What of one source was taken in."""

    def __init__(self, table: Table, source_id: str) -> None:
        self._table = table
        self._source = source_id

    def get_many(self, keys: Sequence[str]) -> dict[str, SourceItem]:
        found = self._table.get_many([self._key(_ITEM + key) for key in keys])
        return {item.key: item for item in map(_item, found)}

    def put_many(self, items: Iterable[SourceItem]) -> None:
        self._table.put_many(
            {**self._key(_ITEM + item.key), "digest": item.digest, "objectKey": item.object_key, "run": item.run}
            for item in items
        )

    def delete(self, key: str) -> None:
        self._table.delete(self._key(_ITEM + key))

    def all(self) -> Iterator[SourceItem]:
        """Every document, by key."""
        for item in self._table.query(self._source, where=KeyRange(begins_with=_ITEM)):
            yield _item(item)

    # -- validators of replies, for conditional requests

    def get(self, url: str) -> Mapping[str, str]:
        item = self._table.get(self._key(_PAGE + _hash(url)))
        return item["validators"] if item else {}

    def put(self, url: str, validators: Mapping[str, str]) -> None:
        self._table.put({**self._key(_PAGE + _hash(url)), "url": url[:2048], "validators": dict(validators)})

    def forget_validators(self) -> None:
        """Have everything sent again, whether it changed or not."""
        for item in list(self._table.query(self._source, where=KeyRange(begins_with=_PAGE))):
            self._table.delete(self._key(item["entry"]))

    def _key(self, entry: str) -> dict[str, str]:
        return {"sourceId": self._source, "entry": entry}


def _item(item: Mapping[str, str]) -> SourceItem:
    return SourceItem(item["entry"].removeprefix(_ITEM), item["digest"], item["objectKey"], item["run"])


def _hash(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:40]


class SourceSyncs:
    """A `LastSync`: the category is as fresh as the source of it that was pulled longest ago."""

    def __init__(self, sources: SourceRepository) -> None:
        self._sources = sources

    def __call__(self, category: str) -> datetime | None:
        scheduled = [s for s in self._sources.all() if s.category == category and s.enabled and s.schedule]
        ends = [self._sources.state(source.source_id).last_success for source in scheduled]
        known = [datetime.fromisoformat(end) for end in ends if end]
        return min(known, default=None)

"""Stores sources, the states of their pulls and their ingested items in one table, and reads declared sources."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from opx.connectors.registry import check_kind
from opx.connectors.states import PullState, checked_cron, checked_zone
from opx.domain.ids import Clock
from opx.domain.knowledge import Category, KnowledgeModel
from opx.domain.record import replace
from opx.domain.sources import MAX_MISSING_SHARE, SourceDefinition
from opx.errors import ConditionFailedError, DamagedRowError, InvalidInputError, SourceBusyError
from opx.ingestion.corpus.claims import is_leased
from opx.ports.tables import AllOf, AnyOf, Condition, Equals, KeyAbsent, KeyRange, LessThan, Table
from opx.runtime.knowledge_file import Marked, read_section

log = logging.getLogger(__name__)

REGISTERED = "#registered"
KEPT_OUT = ""
"""Object key of a document that retention keeps out."""

_STATE = "state"
SWITCH = "switch"
"""Entry of a declared source that an operator paused, or enabled: it overrides `enabled` of knowledge.yaml."""
_ITEM = "item#"
_PAGE = "page#"


class SourceRepository:
    """Sources that are `declared` or were registered. A declared id can't be registered."""

    def __init__(
        self, table: Table, declared: Mapping[str, SourceDefinition], knowledge: KnowledgeModel, clock: Clock
    ) -> None:
        self._table = table
        self._declared = dict(declared)
        self._knowledge = knowledge
        self._clock = clock

    def all(self) -> list[SourceDefinition]:
        """Returns every source, sorted by id. A registered one that is no longer valid is left out and logged."""
        found = {}
        for item in self._table.query(REGISTERED):
            try:
                found[item["entry"]] = self._registered(item)
            except (
                InvalidInputError,
                DamagedRowError,
            ) as exc:  # of a category, say, that knowledge.yaml had when it was registered
                log.warning("source %s is left out: %s", item["entry"], exc)
        return sorted({**found, **self._switched()}.values(), key=lambda definition: definition.source_id)

    def _switched(self) -> dict[str, SourceDefinition]:
        """The declared sources, as operators paused or enabled them."""
        rows = self._table.get_many([{"sourceId": source_id, "entry": SWITCH} for source_id in self._declared])
        switched = {row["sourceId"]: replace(self._declared[row["sourceId"]], enabled=row["enabled"]) for row in rows}
        return {**self._declared, **switched}

    def provide(self, definition: SourceDefinition) -> None:
        """Adds a source for the lifetime of this process."""
        self._declared[definition.source_id] = definition

    def is_declared(self, source_id: str) -> bool:
        return source_id in self._declared

    def get(self, source_id: str) -> SourceDefinition:
        """Returns the source with this id. Raises `InvalidInputError` that lists the existing ones."""
        if source_id in self._declared:
            return self._switched()[source_id]
        item = self._table.get({"sourceId": REGISTERED, "entry": source_id}) if source_id else None
        if item is None:
            known = ", ".join(definition.source_id for definition in self.all()) or "none yet"
            raise InvalidInputError(f"no source {source_id!r}; known are: {known}")
        return self._registered(item)

    def register(self, definition: SourceDefinition) -> None:
        """Stores a source, replacing the one that was registered under its id. Raises `InvalidInputError` for a declared
        id."""
        if definition.source_id in self._declared:
            raise InvalidInputError(f"source {definition.source_id} is declared in knowledge.yaml; change it there")
        self._table.put({"sourceId": REGISTERED, "entry": definition.source_id, "definition": definition.fields()})

    def switch(self, source_id: str, *, enabled: bool) -> bool:
        """Pauses or enables a declared source, whatever knowledge.yaml states. Returns True if this differs from
        knowledge.yaml."""
        key = {"sourceId": source_id, "entry": SWITCH}
        differs = self._declared[source_id].enabled is not enabled
        if differs:
            self._table.put({**key, "enabled": enabled})
        else:
            self._table.delete(key)
        return differs

    def remove(self, source_id: str) -> None:
        """Deletes a registered source and its state. Its documents stay in the corpus, and so do the records of its
        items: registered again, it continues with them.

        Raises `InvalidInputError` for a declared or unknown id.
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
        """Returns the state and its revision, which is 0 if it was never written."""
        item = self._table.get({"sourceId": source_id, "entry": _STATE})
        return (PullState.from_json(item["state"]), int(item["revision"])) if item else (PullState(source_id), 0)

    def claim(self, source_id: str, *, seconds: float) -> PullState:
        """Returns the state with a lease of so many seconds for the caller. Raises `SourceBusyError` if another process
        holds it."""
        now = self._clock()
        state, revision = self._read(source_id)
        held = replace(state, owner=secrets.token_hex(8), lease_until=now + seconds)
        free = AnyOf((Equals("owner", ""), LessThan("leaseUntil", now)))
        if not is_leased(state.lease_until, now, seconds):
            free = AnyOf((*free.conditions, Equals("owner", state.owner)))
        as_read = AllOf((Equals("revision", revision), free)) if revision else KeyAbsent()
        try:
            self._put(held, revision, as_read)
        except ConditionFailedError as exc:
            raise SourceBusyError(f"source {source_id} is being pulled already; wait until that ends") from exc
        return held

    def save(self, state: PullState, owner: str) -> None:
        """Writes the state of a source that `owner` holds. Raises `SourceBusyError` if another process has taken it
        over."""
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
    """An ingested document of a source: its object key, the digest of its content, and the last pull that listed it. One
    that was past its retention, and therefore not stored, has no object key."""

    key: str
    digest: str
    object_key: str
    run: str

    @property
    def is_kept_out(self) -> bool:
        return self.object_key == KEPT_OUT


class SourceItems:
    """Ingested documents of one source, and validators of its replies."""

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
        """Yields every document, sorted by key."""
        for item in self._table.query(self._source, where=KeyRange(begins_with=_ITEM)):
            yield _item(item)

    # -- validators (ETag, Last-Modified), for conditional requests

    def get(self, url: str) -> Mapping[str, str]:
        item = self._table.get(self._key(_PAGE + _hash(url)))
        return item["validators"] if item else {}

    def put(self, url: str, validators: Mapping[str, str]) -> None:
        self._table.put({**self._key(_PAGE + _hash(url)), "url": url[:2048], "validators": dict(validators)})

    def forget_validators(self) -> None:
        """Deletes all validators, so that the source sends everything again, changed or not."""
        for item in list(self._table.query(self._source, where=KeyRange(begins_with=_PAGE))):
            self._table.delete(self._key(item["entry"]))

    def _key(self, entry: str) -> dict[str, str]:
        return {"sourceId": self._source, "entry": entry}


def _item(item: Mapping[str, str]) -> SourceItem:
    return SourceItem(item["entry"].removeprefix(_ITEM), item["digest"], item["objectKey"], item["run"])


def _hash(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:40]


class SourceSyncs:
    """Implements `LastSync`: a category is as fresh as the least recently pulled of its sources."""

    def __init__(self, sources: SourceRepository) -> None:
        self._sources = sources

    def __call__(self, category: str) -> datetime | None:
        scheduled = [s for s in self._sources.all() if s.category == category and s.enabled and s.schedule]
        ends = [self._sources.state(source.source_id).last_success for source in scheduled]
        known = [datetime.fromisoformat(end) for end in ends if end]
        return min(known, default=None)


# -- declared sources


_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}\Z")
_FIELDS = ("tier", "schedule", "time_zone", "enabled", "options", "tags", "topics", "max_missing_share")


def declared_sources(knowledge: KnowledgeModel, path: Path | None = None) -> dict[str, SourceDefinition]:
    """Returns the sources of the file by id. Raises `KnowledgeConfigError` with file and line."""
    section = read_section("sources", path)
    if section is None:
        return {}
    return {source_id: _declared(source_id, entry, knowledge) for source_id, entry in section.entries().items()}


def _declared(source_id: str, entry: Marked, knowledge: KnowledgeModel) -> SourceDefinition:
    given = {
        name: field.plain() for name, field in entry.fields(required=("kind", "category"), optional=_FIELDS).items()
    }
    try:
        return definition_of(source_id, given, knowledge)
    except InvalidInputError as exc:
        raise entry.error(str(exc)) from exc


def definition_of(source_id: str, given: Mapping[str, Any], knowledge: KnowledgeModel) -> SourceDefinition:
    """Builds a definition from its fields: `kind`, `category`, and the others of `SourceDefinition`. The category
    provides the tier, and the default of the schedule; left out, it is the one for this kind of source, if there is one.
    `topics` is stored as an option of that name.

    Raises `InvalidInputError` that names the field. The options are not checked: see `registry.checked_options`.
    """
    if not _ID.match(source_id):
        raise InvalidInputError(
            f"source {source_id!r}: ids are up to 48 of a-z, 0-9, - and _, and begin with a letter or digit"
        )
    unknown = set(given) - {"kind", "category", *_FIELDS}
    if unknown:
        allowed = ", ".join(("kind", "category", *_FIELDS))
        raise InvalidInputError(f"source {source_id}: unknown field {min(unknown)!r}; allowed: {allowed}")
    category = _category_of(source_id, given, knowledge)
    tier = given.get("tier", category.tier.value)
    if tier != category.tier.value:
        raise InvalidInputError(
            f"source {source_id}: category {category.path} is of tier {category.tier.value}, not {tier!r}"
        )
    schedule = given.get("schedule")
    if schedule is None:
        schedule = category.schedule or ""
    options = dict(_mapping(given.get("options") or {}, source_id))
    if "topics" in given:
        options["topics"] = given["topics"]
    return SourceDefinition(
        source_id=source_id,
        kind=_text(given.get("kind"), "kind", source_id),
        category=category.path,
        tier=category.tier,
        schedule=checked_cron(schedule) if schedule else "",
        time_zone=checked_zone(given.get("time_zone") or "UTC"),
        enabled=_flag(given.get("enabled", True), source_id),
        options=options,
        tags=tuple(_text(tag, "tags", source_id) for tag in given.get("tags") or ()),
        max_missing_share=_share(given.get("max_missing_share", MAX_MISSING_SHARE), source_id),
    )


def _category_of(source_id: str, given: Mapping[str, Any], knowledge: KnowledgeModel) -> Category:
    name, kind = str(given.get("category", "")), str(given.get("kind", ""))
    if name:
        return knowledge.category(name)
    usual = knowledge.category_of_connector(kind)
    if usual is None:
        if not kind:
            raise InvalidInputError(f"source {source_id} needs a kind")
        check_kind(kind)
        raise InvalidInputError(
            f"source {source_id}: the kind {kind!r} has no category of its own: name one of {', '.join(knowledge.categories)}"
        )
    return usual


def _mapping(value: Any, source_id: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"source {source_id}: options must be a mapping (name: value)")
    return value


def _text(value: Any, field: str, source_id: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"source {source_id}: {field} must be a string")
    return value.strip()


def _flag(value: Any, source_id: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInputError(f"source {source_id}: enabled must be true or false")
    return value


def _share(value: Any, source_id: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInputError(f"source {source_id}: max_missing_share must be between 0 and 1, such as 0.2")
    return float(value)

"""Reads stream definitions from `knowledge.yaml`, and stores streams that are subscribed to later."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from opx.domain.baselines import BASELINES_CATEGORY, VALUE_FIELDS
from opx.domain.ids import stable_hash
from opx.domain.knowledge import KnowledgeModel
from opx.domain.sources import BROKERS, QUEUE_OR_STREAM, REDIS, StreamDefinition, StreamKind
from opx.errors import DamagedRowError, InvalidInputError
from opx.ports.sources import StreamSubscriptions
from opx.ports.tables import Table
from opx.runtime.knowledge_file import read_section
from opx_streams.streams.patterns import checked_pattern

log = logging.getLogger(__name__)

_FIELDS = ("topic", "filter", "identity", "tags", "password_secret", "credentials_arn", "network", "json")
_LISTS = ("tags", "network")
_ONLY_OF = {
    "topic": (StreamKind.KAFKA, StreamKind.REDIS),
    "password_secret": (StreamKind.REDIS,),
    "credentials_arn": (StreamKind.KAFKA,),
    "network": (StreamKind.KAFKA,),
}
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}\Z")
_TOPIC = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{1,248}\Z")
"""Kafka's topic names, as Lambda accepts them (API reference, `Topics`)."""

_SECRET_ARN = re.compile(r"arn:[a-z0-9-]+:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]+\Z")
_NETWORK_ID = re.compile(r"(subnet|sg)-[0-9a-f]+\Z")


def declared_streams(knowledge: KnowledgeModel, path: Path | None = None) -> dict[str, StreamDefinition]:
    """Returns the streams of the file by name. Raises `KnowledgeConfigError` with file and line."""
    section = read_section("streams", path)
    found: dict[str, StreamDefinition] = {}
    for name, entry in section.entries().items() if section else ():
        fields = entry.fields(required=("source", "category"), optional=_FIELDS)
        try:
            definition = stream_of(name, {key: value.plain() for key, value in fields.items()}, knowledge)
            refuse_shared(definition, found.values())
        except InvalidInputError as exc:
            raise entry.error(str(exc)) from exc
        found[name] = definition
    return found


def refuse_shared(definition: StreamDefinition, others: Iterable[StreamDefinition]) -> None:
    """Raises `InvalidInputError` if another definition reads the same stream: each of the two would get a part of it."""
    for other in others:
        if other.name != definition.name and other.is_of(definition.source, definition.topic):
            raise InvalidInputError(
                f"stream {definition.name}: {other.name} reads {definition.source} already; a stream is read once"
            )


def stream_of(name: str, given: Mapping[str, Any], knowledge: KnowledgeModel) -> StreamDefinition:
    """Parses a definition from its fields, as in knowledge.yaml. Raises `InvalidInputError` that names the field."""
    if not _NAME.match(name):
        raise InvalidInputError(f"stream {name!r}: names are up to 48 of a-z, 0-9, - and _")
    for key in given:
        if key not in ("source", "category", *_FIELDS):
            allowed = ", ".join(("source", "category", *_FIELDS))
            raise InvalidInputError(f"stream {name}: unknown field {key!r}; allowed: {allowed}")
    category = knowledge.category(_text(given.get("category", ""), "category", name))
    fields: dict[str, Any] = {key: _texts(given.get(key, ()), key, name) for key in _LISTS}
    fields |= {key: _text(given.get(key, ""), key, name) for key in _FIELDS if key not in ("filter", "json", *_LISTS)}
    fields["json"] = _paths(given.get("json"), name)
    if fields["identity"]:
        from opx.formats.data.json_mapping import compile_paths

        compile_paths(fields["identity"])
    found = StreamDefinition(
        name=name,
        source=_source(given.get("source", ""), name),
        category=category.path,
        pattern=checked_pattern(given["filter"]) if given.get("filter") else {},
        **fields,
    )
    _check_kind(found)
    _check_category(found)
    return found


def _check_kind(found: StreamDefinition) -> None:
    """Raises `InvalidInputError` for fields that this kind of stream doesn't have, or lacks."""
    for key, kinds in _ONLY_OF.items():
        if getattr(found, key) and found.kind not in kinds:
            raise InvalidInputError(f"stream {found.name}: {found.kind} has no {key}")
    if found.kind in _ONLY_OF["topic"] and not found.topic:
        key = "key" if found.kind is StreamKind.REDIS else "topic"
        raise InvalidInputError(
            f"stream {found.name}: {found.kind} needs a topic; subscribe_stream: {found.source}#{key}"
        )
    if found.kind is StreamKind.KAFKA and not _TOPIC.match(found.topic):
        raise InvalidInputError(f"stream {found.name}: {found.topic!r} is not a valid name of a Kafka topic")
    if found.credentials_arn and not _SECRET_ARN.match(found.credentials_arn):
        raise InvalidInputError(f"stream {found.name}: credentials_arn must be the ARN of a secret of Secrets Manager")
    if not all(_NETWORK_ID.match(one) for one in found.network):
        raise InvalidInputError(f"stream {found.name}: network lists ids of subnets (subnet-...) and groups (sg-...)")
    if found.network and not found.brokers:
        raise InvalidInputError(f"stream {found.name}: the network of an MSK cluster is known; leave network out")


def _check_category(found: StreamDefinition) -> None:
    """Raises `InvalidInputError` for fields that a category of values, or of documents, doesn't have."""
    values = found.category == BASELINES_CATEGORY
    for key in ("identity", "tags") if values else ("json",):
        if getattr(found, key):
            raise InvalidInputError(f"stream {found.name}: a stream of category {found.category} has no {key}")


def _paths(given: Any, name: str) -> dict[str, str]:
    """JSONPaths of the parts of a value."""
    if not given:
        return {}
    from opx.formats.data.json_mapping import compile_paths

    if not isinstance(given, Mapping):
        raise InvalidInputError(f"stream {name}: json must be a mapping of {', '.join(VALUE_FIELDS)} to JSONPaths")
    for key, path in given.items():
        if key not in VALUE_FIELDS:
            raise InvalidInputError(f"stream {name}: json has no {key!r}; allowed: {', '.join(VALUE_FIELDS)}")
        compile_paths(_text(path, f"json.{key}", name))
    return dict(given)


def _source(given: Any, name: str) -> str:
    source = _text(given, "source", name)
    if not (QUEUE_OR_STREAM.match(source) or REDIS.match(source) or BROKERS.match(source)):
        raise InvalidInputError(
            f"stream {name}: source {source!r} is invalid; allowed: the ARN of a Kinesis stream, SQS queue or MSK cluster, "
            "kafka://host:port, redis://host:port/0"
        )
    if REDIS.match(source):
        _check_address(source, name)
    return source


def _check_address(source: str, name: str) -> None:
    """Raises `InvalidInputError` for an invalid address of Redis, without quoting the password that may be in it."""
    try:
        parts = urlsplit(source)
        complete = bool(parts.hostname) and parts.port != 0 and not parts.query
    except ValueError:
        complete = False
    if not complete:
        raise InvalidInputError(f"stream {name}: the address must be redis://host:port/0")
    if parts.password:
        raise InvalidInputError(
            f"stream {name}: leave the password out of the address: `opx secret set` stores it, password_secret names it"
        )


def subscription_id(source: str, topic: str, category: str) -> str:
    """Name of a stream that is subscribed to without one: the same stream always has the same."""
    return f"stream-{stable_hash('stream', source, topic, category)[:12]}"


def _text(value: Any, key: str, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"stream {name}: {key} must be a string")
    return value.strip()


def _texts(value: Any, key: str, name: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidInputError(f"stream {name}: {key} must be a list of strings")
    found = tuple(_text(one, key, name) for one in value)
    if "" in found:
        raise InvalidInputError(f"stream {name}: {key} has an empty string")
    return found


REGISTERED = "#streams"


class StreamRepository:
    """Streams, declared and in the table of sources. The name of a `declared` stream can't be used for a subscription."""

    def __init__(self, table: Table, declared: Mapping[str, StreamDefinition], knowledge: KnowledgeModel) -> None:
        self._table = table
        self._declared = declared
        self._knowledge = knowledge
        self._wrong: set[str] = set()

    def all(self) -> list[StreamDefinition]:
        """Returns all streams, by name. A subscription that became invalid, as its category is gone, is logged once and left
        out."""
        found = {definition.name: definition for definition in self._subscribed()}
        return sorted({**found, **self._declared}.values(), key=lambda definition: definition.name)

    def _subscribed(self) -> Iterator[StreamDefinition]:
        for item in self._table.query(REGISTERED):
            try:
                yield stream_of(item["entry"], item["definition"], self._knowledge)
            except (InvalidInputError, DamagedRowError) as exc:
                if item["entry"] not in self._wrong:
                    log.error("a stream isn't read: %s", exc)  # noqa: TRY400 - the message says it all
                self._wrong.add(item["entry"])

    def put(self, definition: StreamDefinition) -> None:
        """Stores a subscription, replacing the one of its name. Raises `InvalidInputError` for a declared name, and for a
        stream that is read under another."""
        if definition.name in self._declared:
            raise InvalidInputError(f"stream {definition.name} is declared in knowledge.yaml; change it there")
        refuse_shared(definition, self.all())
        self._table.put({"sourceId": REGISTERED, "entry": definition.name, "definition": definition.fields()})

    def subscribed(self, name: str) -> StreamDefinition:
        """Returns a subscription. Raises `InvalidInputError` for a declared stream, and for an unknown one."""
        if name in self._declared:
            raise InvalidInputError(f"stream {name} is declared in knowledge.yaml; remove it there")
        item = self._table.get({"sourceId": REGISTERED, "entry": name}) if name else None
        if item is None:
            known = ", ".join(definition.name for definition in self.all()) or "none yet"
            raise InvalidInputError(f"no stream {name!r}; known are: {known}")
        return stream_of(name, item["definition"], self._knowledge)

    def remove(self, name: str) -> None:
        """Removes a subscription; its documents stay. No-op if it is unknown."""
        self._table.delete({"sourceId": REGISTERED, "entry": name})


# -- subscriptions


@dataclass(eq=False)
class StreamControl:
    """Starts and ends subscriptions to streams. `subscriptions` reads them on AWS; None if this machine's process does."""

    streams: StreamRepository
    knowledge: KnowledgeModel
    subscriptions: StreamSubscriptions | None

    def subscribe(
        self, source: str, category: str, pattern: Mapping[str, Any] | None, *, name: str = "", **more: Any
    ) -> str:
        """Ingests the records of a stream from now on. Returns the stream's name. Raises `InvalidInputError`."""
        topic = str(more.get("topic", ""))
        chosen = name or subscription_id(source, topic, category)
        given = {"source": source, "category": category, "filter": dict(pattern or {}), **more}
        definition = stream_of(chosen, given, self.knowledge)
        self._check_reader(definition)
        streams, subscriptions = self.streams, self.subscriptions
        before = next((one for one in streams.all() if one.name == chosen), None)
        streams.put(definition)
        if subscriptions is not None:
            if before is not None and not before.is_of(definition.source, definition.topic):
                subscriptions.delete(before)
            subscriptions.put(definition)
        return chosen

    def _check_reader(self, definition: StreamDefinition) -> None:
        """Raises `InvalidInputError` if this installation can't read the stream: Redis is read by this machine's process, all
        others by a function of a deployed system."""
        deployed = self.subscriptions is not None
        if deployed and definition.kind is StreamKind.REDIS:
            raise InvalidInputError(
                f"stream {definition.name}: Redis is not read by functions, but by `opx run` on a machine"
            )
        if not deployed and definition.kind is not StreamKind.REDIS:
            raise InvalidInputError(
                f"stream {definition.name}: {definition.kind} is read by a function of a deployed system "
                "(OPX_BACKEND=aws, OPX_STREAM_FUNCTION); `opx run` reads Redis"
            )

    def end(self, name: str) -> None:
        """Ends a subscription; its documents stay. Raises `InvalidInputError` for a declared stream, and for an unknown
        one."""
        definition = self.streams.subscribed(name)
        if self.subscriptions is not None:
            self.subscriptions.delete(definition)
        self.streams.remove(name)

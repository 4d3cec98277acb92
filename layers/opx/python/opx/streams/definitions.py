"""Streams whose records become documents: what `knowledge.yaml` declares, and what is subscribed to later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opx.domain.ids import stable_hash
from opx.domain.knowledge import KnowledgeModel
from opx.domain.streams import BROKERS, QUEUE_OR_STREAM, REDIS, StreamDefinition, StreamKind
from opx.errors import InvalidInputError
from opx.knowledge_file import read_section
from opx.marked_yaml import Marked
from opx.streams.patterns import checked_pattern

_FIELDS = ("topic", "filter", "identity", "tags", "password_secret", "credentials_arn")


def declared_streams(knowledge: KnowledgeModel, path: Path | None = None) -> dict[str, StreamDefinition]:
    """The streams of the file by name. Raises `KnowledgeConfigError` with file and line."""
    section = read_section("streams", path)
    if section is None:
        return {}
    return {name: _declared(name, entry, knowledge) for name, entry in section.entries().items()}


def _declared(name: str, entry: Marked, knowledge: KnowledgeModel) -> StreamDefinition:
    fields = entry.fields(required=("source", "category"), optional=_FIELDS)
    try:
        return stream_of(name, {key: value.plain() for key, value in fields.items()}, knowledge)
    except InvalidInputError as exc:
        raise entry.error(str(exc)) from exc


def stream_of(name: str, given: Mapping[str, Any], knowledge: KnowledgeModel) -> StreamDefinition:
    """A definition from its fields, as knowledge.yaml has them. Raises `InvalidInputError` that names the field."""
    if not re.match(r"[a-z0-9][a-z0-9_-]{0,47}\Z", name):
        raise InvalidInputError(f"stream {name!r}: names are up to 48 of a-z, 0-9, - and _")
    for key in given:
        if key not in ("source", "category", *_FIELDS):
            raise InvalidInputError(
                f"stream {name}: unknown field {key!r}; allowed: source, category, {', '.join(_FIELDS)}"
            )
    category = knowledge.category(str(given.get("category", "")))
    texts = {key: _text(given.get(key, ""), key, name) for key in _FIELDS if key not in ("filter", "tags")}
    source = _text(given.get("source", ""), "source", name)
    if not (QUEUE_OR_STREAM.match(source) or REDIS.match(source) or BROKERS.match(source)):
        raise InvalidInputError(
            f"stream {name}: source {source!r} is none; allowed: the ARN of a Kinesis stream, SQS queue or MSK cluster, "
            "kafka://host:port, redis://host:port/0"
        )
    identity = texts["identity"]
    if identity:
        from opx.ingestion.parsing.json_paths import compile_paths

        compile_paths(identity)
    found = StreamDefinition(
        name=name,
        source=source,
        category=category.path,
        tier=category.tier,
        pattern=checked_pattern(given["filter"]) if given.get("filter") else {},
        tags=tuple(_text(tag, "tags", name) for tag in given.get("tags") or ()),
        **texts,
    )
    if found.kind in (StreamKind.KAFKA, StreamKind.REDIS) and not found.topic:
        raise InvalidInputError(f"stream {name}: {found.kind} needs a topic")
    return found


def stream_fields(definition: StreamDefinition) -> dict[str, Any]:
    """What `stream_of` reads, as JSON."""
    return {
        "source": definition.source,
        "category": definition.category,
        "topic": definition.topic,
        "filter": dict(definition.pattern),
        "identity": definition.identity,
        "tags": list(definition.tags),
        "password_secret": definition.password_secret,
        "credentials_arn": definition.credentials_arn,
    }


def subscription_id(source: str, topic: str, category: str) -> str:
    """The name of a stream that is subscribed to without one: the same stream again has the same."""
    return f"stream-{stable_hash('stream', source, topic, category)[:12]}"


def _text(value: Any, field_name: str, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"stream {name}: {field_name} must be a text")
    return value.strip()

"""Any service that can be made to sign: a JSON record, read where the webhook or its category says."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from opx.connectors.deliveries import (
    Change,
    Delivery,
    PayloadError,
    WebhookSetupError,
    metadata,
    moment,
    one_line,
    part,
)
from opx.connectors.forums.threads import nested
from opx.domain.ids import stable_hash
from opx.domain.knowledge import Category
from opx.domain.record import replace
from opx.domain.sources import WebhookDefinition
from opx.errors import KnowledgeConfigError, UnparsableDocumentError

EVENT_HEADER = "x-opx-event"


def event_of(payload: Mapping[str, Any]) -> str:
    """The record's `event`, if it is a text."""
    found = payload.get("event")
    return found if isinstance(found, str) else ""


def changes_of(definition: WebhookDefinition, category: Category, delivery: Delivery) -> list[Change]:
    """The record as a document. Without an id in the mapping each record is one of its own. A true `deleted` at the top
    of a record with an id removes its document. Raises `PayloadError`."""
    from opx.formats.data.json_mapping import parse_json
    from opx.formats.source import HEAD_BYTES, Source

    record = delivery.json()
    paths = {name: path for name, path in definition.mapping.items() if name != "id"}
    own = replace(category, json_mapping=paths) if paths else category
    identity = _first(definition.mapping.get("id", ""), record)
    if identity and record.get("deleted") is True:
        return [Change(key=part(identity), time=_time(own, record), deleted=True)]
    stream = io.BytesIO(delivery.body[HEAD_BYTES:])
    try:
        found = parse_json(Source(f"delivery to {definition.name}", delivery.body[:HEAD_BYTES], stream, own))
        text = "".join(found.lines)
    except UnparsableDocumentError as exc:
        raise PayloadError(str(exc)) from exc
    except KnowledgeConfigError as exc:
        raise WebhookSetupError(str(exc)) from exc
    known = found.metadata
    lists = {name: [str(each) for each in known.get(name, [])] for name in ("tags", "services")}
    return [
        Change(
            key=part(identity) if identity else stable_hash("record", record),
            time=_time(own, record),
            text=f"# {one_line(found.title or '')}\n\n{nested(text)}\n",
            metadata=metadata(
                tags=lists["tags"],
                services=lists["services"],
                source_uri=str(known.get("source_uri", "")),
                author=str(known.get("author", "")),
                severity=str(known.get("severity", "")),
                created=moment(known.get("created"), "created"),
                updated=moment(known.get("updated"), "updated"),
            ),
        )
    ]


def _time(category: Category, record: Mapping[str, Any]) -> str:
    found = _first(category.json_mapping.get("updated", ""), record) or _first(
        category.json_mapping.get("created", ""), record
    )
    return moment(float(found) if found.replace(".", "", 1).isdigit() else found, "updated")


def _first(expressions: str, record: Mapping[str, Any]) -> str:
    """The first text or number that a mapping entry leads to, "" for none."""
    if not expressions:
        return ""
    from opx.errors import InvalidInputError
    from opx.formats.data.json_mapping import compile_paths

    try:
        paths = compile_paths(expressions)
    except InvalidInputError as exc:
        raise WebhookSetupError(str(exc)) from exc
    for path in paths:
        for value in path.values(record):
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                return str(value)
    return ""

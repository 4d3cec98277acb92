"""Reads the webhooks that `knowledge.yaml` declares: their addresses, formats, and the verification of deliveries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import quote

from opx import plugins
from opx.connectors.webhook_formats import WebhookFormat
from opx.domain.knowledge import JSON_MAPPING_FIELDS, KnowledgeModel
from opx.domain.sources import WebhookDefinition
from opx.errors import InvalidInputError
from opx.runtime.knowledge_file import Marked, read_section

TOPIC_FORMAT = "cloudwatch"
"""Format of SNS. AWS signs deliveries with a certificate, so that a webhook has a topic instead of a secret."""

GENERIC = "generic"
"""Format of any JSON, by the mapping of the webhook or of its category."""

TIMED = {GENERIC: 300.0, TOPIC_FORMAT: 3900.0}
"""Formats that sign the time of sending, with the seconds for which a delivery is valid unless the webhook sets another
window. Amazon SNS retries for 3,600 seconds at most (its page on delivery retries), with the first time."""

TOPIC_EVENTS = ("ALARM", "INSUFFICIENT_DATA", "OK")
MAPPING_FIELDS = ("id", *JSON_MAPPING_FIELDS)
WINDOW_RANGE = (30.0, 86_400.0)

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}\Z")
_TOPIC = re.compile(r"arn:aws(-cn|-us-gov)?:sns:[a-z]{2}(-[a-z]+)+-\d:\d{12}:[A-Za-z0-9_.-]{1,256}\Z")
_OPTIONAL = ("secret", "topic", "window", "events", "tags", "json")


def load_webhooks(knowledge: KnowledgeModel, path: Path | None = None) -> dict[str, WebhookDefinition]:
    """Returns the webhooks of the file by name. Raises `KnowledgeConfigError` with file and line."""
    section = read_section("webhooks", path)
    if section is None:
        return {}
    return {name: _webhook(name, entry, knowledge) for name, entry in section.entries().items()}


def _webhook(name: str, entry: Marked, knowledge: KnowledgeModel) -> WebhookDefinition:
    if not _NAME.match(name):
        raise entry.error(
            f"webhook {name!r}: names are up to 48 of a-z, 0-9, - and _, and begin with a letter or digit"
        )
    given = entry.fields(required=("category", "format"), optional=_OPTIONAL)
    kind = given["format"].text()
    if kind not in TIMED and kind not in (others := plugins.names(plugins.WEBHOOKS)):
        allowed = ", ".join(sorted({*TIMED, *others}))
        raise given["format"].error(f"unknown format {kind!r}; allowed: {allowed}")
    try:
        category = knowledge.category(given["category"].text())
    except InvalidInputError as exc:
        raise given["category"].error(str(exc)) from exc
    return WebhookDefinition(
        name=name,
        tier=category.tier,
        category=category.path,
        format=kind,
        secrets=_secrets(kind, entry, given),
        topic=_topic(kind, entry, given),
        window=_window(kind, given),
        events=_events(kind, given["events"]) if "events" in given else (),
        tags=given["tags"].texts() if "tags" in given else (),
        mapping=_mapping(kind, given, bool(category.json_mapping), entry),
    )


def _events(kind: str, given: Marked) -> tuple[str, ...]:
    """The patterns, each of which an event of the format has to match."""
    events, found = given.texts(), plugins.load(plugins.WEBHOOKS, kind, WebhookFormat)
    known = TOPIC_EVENTS if kind == TOPIC_FORMAT else found.events if found else ()
    for name in events if known else ():
        if not any(fnmatchcase(event, name) for event in known):
            raise given.error(f"unknown event {name!r} of format {kind}; known: {', '.join(known)}")
    return events


def _secrets(kind: str, entry: Marked, given: Mapping[str, Marked]) -> tuple[str, ...]:
    if kind == TOPIC_FORMAT:
        if "secret" in given:
            raise given["secret"].error(f"format {kind} is signed by AWS and has no secret; name its topic")
        return ()
    if "secret" not in given:
        raise entry.error(f"format {kind} needs a secret: the name under which it is stored, or a list of names")
    return given["secret"].texts()


def _topic(kind: str, entry: Marked, given: Mapping[str, Marked]) -> str:
    if kind != TOPIC_FORMAT:
        if "topic" in given:
            raise given["topic"].error(f"only format {TOPIC_FORMAT} has a topic")
        return ""
    if "topic" not in given:
        raise entry.error(f"format {kind} needs the topic: the ARN of the SNS topic that the alarms go to")
    topic = given["topic"].text()
    if not _TOPIC.match(topic):
        raise given["topic"].error(f"{topic!r} is not the ARN of an SNS topic")
    return topic


def _window(kind: str, given: Mapping[str, Marked]) -> float:
    if "window" not in given:
        return TIMED.get(kind, 0.0)
    if kind not in TIMED:
        raise given["window"].error(
            f"format {kind} doesn't sign the time of sending, so it can't have a window; formats that can: {', '.join(TIMED)}"
        )
    seconds = given["window"].number()
    low, high = WINDOW_RANGE
    if not low <= seconds <= high:
        raise given["window"].error(f"window must be {low:.0f} to {high:.0f} seconds, not {seconds:g}")
    return seconds


def _mapping(kind: str, given: Mapping[str, Marked], has_own: bool, entry: Marked) -> dict[str, str]:
    if "json" not in given:
        if kind == GENERIC and not has_own:
            raise entry.error(
                "format generic needs `json`, the JSONPaths of a delivery's parts, as its category has none"
            )
        return {}
    if kind != GENERIC:
        raise given["json"].error("only format generic has `json`; the other formats are known")
    fields = given["json"].fields(required=("title", "content"), optional=MAPPING_FIELDS)
    return {name: value.text() for name, value in fields.items()}


LOCAL = "http://127.0.0.1:8321"
"""Default address of `opx run --listen`."""


def webhook_endpoint(base: str, tier: str, category: str, name: str = "") -> str:
    """Builds an address such as `https://.../ingest/internal/operations/alerts?source=grafana`.

    `base` is the address of the server, "" for this machine. Without a name, the address is that of the only webhook
    which the category has.
    """
    path = f"{(base or LOCAL).rstrip('/')}/ingest/{quote(tier)}/{quote(category)}"
    return f"{path}?source={quote(name)}" if name else path

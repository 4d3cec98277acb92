"""Reads payloads: typed records, times, and Markdown from what other people wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from opx.connectors.deliveries import PayloadError
from opx.connectors.forums.threads import nested
from opx.domain.ids import stable_hash
from opx.formats.data.replies import Shape, Words, shaped

S = TypeVar("S", bound=Shape)

MAX_TITLE = 300
MAX_TAGS = 12
MAX_TAG = 64
MAX_URI = 400
"""Most metadata then fit into those of the object itself; the writer puts what is longer into a file beside it."""

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


class Named(Shape, frozen=True):
    name: Words = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What a delivery says about one document. `key` names it within the webhook and stays; `time` is the payload's own
    (see `moment`), "" if it has none; a document that is `deleted` has no text."""

    key: str
    time: str = ""
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    deleted: bool = False


def read_payload(kind: type[S], payload: object) -> S:
    """The record in a delivery, or in a part of one. Raises `PayloadError` that names the field and what was expected."""
    return shaped(kind, payload, error=PayloadError)


def epoch_of(value: object) -> float | None:
    """Seconds since the epoch from ISO 8601 or a number of seconds or milliseconds; None for what is no time."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value) / 1000 if value > 10**11 else float(value)
        found = datetime.fromisoformat(str(value))
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def moment(value: object, called: str) -> str:
    """A time as text that sorts as time does: UTC with milliseconds. "" for none. Raises `PayloadError`."""
    if value in (None, ""):
        return ""
    seconds = epoch_of(value)
    try:
        if seconds is not None:
            found = datetime.fromtimestamp(seconds, UTC)
            return found.strftime(f"%Y-%m-%dT%H:%M:%S.{found.microsecond // 1000:03d}Z").rjust(24, "0")
    except (ValueError, OverflowError, OSError):
        pass
    raise PayloadError(f"{called} is not a time")


def part(text: str) -> str:
    """A part of a key: the text itself where an object's key may have it, else its hash."""
    return text if _PART.match(text) else stable_hash("part", text)


# -- Markdown


def one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_TITLE]


def document(title: str, facts: Iterable[tuple[str, str]], sections: Iterable[tuple[str, str]]) -> str:
    """A heading, a list of facts, and sections. What is empty is left out. Headings in a section's text become deeper
    ones, so that they don't end it."""
    parts = [f"# {one_line(title) or 'Without a title'}\n"]
    listed = [f"- {name}: {one_line(value)}" for name, value in facts if value]
    if listed:
        parts.append("\n".join(listed) + "\n")
    parts += [f"## {one_line(name)}\n\n{nested(text)}\n" for name, text in sections if text.strip()]
    return "\n".join(parts)


def metadata(
    *,
    tags: Iterable[str] = (),
    source_uri: str = "",
    created: str = "",
    updated: str = "",
    author: str = "",
    severity: str = "",
    services: Iterable[str] = (),
) -> dict[str, Any]:
    """Metadata of a document, with an end to how many and how long; without what is empty. The title is the heading."""
    found = {
        "tags": _short(tags),
        "source_uri": source_uri if len(source_uri) <= MAX_URI else "",
        "created_at": created,
        "last_updated": updated,
        "author": one_line(author)[:MAX_TAG],
        "severity": one_line(severity)[:MAX_TAG],
        "services": _short(services),
    }
    return {name: value for name, value in found.items() if value}


def _short(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(one_line(text)[:MAX_TAG] for text in texts if text.strip()))[:MAX_TAGS]

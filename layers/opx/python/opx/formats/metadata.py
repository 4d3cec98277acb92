"""Normalizes and validates a document's metadata from its author, a sidecar or a connector."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from typing import Any

from opx.domain.documents import KnowledgeDocument
from opx.domain.ids import normalise, shortened
from opx.errors import UnparsableDocumentError
from opx.formats.source import well_formed

MAX_TEXT = 500
MAX_URI = 2048
MAX_ITEMS = 50
MAX_ITEM = 128
MAX_ATTRIBUTES = 100
MAX_ATTRIBUTES_BYTES = 8 * 1024
"""Bytes of all attributes as JSON."""
_LEAST_NUMBER, _MOST_NUMBER = 1e-100, 2**53
"""Numbers between them, apart from their sign and 0, are the same in every store and in every reader of JSON."""
_LANGUAGE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]+)*\Z")
_NAMES = {
    "title": ("title",),
    "tags": ("tags",),
    "author": ("author",),
    "version": ("version",),
    "severity": ("severity",),
    "services": ("services",),
    "language": ("language", "lang"),
    "created": ("createdAt", "created_at", "created"),
    "last_updated": ("lastUpdated", "last_updated", "updated"),
    "source_uri": ("sourceUri", "source_uri"),
    "category": ("category",),
    "expires": ("expires", "expiresAt", "expires_at"),
    "review_by": ("reviewBy", "review_by"),
}
"""Fields with their accepted names; the first that has a value counts. The names used by callers of the interface come
first: their values take precedence over the document's own."""
_KNOWN = frozenset(name for names in _NAMES.values() for name in names)


@dataclass(frozen=True, slots=True)
class DocumentMetadata:
    """Metadata of a document; empty where nothing was given.

    `created` and `last_updated` are ISO 8601: a date, or a time in UTC that ends with Z; `expires` and `review_by` are
    days (2026-03-31), in UTC if a time was given. `language` is the primary subtag (`en` of `en-GB`). `attributes` are the
    fields that have no meaning here, as they were given: strings, numbers, booleans, and lists of these. `left_out` states
    why others, or a part of them, can't be kept.
    """

    title: str = ""
    tags: tuple[str, ...] = ()
    author: str = ""
    version: str = ""
    severity: str = ""
    services: tuple[str, ...] = ()
    language: str = ""
    created: str = ""
    last_updated: str = ""
    source_uri: str = ""
    category: str | None = None
    expires: str = ""
    review_by: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """The fields that a document has by the same names, as they were given."""
        return {name: getattr(self, name) for name in FACTS}


FACTS = tuple(
    one.name
    for one in fields(DocumentMetadata)
    if one.name in KnowledgeDocument.__struct_fields__
    and one.name not in ("title", "version", "category", "source_uri")  # which have a default of their own
)


def given_facts(document: KnowledgeDocument) -> dict[str, Any]:
    """The `FACTS` of a document but for its attributes, in the form in which they can be given for another one."""
    return {_NAMES[name][0]: getattr(document, name) for name in FACTS if name in _NAMES}


def validated(raw: Mapping[str, Any], *, name: str) -> DocumentMetadata:
    """The metadata of the document `name`, from unvalidated keys and values.

    Numbers become strings, a string of tags is split at its commas, and a list of authors is joined. Unix times and
    numbers such as 20250204 count as dates. Raises `UnparsableDocumentError` that names the field for a value of a
    wrong type, an invalid date, and a value that is too long.
    """
    reader = _Reader(name)
    values: dict[str, Any] = {}
    for known, names in _NAMES.items():
        key = next((one for one in names if raw.get(one) is not None), None)
        if key is not None:
            values[known] = reader.read(known, key, raw[key])
    values["category"] = values.get("category") or None
    attributes, left_out = _attributes({key: raw[key] for key in raw if key not in _KNOWN and raw[key] is not None})
    return DocumentMetadata(**values, attributes=attributes, left_out=tuple(left_out))


def check_given(raw: Mapping[str, Any], *, name: str) -> None:
    """Raises as `validated`, and for a field that can't be kept, or only in part."""
    if left_out := validated(raw, name=name).left_out:
        raise UnparsableDocumentError(f"{name}: {left_out[0]}")


def values_text(value: object) -> str:
    """A value of the metadata for people: the elements of a list are separated by commas."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def texts_of(value: Any) -> tuple[str, ...]:
    """An attribute as strings within the limits of tags."""
    return tuple(fitting(map(str, value if isinstance(value, list | tuple) else [value])))


def fitting(texts: Iterable[str]) -> list[str]:
    """Tags within a document's limits, each once: cut to `MAX_ITEM` characters, and the first `MAX_ITEMS` of them."""
    lines = (" ".join(normalise(well_formed(text)).split()) for text in texts)
    return list(dict.fromkeys(shortened(line, MAX_ITEM) for line in lines if line))[:MAX_ITEMS]


@dataclass(frozen=True, slots=True)
class _Reader:
    name: str

    def read(self, field: str, key: str, value: Any) -> Any:
        if field in ("tags", "services"):
            return self.items(key, value)
        if field in ("created", "last_updated"):
            return self.moment(key, value)
        if field in ("expires", "review_by"):
            return self.moment(key, value)[: len("2026-03-31")]
        if field == "language":
            return self.language(key, value)
        if field == "author" and isinstance(value, list):
            return self.text(key, ", ".join(self.items(key, value)), MAX_TEXT)
        return self.text(key, value, MAX_URI if field == "source_uri" else MAX_TEXT)

    def text(self, key: str, value: Any, limit: int) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.error(key, f"must be a string, not {_kind(value)}")
        text = " ".join(normalise(well_formed(str(value))).split())
        if len(text) > limit:
            raise self.error(key, f"has {len(text)} characters; at most {limit} are allowed")
        return text

    def items(self, key: str, value: Any) -> tuple[str, ...]:
        """Strings of a list in the given order, without duplicates and empty ones."""
        if isinstance(value, str):
            value = value.split(",")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            value = [value]
        if not isinstance(value, list | tuple):
            raise self.error(key, f"must be a list of strings, not {_kind(value)}")
        texts = [self.text(key, item, MAX_ITEM) for item in value if item is not None]
        found = tuple(dict.fromkeys(text for text in texts if text))
        if len(found) > MAX_ITEMS:
            raise self.error(key, f"has {len(found)} entries; at most {MAX_ITEMS} are allowed")
        return found

    def language(self, key: str, value: Any) -> str:
        text = self.text(key, value, MAX_TEXT)
        match = _LANGUAGE.match(text)
        if text and not match:
            raise self.error(key, f"must be a language code such as en or pt-BR, not {text!r}")
        return match[1].lower() if match else ""

    def moment(self, key: str, value: Any) -> str:
        text = self.text(key, value, MAX_TEXT)
        try:
            if isinstance(value, int | float) and len(text.partition(".")[0]) != len("20250204"):
                return _utc(datetime.fromtimestamp(value, UTC))
            if len(text) <= len("2025-02-04"):
                return date.fromisoformat(text).isoformat() if text else ""
            return _utc(datetime.fromisoformat(text))
        except (ValueError, OverflowError, OSError) as exc:
            allowed = "a date such as 2025-02-04 or a time such as 2025-02-04T10:30:00Z"
            raise self.error(key, f"must be {allowed}, not {text!r}") from exc

    def error(self, key: str, problem: str) -> UnparsableDocumentError:
        return UnparsableDocumentError(f"{self.name}: metadata field {key!r} {problem}")


def _utc(moment: datetime) -> str:
    """Formats a time in UTC; without an offset it counts as UTC; fractions of a second are dropped."""
    aware = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    return aware.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, bool):
        return "true or false"
    return "a list" if isinstance(value, list | tuple) else type(value).__name__


# -- attributes


def _attributes(given: Mapping[Any, Any]) -> tuple[dict[str, Any], list[str]]:
    """The attributes that can be kept, in the given order, and why others, or elements of their lists, can't."""
    kept: dict[str, Any] = {}
    left_out: list[str] = []
    size = 0
    for key, value in given.items():
        name = well_formed(str(key))  # YAML has keys that are no strings
        entry, problem = _kept_value(value)
        if entry is not None:
            after = size + len(json.dumps({name: entry}, ensure_ascii=False).encode())
            limit = _limit_reached(name, len(kept), after)
            if not limit:
                kept[name], size = entry, after
            problem = limit or problem
        if problem:
            left_out.append(f"metadata field {name[:MAX_ITEM]!r} {problem}")
    return kept, left_out


def _kept_value(value: object) -> tuple[Any, str]:
    """A value as far as it can be kept, None if nothing of it can; and why it, or an element of it, can't."""
    several = value if isinstance(value, list | tuple) else [value]
    plain = [well_formed(one) if isinstance(one, str) else one for one in several if _is_plain(one)]
    unfit = [one for one in several if not _is_plain(one)]
    problem = f"{_described(unfit[0])}; write {_ALLOWED}" if unfit else ""
    if unfit and not plain:
        return None, problem
    return plain if several is value else plain[0], problem


_ALLOWED = "a string, a number up to 2^53, true or false, or a list of these"


def _limit_reached(name: str, count: int, size: int) -> str:
    if len(name) > MAX_ITEM:
        return f"has a name of {len(name)} characters; at most {MAX_ITEM} are allowed: shorten it"
    if count >= MAX_ATTRIBUTES:
        return f"is one too many: at most {MAX_ATTRIBUTES} fields of your own are kept; write it into the text"
    if size > MAX_ATTRIBUTES_BYTES:
        limit = f"{MAX_ATTRIBUTES_BYTES:,} bytes"
        return f"is too long: all fields of your own together may have {limit}; write it into the text"
    return ""


def _is_plain(value: object) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return not value or _LEAST_NUMBER < abs(value) <= _MOST_NUMBER
    return isinstance(value, str | bool)


def _described(value: object) -> str:
    number = isinstance(value, int | float)
    return "has a number that not every reader can hold" if number else f"has {_kind(value)}, which is not kept"


# -- sidecar


MAX_BYTES = 10 * 1024
"""Bedrock's limit; it would ignore a larger file."""

_TYPES: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "STRING": ("stringValue", str),
    "NUMBER": ("numberValue", (int, float)),
    "BOOLEAN": ("booleanValue", bool),
    "STRING_LIST": ("stringListValue", list),
}
"""Key of the value and JSON type for each declared type."""


def parse_sidecar(data: bytes, name: str) -> dict[str, Any]:
    """Parses the attributes by name: strings, numbers, booleans and lists of these.

    Each may be a plain value or typed (`{"value": {"type": "STRING", "stringValue": "x"},
    "includeForEmbedding": true}`). Raises `UnparsableDocumentError`.
    """
    if len(data) > MAX_BYTES:
        raise UnparsableDocumentError(f"{name}: {len(data)} bytes; a metadata file may have {MAX_BYTES}. Shorten it")
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        raise UnparsableDocumentError(f"{name}: not valid UTF-8 at byte {exc.start}; save it as UTF-8") from exc
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno}, column {exc.colno}"
        raise UnparsableDocumentError(f"{name}: not valid JSON at {where}: {exc.msg}; correct it") from exc
    except (ValueError, RecursionError) as exc:
        raise UnparsableDocumentError(f"{name}: not usable JSON: {exc}; simplify it") from exc
    attributes = content.get("metadataAttributes") if isinstance(content, dict) else None
    if not isinstance(attributes, dict):
        raise UnparsableDocumentError(f'{name}: needs an object `{{"metadataAttributes": {{...}}}}` at the top')
    return {key: _attribute(key, value, name) for key, value in attributes.items()}


def _attribute(key: str, value: Any, name: str) -> Any:
    found = _typed(key, value, name) if isinstance(value, dict) else value
    if isinstance(found, str | int | float) or (
        isinstance(found, list) and all(isinstance(item, str | int | float) for item in found)
    ):
        return found
    raise UnparsableDocumentError(f"{name}: attribute {key!r} must be a string, number, boolean or list of these")


def _typed(key: str, value: dict[str, Any], name: str) -> Any:
    typed = value.get("value")
    kind = typed.get("type") if isinstance(typed, dict) else None
    value_key, expected = _TYPES.get(kind, ("", ())) if isinstance(kind, str) else ("", ())
    if not isinstance(typed, dict) or not value_key:
        allowed = ", ".join(_TYPES)
        raise UnparsableDocumentError(f"{name}: attribute {key!r} has no known type at value.type; allowed: {allowed}")
    found = typed.get(value_key)
    if not isinstance(found, expected) or isinstance(found, bool) != (kind == "BOOLEAN"):
        raise UnparsableDocumentError(
            f"{name}: attribute {key!r} of type {kind} needs such a value at value.{value_key}"
        )
    return found

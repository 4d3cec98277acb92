"""Metadata files beside a document, in the format of Amazon Bedrock knowledge bases (`x.md.metadata.json`)."""

from __future__ import annotations

import json
from typing import Any

from opx.errors import UnparsableDocumentError

MAX_BYTES = 10 * 1024
"""What Bedrock takes; a larger file would be ignored there."""

_TYPES: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "STRING": ("stringValue", str),
    "NUMBER": ("numberValue", (int, float)),
    "BOOLEAN": ("booleanValue", bool),
    "STRING_LIST": ("stringListValue", list),
}
"""Where the value of each type is, and what it is in JSON."""


def parse_sidecar(data: bytes, name: str) -> dict[str, Any]:
    """The attributes by name: texts, numbers, booleans and lists of texts.

    Each may be given plainly or with its type (`{"value": {"type": "STRING", "stringValue": "x"},
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
        isinstance(found, list) and all(isinstance(item, str) for item in found)
    ):
        return found
    raise UnparsableDocumentError(f"{name}: attribute {key!r} must be a text, number, boolean or list of texts")


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

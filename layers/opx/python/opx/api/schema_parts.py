"""Parts of the JSON Schemas of replies."""

from __future__ import annotations

from collections.abc import Sequence

from opx.api.fields import Json

TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0}
NUMBER: Json = {"type": "number"}
FLAG: Json = {"type": "boolean"}
OPEN: Json = {"type": "object"}


def object_of(properties: Json, optional: Sequence[str] = ()) -> Json:
    """All properties are required but for the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def list_of(items: Json) -> Json:
    return {"type": "array", "items": items}


def named(name: str) -> Json:
    """A schema of the document's components."""
    return {"$ref": f"#/components/schemas/{name}"}

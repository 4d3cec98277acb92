"""The description of the REST API, for programs (OpenAPI) and for people: a page without scripts or files of others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from typing import Any

from opx.domain.record import Json
from opx.edges.schemas import openapi

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
summary { cursor: pointer; padding: .3rem 0; }
summary b { display: inline-block; min-width: 4rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; }
h2 { margin-top: 2rem; }
"""


@cache
def _document() -> Json:
    return openapi()


@cache
def openapi_text() -> bytes:
    """OpenAPI 3.1 of the routes, as JSON."""
    return json.dumps(_document(), ensure_ascii=False).encode()


@cache
def documentation_page() -> bytes:
    """The same as a page of HTML."""
    document = _document()
    groups: dict[str, list[tuple[str, str, Json]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(path.split("/")[1], []).append((method.upper(), path, operation))
    body = "".join(_group(name, operations, document) for name, operations in sorted(groups.items()))
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(document['info']['title'])}: REST API</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(document['info']['title'])}: REST API</h1><p>{escape(document['info']['description'])}</p>"
        '<p>For programs: <a href="/openapi.json">openapi.json</a>. Tools for agents: <code>/mcp</code>. '
        f"Metrics: <code>/metrics</code>. Health: <code>/healthz</code>.</p>{body}</body></html>"
    )
    return text.encode()


def _group(name: str, operations: list[tuple[str, str, Json]], document: Json) -> str:
    items = "".join(_operation(method, path, operation, document) for method, path, operation in operations)
    return f"<h2>{escape(name)}</h2>{items}"


def _operation(method: str, path: str, operation: Json, document: Json) -> str:
    about = operation.get("description", "")
    parts = [
        f"<details><summary><b>{method}</b> <code>{escape(path)}</code> {escape(operation.get('summary', ''))}</summary>",
        f"<p>{escape(about)}</p>" if about else "",
        _table("Parameters", _parameters(operation)),
        _table("Body (JSON)", _properties(_body(operation), document)),
        _table("Reply", _properties(_reply(operation), document)),
        f"<pre>{escape(_example(method, path))}</pre></details>",
    ]
    return "".join(parts)


def _example(method: str, path: str) -> str:
    data = " -H 'content-type: application/json' -d '{...}'" if method in ("POST", "PUT", "PATCH") else ""
    verb = "" if method == "GET" else f" -X {method}"
    return f"curl{verb} -H 'authorization: Bearer TOKEN'{data} http://HOST:PORT{path}"


def _table(title: str, rows: Iterator[tuple[str, str, str]]) -> str:
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td><td>{escape(about)}</td></tr>"
        for name, kind, about in rows
    )
    return f"<table><tr><th colspan=3>{title}</th></tr>{cells}</table>" if cells else ""


def _parameters(operation: Json) -> Iterator[tuple[str, str, str]]:
    for one in operation.get("parameters", ()):
        kind = f"{_kind(one['schema'])}, in the {one['in']}" + (", required" if one.get("required") else "")
        yield one["name"], kind, one.get("description", "")


def _body(operation: Json) -> Json:
    content = operation.get("requestBody", {}).get("content", {})
    schema: Json = content.get("application/json", {}).get("schema", {})
    return schema


def _reply(operation: Json) -> Json:
    done: Json = next((found for status, found in operation["responses"].items() if status.startswith("2")), {})
    schema: Json = done.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _properties(schema: Json, document: Json) -> Iterator[tuple[str, str, str]]:
    found = _resolved(schema, document)
    for name, one in found.get("properties", {}).items():
        required = ", required" if name in found.get("required", ()) else ""
        yield name, _kind(one) + required, one.get("description", "")


def _resolved(schema: Json, document: Json) -> Json:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Json = document["components"]["schemas"].get(name, {}) if name else schema
    return found


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))

"""Generates descriptions of operations from their types: OpenAPI 3.1 of the HTTP API; OpenAPI 3.0.3, function details and
tool schemas for agent runtimes.

`python -m opx.edges.schemas docs/api` writes them, byte for byte the same every time.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from opx.domain.policy import Action, scopes_for
from opx.domain.record import INTERNAL, Json, schema_components, without_references
from opx.domain.requests import NOT_BLANK, FieldFacts, Request, fields_of
from opx.operations import load
from opx.operations.corpus import API_VERSION
from opx.operations.forms import FILE_FIELD, MEDIA_TYPE
from opx.operations.registry import GROUPS, Operation, ToolGroup

Tools = Sequence[Operation[Any, Any]]
HTTP_FILE = "http-api.json"
TOOLS_VERSION = "1.1.0"

_ERRORS = {
    "400": "The request is invalid; the message states what is accepted.",
    "403": "The caller is not identified, or may not do this.",
    "404": "There is no such resource in the caller's scopes.",
    "409": "The resource was changed meanwhile, or is in use; the message states whether to retry.",
    "413": "The request or its reply is too large.",
    "500": "The request failed; the error was logged.",
    "503": "The knowledge base is unavailable for now; the header Retry-After has the seconds to wait before a retry.",
}
_DESCRIPTION = (
    "Queries and documents of OPX Knowledge. The scopes that a caller reads and writes follow from its identity, "
    "never from a request: from the token's claims `opx_client_id` and `opx_project_id`, or, for a caller "
    "with an IAM role, from how the installation is configured. An optional field may also be null."
)
_REFERENCE = "#/components/schemas/{name}"
_ERROR: Json = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "what": {"type": "string", "description": "The kind of a resource that was not found."},
            },
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}


# -- schemas of types


def components(kinds: Sequence[Any]) -> tuple[list[Json], Json]:
    """The schema of each type, and referenced schemas by name."""
    schemas, named = schema_components(kinds, ref_template=_REFERENCE)
    return [_plain(one) for one in schemas], {name: _described(one) for name, one in sorted(named.items())}


def _described(schema: Any) -> Any:
    """A schema without docstrings of record types, which are for programmers, and without internal fields."""
    found = _plain(schema)
    if isinstance(found, dict) and "properties" in found:
        found.pop("description", None)
        found.pop("title", None)
        found["properties"] = {name: one for name, one in found["properties"].items() if not one.get(INTERNAL)}
    return found


def _plain(schema: Any) -> Any:
    """A schema as plain JSON, as defaults may be tuples, in the usual form."""
    return _normalized(json.loads(msgspec.json.encode(schema)))


def _normalized(schema: Any) -> Any:
    """Normalizes a schema: enums with their type only; no empty list as default, `minLength` instead of the pattern that
    refuses blank strings, and no empty `required`, which OpenAPI 3.0 doesn't allow."""
    if isinstance(schema, list):
        return [_normalized(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    omitted: tuple[tuple[str, object], ...] = (("default", []), ("pattern", NOT_BLANK), ("required", []))
    leave_out = {name for name, value in omitted if schema.get(name) == value}
    if isinstance(schema.get("enum"), list):
        leave_out |= {"pattern", "title"}
        schema = {"type": "string", **schema}
    return {name: _normalized(one) for name, one in schema.items() if name not in leave_out}


# -- the HTTP API


def openapi() -> Json:
    """OpenAPI 3.1 of the HTTP API."""
    operations = list(load().routes.values())
    kinds = [kind for one in operations for kind in (one.request, one.reply)]
    forms = [one.route.form for one in operations if one.route and one.route.form]
    schemas, named = components([*kinds, *forms])
    requests = {one.request.__name__ for one in operations} | {form.__name__ for form in forms}
    paths: Json = {}
    for position, one in enumerate(operations):
        assert one.route is not None
        path = one.route.path.replace("+}", "}")
        paths.setdefault(path, {})[one.route.method.lower()] = _http_operation(one, named, schemas[2 * position + 1])
    error = _content({"$ref": "#/components/schemas/Error"})
    return {
        "openapi": "3.1.0",
        "info": {"title": "OPX Knowledge", "version": f"{API_VERSION}.0.0", "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": {**{name: one for name, one in named.items() if name not in requests}, "Error": _ERROR},
            "responses": {
                f"Error{status}": {"description": about, "content": error} for status, about in _ERRORS.items()
            },
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


_SECURITY_SCHEMES: Json = {
    "role": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "AWS Signature Version 4 for the service execute-api, where the API is deployed with IAM.",
        "x-amazon-apigateway-authtype": "awsSigv4",
    },
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token of the configured issuer and audience, where the API is deployed with tokens.",
    },
}


def _takes_others(request: type[Request]) -> bool:
    """True if a request keeps fields of unknown names."""
    return bool(getattr(request, "unknown_fields", ""))


def _http_operation(operation: Operation[Any, Any], named: Json, reply: Json) -> Json:
    route = operation.route
    assert route is not None
    properties: Json = dict(_request_schema(operation.request, named)["properties"])
    required = [one.json_name for one in fields_of(operation.request) if one.required]
    in_path = [_parameter(name, properties.pop(name, _KNOWLEDGE_BASE), "path", True) for name in route.path_names]
    if route.takes_body:
        rest = {"type": "object", "properties": properties, "additionalProperties": _takes_others(operation.request)}
        if needed := [name for name in required if name in properties]:
            rest["required"] = needed
        body: Json = {"requestBody": {"required": True, "content": _accepted(operation, rest, named)}}
        parameters = in_path
    else:
        body = {}
        parameters = in_path + [_parameter(name, one, "query", name in required) for name, one in properties.items()]
    return {
        "operationId": re.sub("_([a-z])", lambda match: match[1].upper(), operation.name),
        "summary": operation.doc,
        **({"parameters": parameters} if parameters else {}),
        **body,
        "responses": {
            str(route.status): {"description": "Done.", "content": _content(reply)},
            **{status: {"$ref": f"#/components/responses/Error{status}"} for status in _ERRORS},
        },
        "security": _security(operation),
    }


_KNOWLEDGE_BASE: Json = {"type": "string", "maxLength": 100, "description": "The environment's name, or `default`."}


def _security(operation: Operation[Any, Any]) -> list[Json]:
    scopes = scopes_for(operation.actions)
    return [{"role": []}, *({"token": [scope]} for scope in scopes)] if scopes else [{"role": []}, {"token": []}]


def _request_schema(kind: type[Any], named: Json) -> Json:
    found: Json = _without_null(without_references({"$ref": _REFERENCE.format(name=kind.__name__)}, named))
    return found


_NULL: Json = {"type": "null"}


def _other_kinds(schema: Json) -> tuple[list[Json], Json]:
    """Types of a value besides null, and the rest of the schema, without null as default."""
    rest = {key: value for key, value in schema.items() if key != "anyOf" and (key, value) != ("default", None)}
    return [one for one in schema["anyOf"] if one != _NULL], rest


def _without_null(schema: Any) -> Any:
    """A schema without null as a type of optional fields: the description of the API states once that they may be null."""
    if isinstance(schema, list):
        return [_without_null(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if _NULL in schema.get("anyOf", ()):
        others, rest = _other_kinds(schema)
        return _without_null({**others[0], **rest} if len(others) == 1 else {**rest, "anyOf": others})
    return {key: _without_null(value) for key, value in schema.items()}


def _parameter(name: str, schema: Json, location: str, required: bool) -> Json:
    rest = {**schema}
    about = rest.pop("description", "")
    return {"name": name, "in": location, "required": required, "description": about, "schema": rest}


def _accepted(operation: Operation[Any, Any], body: Json, named: Json) -> Json:
    """Schemas of a body by media type."""
    found = _content(body)
    form = operation.route.form if operation.route else None
    if form is None:
        return found
    files = {
        "type": "array",
        "items": {"type": "string", "contentMediaType": "application/octet-stream"},
        "minItems": 1,
        "description": "A file with its name, whose extension determines the format; may be repeated.",
    }
    fields = _request_schema(form, named)
    schema = {**fields, "properties": {FILE_FIELD: files, **fields["properties"]}, "required": [FILE_FIELD]}
    return {**found, MEDIA_TYPE: {"schema": schema}}


def _content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


# -- tools


def input_schema(operation: Operation[Any, Any], *, objects: bool = False) -> Json:
    """The JSON Schema of a tool's arguments, with all limits. With `objects`, arguments that may also be objects are declared
    so; Bedrock's action groups support none."""
    properties = {one.name: _argument(one) for one in fields_of(operation.request)}
    for one in fields_of(operation.request) if objects else ():
        if _may_be_object(one):
            properties[one.name]["type"] = ["string", "object"]
    required = _required(operation)
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),  # OpenAPI 3.0 allows no empty list
        "additionalProperties": False,
    }


def _may_be_object(field: FieldFacts) -> bool:
    return isinstance(field.kind, inspect.UnionType) and any(
        isinstance(one, inspect.DictType) for one in field.kind.types
    )


def _argument(field: FieldFacts) -> Json:
    schema = _typed(field)
    kind: Any = field.kind
    if isinstance(kind, inspect.UnionType):
        kind = next((one for one in kind.types if isinstance(one, inspect.StrType)), kind)
    if field.choices:
        schema["enum"] = list(field.choices)
    elif isinstance(kind, inspect.StrType):
        bounds = {"minLength": kind.min_length or 0, "maxLength": kind.max_length}
        schema |= {name: bound for name, bound in bounds.items() if bound is not None}
    elif isinstance(kind, inspect.IntType):
        schema |= {name: bound for name, bound in (("minimum", kind.ge), ("maximum", kind.le)) if bound is not None}
    if not field.required and field.default is not None:
        schema["default"] = json.loads(msgspec.json.encode(field.default))
    return schema


def _typed(field: FieldFacts) -> Json:
    return {"type": json_type(field), "description": description(field)}


def json_type(field: FieldFacts) -> str:
    """The JSON type of a tool's argument."""
    names = {"IntType": "integer", "FloatType": "number", "BoolType": "boolean"}
    return names.get(type(field.kind).__name__, "string")


def description(field: FieldFacts) -> str:
    """The description of an argument with its limits in words, as not every agent runtime has fields for them."""
    default = field.default if not field.required and field.default not in (None, "") else None
    otherwise = f", {default} if not given" if default is not None else ""
    kind: Any = field.kind
    if field.choices:
        return f"{field.about} One of {', '.join(field.choices)}{otherwise}."
    if isinstance(kind, inspect.IntType) and kind.le is not None:
        return f"{field.about} From {kind.ge} to {kind.le}{otherwise}."
    return f"{field.about} {otherwise.removeprefix(', ').capitalize()}." if otherwise else field.about


def _required(operation: Operation[Any, Any]) -> list[str]:
    return [one.name for one in fields_of(operation.request) if one.required]


def tools_openapi(group: ToolGroup, tools: Tools) -> Json:
    """OpenAPI 3.0.3, for an action group with an API schema: one POST per operation, named like the tool."""
    schemas, named = components([tool.reply for tool in tools])
    return {
        "openapi": "3.0.3",
        "info": {"title": group.title, "version": TOOLS_VERSION, "description": group.description},
        "paths": {
            f"/{tool.name}": {"post": _tool_operation(tool, _in_3_0(schema))}
            for tool, schema in zip(tools, schemas, strict=True)
        },
        "components": {"schemas": {**{name: _in_3_0(one) for name, one in named.items()}, "Error": _ERROR}},
    }


def _tool_operation(operation: Operation[Any, Any], reply: Json) -> Json:
    tool = operation.tool
    assert tool is not None
    failures = {
        "400": "An argument is invalid; the message states what is accepted.",
        **({"403": "Only orchestrators may call this."} if Action.QUERY_PATTERNS in operation.actions else {}),
        "404": "There is no such document or operation.",
        "500": "The call failed; the error was logged.",
        "503": "The knowledge base is unavailable for now.",
    }
    error = {"$ref": "#/components/schemas/Error"}
    return {
        "operationId": operation.name,
        "description": tool.description,
        "requestBody": {"required": True, "content": _content(input_schema(operation))},
        "responses": {
            "200": {"description": "The tool's answer.", "content": _content(reply)},
            **{status: {"description": about, "content": _content(error)} for status, about in failures.items()},
        },
    }


def _in_3_0(schema: Any) -> Any:
    """Converts JSON Schema 2020-12 to OpenAPI 3.0: null is `nullable`, and a reference has no siblings."""
    if isinstance(schema, list):
        return [_in_3_0(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if _NULL in schema.get("anyOf", ()):
        others, rest = _other_kinds(schema)
        only = {"allOf": others} if "$ref" in others[0] else others[0]
        return {**_in_3_0(only if len(others) == 1 else {"anyOf": others}), **_in_3_0(rest), "nullable": True}
    if "$ref" in schema and len(schema) > 1:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return {"allOf": [{"$ref": schema["$ref"]}], **_in_3_0(rest)}
    return {key: _in_3_0(value) for key, value in schema.items()}


def _named(tool: Operation[Any, Any]) -> Json:
    return {"name": tool.name, "description": tool.tool.description if tool.tool else ""}


def functions(tools: Tools) -> Json:
    """The `functionSchema` of an action group with function details, as CreateAgentActionGroup accepts it."""
    return {
        "functions": [
            {
                **_named(one),
                "parameters": {
                    field.name: {**_typed(field), "required": field.required} for field in fields_of(one.request)
                },
            }
            for one in tools
        ]
    }


def gateway(tools: Tools) -> list[Json]:
    """The tool schema of an AgentCore Gateway Lambda target. It has no keywords for limits and defaults: only type,
    description, properties, required and items."""
    return [
        {
            **_named(one),
            "inputSchema": {
                "type": "object",
                "properties": {field.name: _typed(field) for field in fields_of(one.request)},
                "required": _required(one),
            },
        }
        for one in tools
    ]


# -- files


def documents() -> dict[str, str]:
    """The text of each document by its file name."""
    found = {HTTP_FILE: _text(openapi())}
    for group in GROUPS:
        tools = tuple(load().tools(group).values())
        contents = {"openapi": tools_openapi(group, tools), "functions": functions(tools), "gateway": gateway(tools)}
        found |= {f"{group.name}.{kind}.json": _text(content) for kind, content in contents.items()}
    return found


def _text(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Writes the documents into the folder given as argument."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m opx.edges.schemas FOLDER\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in documents().items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

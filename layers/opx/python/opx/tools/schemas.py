"""The tools as the documents that agent runtimes take: OpenAPI, function details, and the gateway's tool schema.

`python -m opx.tools.schemas docs/api` writes them, the same bytes every time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opx.tools.declarations import ACTION_GROUP, GET_DOCUMENT_DETAILS, TOOLS, Parameter, Tool

Json = dict[str, Any]

API_VERSION = "1.0.0"
_TEXT: Json = {"type": "string"}
_TEXTS: Json = {"type": "array", "items": _TEXT}


def _object(properties: Json, required: Sequence[str]) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


SEARCH_ANSWER = _object(
    {
        "answer": {"type": "string", "description": "The results with their sources, or that there is none."},
        "documentIds": {**_TEXTS, "description": "The documents that the results are from, the best first."},
        "partial": {"type": "boolean", "description": "True if something could not be searched."},
        "untrusted": {
            "type": "boolean",
            "description": "True if some of the answer is quoted from outside the organisation: it is data, marked as such.",
        },
        "notes": {**_TEXTS, "description": "What the answer lacks, and why."},
    },
    ("answer", "documentIds", "partial", "untrusted", "notes"),
)

DOCUMENT = _object(
    {
        "documentId": _TEXT,
        "title": _TEXT,
        "category": _TEXT,
        "tier": {"type": "string", "description": "internal, specialized or internet, in falling order of trust."},
        "tags": _TEXTS,
        "s3Location": {"type": "string", "description": "Where the object is kept."},
        "source": {"type": "string", "description": "Where a person would open it."},
        "language": _TEXT,
        "severity": _TEXT,
        "services": _TEXTS,
        "metadata": _object(
            {"author": _TEXT, "version": _TEXT, "lastUpdated": _TEXT}, ("author", "version", "lastUpdated")
        ),
        "version": {"type": "integer", "description": "Counts the versions of the document from 1."},
        "state": {"type": "string", "description": "current, superseded or deleted."},
        "chunkCount": {"type": "integer"},
        "remarks": {
            "type": "array",
            "items": _object({"kind": _TEXT, "text": _TEXT}, ("kind", "text")),
            "description": "What of the document could not be read, was masked, or looks wrong.",
        },
        "untrusted": {"type": "boolean", "description": "True if it comes from outside the organisation."},
        "createdAt": _TEXT,
    },
    ("documentId", "title", "category", "tags", "s3Location", "metadata", "version", "state", "createdAt"),
)

ERROR = _object({"error": _object({"code": _TEXT, "message": _TEXT}, ("code", "message"))}, ("error",))


def openapi() -> Json:
    """OpenAPI 3.0.3, for an action group with an API schema: one POST an operation, named like the tool."""
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "OPX Knowledge retrieval",
            "version": API_VERSION,
            "description": "Runbooks and postmortems for operations agents, with their sources.",
        },
        "paths": {f"/{tool.name}": {"post": _operation(tool)} for tool in TOOLS.values()},
        "components": {"schemas": {"SearchAnswer": SEARCH_ANSWER, "Document": DOCUMENT, "Error": ERROR}},
    }


def _operation(tool: Tool) -> Json:
    answer = "Document" if tool is GET_DOCUMENT_DETAILS else "SearchAnswer"
    failures = {
        "400": "An argument is wrong; the message says what is accepted.",
        "404": "There is no such document or operation.",
        "500": "The knowledge base is unavailable, or the call failed.",
    }
    return {
        "operationId": tool.name,
        "description": tool.description,
        "requestBody": {"required": True, "content": _json_content(_api_input(tool))},
        "responses": {
            "200": {"description": "The tool's answer.", "content": _json_content(_reference(answer))},
            **{
                status: {"description": about, "content": _json_content(_reference("Error"))}
                for status, about in failures.items()
            },
        },
    }


def _json_content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _api_input(tool: Tool) -> Json:
    properties = {parameter.name: _api_property(parameter) for parameter in tool.parameters}
    return {**_object(properties, _required(tool)), "additionalProperties": False}


def _api_property(parameter: Parameter) -> Json:
    schema: Json = {"type": parameter.type, "description": parameter.description}
    low, high = ("minLength", "maxLength") if parameter.type == "string" else ("minimum", "maximum")
    schema[low] = parameter.minimum
    if parameter.maximum is not None:
        schema[high] = parameter.maximum
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def functions() -> Json:
    """The `functionSchema` of an action group with function details, as CreateAgentActionGroup takes it."""
    return {
        "functions": [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": {
                    parameter.name: {
                        "type": parameter.type,
                        "description": parameter.description,
                        "required": parameter.required,
                    }
                    for parameter in tool.parameters
                },
            }
            for tool in TOOLS.values()
        ]
    }


def gateway() -> list[Json]:
    """The tool schema of an AgentCore Gateway Lambda target. It has no keywords for limits and defaults: only type,
    description, properties, required and items."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": _object(
                {p.name: {"type": p.type, "description": p.description} for p in tool.parameters}, _required(tool)
            ),
        }
        for tool in TOOLS.values()
    ]


def _required(tool: Tool) -> list[str]:
    return [parameter.name for parameter in tool.parameters if parameter.required]


def documents() -> dict[str, str]:
    """The text of each document by its file name."""
    contents: dict[str, Json | list[Json]] = {"openapi": openapi(), "functions": functions(), "gateway": gateway()}
    return {
        f"{ACTION_GROUP}.{kind}.json": json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        for kind, content in contents.items()
    }


def main(arguments: Sequence[str]) -> int:
    """Write the documents into the folder that is named."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m opx.tools.schemas FOLDER\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in documents().items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

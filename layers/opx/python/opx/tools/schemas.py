"""The tools as the documents that agent runtimes take: OpenAPI, function details, and the gateway's tool schema.

`python -m opx.tools.schemas docs/api` writes them, the same bytes every time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from opx.tools.answer_schemas import DOCS_ANSWER, DOCUMENT, ERROR, RESEARCH, SEARCH_ANSWER, Json, object_of
from opx.tools.declarations import Parameter, Tool, ToolGroup
from opx.tools.graph_schemas import RELATED, RELATION
from opx.tools.groups import GROUPS
from opx.tools.learning_schemas import CONTEXT, ENTRY, OUTCOME, PATTERNS

API_VERSION = "1.1.0"

ANSWERS: dict[str, tuple[str, Json]] = {
    "search_runbooks": ("SearchAnswer", SEARCH_ANSWER),
    "search_postmortems": ("SearchAnswer", SEARCH_ANSWER),
    "get_document_details": ("Document", DOCUMENT),
    "search_docs": ("DocsAnswer", DOCS_ANSWER),
    "research_topic": ("Research", RESEARCH),
    "find_related": ("Related", RELATED),
    "explain_relation": ("Relation", RELATION),
    "capture_failure_solution": ("Entry", ENTRY),
    "verify_solution": ("Entry", ENTRY),
    "capture_gate_rejection": ("Entry", ENTRY),
    "capture_gate_approval": ("Entry", ENTRY),
    "capture_warning": ("Entry", ENTRY),
    "report_outcome": ("Outcome", OUTCOME),
    "query_for_task": ("Patterns", PATTERNS),
    "query_for_failure": ("Patterns", PATTERNS),
    "build_context_for_task": ("Context", CONTEXT),
}
"""What each tool answers: the schema's name and the schema."""


def openapi(group: ToolGroup) -> Json:
    """OpenAPI 3.0.3, for an action group with an API schema: one POST an operation, named like the tool."""
    answers = dict(ANSWERS[tool.name] for tool in group.tools)
    return {
        "openapi": "3.0.3",
        "info": {"title": group.title, "version": API_VERSION, "description": group.description},
        "paths": {f"/{tool.name}": {"post": _operation(tool)} for tool in group.tools},
        "components": {"schemas": {**answers, "Error": ERROR}},
    }


def _operation(tool: Tool) -> Json:
    answer, _ = ANSWERS[tool.name]
    failures = {
        "400": "An argument is wrong; the message says what is accepted.",
        **({"403": "Only orchestrators may ask."} if "orchestrators" in tool.description else {}),
        "404": "There is no such document or operation.",
        "500": "The knowledge base is unavailable, or the call failed.",
    }
    return {
        "operationId": tool.name,
        "description": tool.description,
        "requestBody": {"required": True, "content": _json_content(input_schema(tool))},
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


def input_schema(tool: Tool) -> Json:
    """The JSON Schema of a tool's arguments, with every limit that there is."""
    properties = {parameter.name: _api_property(parameter) for parameter in tool.parameters}
    return {**object_of(properties, _required(tool)), "additionalProperties": False}


def _api_property(parameter: Parameter) -> Json:
    schema: Json = {"type": parameter.type, "description": parameter.description, **_bounds(parameter)}
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def _bounds(parameter: Parameter) -> Json:
    if parameter.type == "number" or parameter.choices:
        return {}
    low, high = ("minLength", "maxLength") if parameter.type == "string" else ("minimum", "maximum")
    least = parameter.minimum if parameter.required or parameter.type != "string" else 0
    return {low: least, **({} if parameter.maximum is None else {high: parameter.maximum})}


def functions(group: ToolGroup) -> Json:
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
            for tool in group.tools
        ]
    }


def gateway(group: ToolGroup) -> list[Json]:
    """The tool schema of an AgentCore Gateway Lambda target. It has no keywords for limits and defaults: only type,
    description, properties, required and items."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": object_of(
                {p.name: {"type": p.type, "description": p.description} for p in tool.parameters}, _required(tool)
            ),
        }
        for tool in group.tools
    ]


def _required(tool: Tool) -> list[str]:
    return [parameter.name for parameter in tool.parameters if parameter.required]


def documents() -> dict[str, str]:
    """The text of each document by its file name: for each group its OpenAPI, function details and tool schema."""
    found = {}
    for group in GROUPS:
        contents: dict[str, Json | list[Json]] = {
            "openapi": openapi(group),
            "functions": functions(group),
            "gateway": gateway(group),
        }
        for kind, content in contents.items():
            found[f"{group.name}.{kind}.json"] = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return found


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

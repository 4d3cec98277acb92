"""Tools as plain objects for agent frameworks: a name, a description, a schema, and a call that answers with text.

Strands, LangChain and others take such an object as it is, or with a line that names these fields.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from opx.domain.scopes import Identity
from opx.tools.answer_schemas import Json
from opx.tools.declarations import Parameter, Tool
from opx.tools.failures import Failure, attempt
from opx.tools.knowledge_group import RESEARCH_TOPIC, SEARCH_DOCS
from opx.tools.knowledge_tools import Knowledge, KnowledgeTools
from opx.tools.replies import Reply
from opx.tools.runtimes import Toolbox
from opx.tools.schemas import input_schema


@dataclass(frozen=True, slots=True)
class CallableTool:
    """One tool of one identity."""

    tool: Tool
    toolbox: Toolbox

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def __name__(self) -> str:
        """What frameworks call a function by."""
        return self.tool.name

    @property
    def __signature__(self) -> inspect.Signature:
        """For frameworks that look at a function's parameters in place of a schema."""
        return inspect.Signature([_parameter(each) for each in self.tool.parameters], return_annotation=str)

    @property
    def description(self) -> str:
        return self.tool.description

    @property
    def input_schema(self) -> Json:
        """The JSON Schema of the arguments."""
        return input_schema(self.tool)

    def __call__(self, **arguments: Any) -> str:
        """The answer as text. Never raises: an agent that did something wrong is told so."""
        return attempt(lambda: self._reply(arguments).text(), lambda _, message: f"Error: {message}")

    def result(self, **arguments: Any) -> Json:
        """The answer as JSON, or `{"error": {"code", "message"}}`. Never raises."""

        def failed(failure: Failure, message: str) -> Json:
            return {"error": {"code": failure.code, "message": message}}

        return attempt(lambda: self._reply(arguments).to_json(), failed)

    def _reply(self, arguments: dict[str, Any]) -> Reply:
        return self.toolbox.call(self.tool, list(arguments.items()))


def _parameter(declared: Parameter) -> inspect.Parameter:
    default = inspect.Parameter.empty if declared.required else declared.default
    kind = {"integer": int, "number": float}.get(declared.type, str)
    return inspect.Parameter(declared.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def create_search_docs_tool(services: Knowledge, identity: Identity | None = None) -> CallableTool:
    """Searches what the identity may see; without one, what is global."""
    return CallableTool(SEARCH_DOCS, KnowledgeTools(services, identity or Identity()))


def create_research_topic_tool(services: Knowledge, identity: Identity | None = None) -> CallableTool:
    """Researches within what the identity may see; without one, within what is global."""
    return CallableTool(RESEARCH_TOPIC, KnowledgeTools(services, identity or Identity()))

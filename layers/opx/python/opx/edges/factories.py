"""Provides tools as plain objects for agent frameworks: a name, a description, a schema, and a call that returns text.

Strands, LangChain and others accept such an object as it is, or with a line that names these fields.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import msgspec

from opx.domain.record import Json
from opx.domain.requests import FieldFacts, fields_of
from opx.edges.calling import plain, text_of
from opx.edges.failures import attempt
from opx.edges.schemas import input_schema, json_type
from opx.edges.tools import call_tool
from opx.operations.context import Context
from opx.operations.registry import Operation


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A tool bound to one identity."""

    operation: Operation[Any, Any]
    context: Context

    @property
    def name(self) -> str:
        return self.operation.name

    @property
    def __name__(self) -> str:
        """The name by which frameworks call a function."""
        return self.operation.name

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature for frameworks that inspect parameters instead of a schema."""
        fields = fields_of(self.operation.request)
        return inspect.Signature([_parameter(each) for each in fields], return_annotation=str)

    @property
    def description(self) -> str:
        return self.operation.tool.description if self.operation.tool else self.operation.doc

    @property
    def input_schema(self) -> Json:
        """The JSON Schema of the arguments."""
        return input_schema(self.operation)

    def __call__(self, **arguments: Any) -> str:
        """The answer as text. Never raises: an error is returned as its message."""
        return attempt(
            lambda: text_of(self._reply(arguments)), lambda _, error: f"Error: {error['message']}", self.operation.name
        )

    def result(self, **arguments: Any) -> Json:
        """The answer as JSON, or `{"error": {"code", "message"}}`. Never raises."""
        return attempt(
            lambda: dict(plain(self._reply(arguments))), lambda _, error: {"error": error}, self.operation.name
        )

    def _reply(self, arguments: dict[str, Any]) -> Any:
        return call_tool(self.operation, self.context, arguments.items())


def _parameter(declared: FieldFacts) -> inspect.Parameter:
    default = inspect.Parameter.empty if declared.required else msgspec.to_builtins(declared.default)
    kind = {"integer": int, "number": float}.get(json_type(declared), str)
    return inspect.Parameter(declared.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

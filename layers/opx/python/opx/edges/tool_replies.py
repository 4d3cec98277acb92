"""Calls tools for the Model Context Protocol, independently of its SDK: replies as text with a structured result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from opx.edges.calling import plain, text_of
from opx.edges.failures import attempt
from opx.edges.tools import call_tool
from opx.operations.context import Context
from opx.operations.registry import Operation
from opx.runtime.deadlines import deadline

CALL_SECONDS = 50.0
"""Clients wait for 60 s by default (MCP TypeScript SDK: `DEFAULT_REQUEST_TIMEOUT_MSEC`)."""

IN_TEXT = ("answer", "content")
"""Fields whose value is in the text of a reply: the structured result leaves them out."""


class ToolReply(Struct, frozen=True):
    """The text of a reply, and its JSON without what the text has; or the message of a failure."""

    text: str
    structured: Any = None
    failed: bool = False


RunTool = Callable[[Operation[Any, Any], Context, Mapping[str, Any]], ToolReply]
"""Calls a tool with arguments. Never raises."""


def called_here(operation: Operation[Any, Any], context: Context, arguments: Mapping[str, Any]) -> ToolReply:
    """Calls the tool in this process. Never raises."""

    def work() -> ToolReply:
        with deadline(CALL_SECONDS):
            reply = call_tool(operation, context, arguments.items())
        text = text_of(reply)
        return ToolReply(text, _structured(plain(reply), text))

    return attempt(work, lambda _, error: ToolReply(str(error["message"]), failed=True), operation.name)


def _structured(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        return {name: _structured(one, text) for name, one in value.items() if not _is_in_text(name, one, text)}
    return [_structured(one, text) for one in value] if isinstance(value, list) else value


def _is_in_text(name: str, value: object, text: str) -> bool:
    return name in IN_TEXT and isinstance(value, str) and value.strip() in text

"""Calls tools for the Model Context Protocol, independently of its SDK: replies as text with a structured result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from opx.edges.calling import plain, text_of
from opx.edges.failures import attempt
from opx.edges.tools import call_tool
from opx.operations.context import Context
from opx.operations.registry import Operation, is_agent_reply
from opx.runtime.deadlines import deadline

CALL_SECONDS = 50.0
"""Clients wait for 60 s by default (MCP TypeScript SDK: `DEFAULT_REQUEST_TIMEOUT_MSEC`)."""

FACTS = (
    *("documentId", "receiptId", "patternId", "entryId", "outcomeId", "gapId"),
    *("band", "state", "counted", "partial", "untrusted"),
)
"""Fields of a reply that programs use. The structured result has them beside the text, which states everything else."""


class ToolReply(Struct, frozen=True):
    """The text of a reply, and its structured result, which has the whole text again; or the message of a failure."""

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
        text, found = text_of(reply), plain(reply)
        return ToolReply(text, {"answer": text, **_facts(found, text)} if is_agent_reply(reply) else found)

    return attempt(work, lambda _, error: ToolReply(str(error["message"]), failed=True), operation.name)


def _facts(value: Any, text: str) -> Any:
    """The facts of a reply where its JSON has them, without empty ones, and without items of lists that the text doesn't
    name by an id."""
    if isinstance(value, list):
        return [one for one in (_facts(item, text) for item in value) if _is_named(one, text)]
    if not isinstance(value, dict):
        return None
    found = {name: one if name in FACTS else _facts(one, text) for name, one in value.items()}
    return {name: one for name, one in found.items() if one}


def _is_named(facts: Any, text: str) -> bool:
    return any(name.endswith("Id") and str(one) in text for name, one in (facts or {}).items())

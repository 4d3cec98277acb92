"""A call of a tool, done by the object that has a method of its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from opx.errors import InvalidInputError, InvalidScopeError
from opx.tools.declarations import ArgumentError, Tool

if TYPE_CHECKING:
    from opx.tools.replies import Reply


def called(tools: object, tool: Tool, given: Iterable[tuple[str, object]]) -> Reply:
    """Do what a tool does. Raises `ArgumentError` for arguments that are not as declared, or that the method refuses."""
    arguments = tool.arguments(given)
    try:
        reply: Reply = getattr(tools, tool.name)(**arguments)
    except (ArgumentError, InvalidScopeError):
        raise
    except InvalidInputError as exc:
        raise ArgumentError(str(exc)) from exc
    return reply

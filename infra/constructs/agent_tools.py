"""The tools that an agent is offered, with the function that does each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opx.edges.tools import granted
from opx.operations.grants import ToolGrants, read_grants
from opx.operations.registry import GROUPS, Operation, ToolGroup


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a group that the agent may use, and the function to call for them."""

    group: ToolGroup
    tools: tuple[Operation[Any, Any], ...]
    function_arn: str


def offers(functions: Mapping[str, str], agent: str = "") -> list[Offer]:
    """The tools that the section `agents` of knowledge.yaml lets the agent use, as the functions will let it too.

    `functions` are ARNs by group. Without a name of its own, what calls goes by the group's: so does a gateway, whose
    target is all that tells it.
    """
    grants = tool_grants()
    found = []
    for group in GROUPS:
        allowed = granted(group, grants.allowed(agent or group.name))
        if allowed and group.name in functions:
            found.append(Offer(group, tuple(allowed.values()), functions[group.name]))
    return found


def tool_grants() -> ToolGrants:
    """As the deployment's knowledge.yaml has them."""
    return read_grants()

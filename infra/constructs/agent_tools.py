"""The tools that are offered to an agent, with the function behind each group."""

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
    """The tools granted to the agent by the section `agents` of knowledge.yaml; the functions check the same grants.

    `functions` are ARNs by group. Without a name of its own, a caller has the group's name, as a gateway does, which is
    identified only by its target.
    """
    grants = tool_grants()
    found = []
    for group in GROUPS:
        allowed = granted(group, grants.allowed(agent or group.name))
        if allowed and group.name in functions:
            found.append(Offer(group, tuple(allowed.values()), functions[group.name]))
    return found


def tool_grants() -> ToolGrants:
    """The grants of the deployment's knowledge.yaml."""
    return read_grants()

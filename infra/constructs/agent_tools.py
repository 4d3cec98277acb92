"""What an agent is offered: the groups of tools that it may use, with the function that does each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opx.tools.declarations import ToolGroup
from opx.tools.grants import ToolGrants, read_grants
from opx.tools.groups import GROUPS


@dataclass(frozen=True, slots=True)
class Offer:
    """A group with those of its tools that the agent may use, and what is to be called for them."""

    group: ToolGroup
    function_arn: str


def offers(functions: Mapping[str, str], agent: str = "") -> list[Offer]:
    """What the section `agents` of knowledge.yaml lets the agent use, as the functions will let it too.

    `functions` are ARNs by group. Without a name of its own, what calls goes by the group's: so does a gateway, whose
    target is all that tells it.
    """
    grants = tool_grants()
    found = []
    for group in GROUPS:
        allowed = group.only(grants.allowed(agent or group.name))
        if allowed.tools and group.name in functions:
            found.append(Offer(allowed, functions[group.name]))
    return found


def tool_grants() -> ToolGrants:
    """As the deployment's knowledge.yaml has them."""
    return read_grants()

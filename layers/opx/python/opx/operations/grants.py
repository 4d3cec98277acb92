"""Which agent may use which tools: section `agents` of `knowledge.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opx.knowledge_file import read_section
from opx.marked_yaml import Marked
from opx.operations import load
from opx.operations.registry import MAX_TOOLS, ToolGroup

SECTION = "agents"
DEFAULT = "default"
"""The key of what agents may use that aren't listed."""


def for_all() -> frozenset[str]:
    """The tools that an agent may use unless the section says otherwise: all but those that need opting in."""
    return frozenset(name for name, one in load().tools().items() if one.tool and not one.tool.opt_in)


@dataclass(frozen=True, slots=True)
class ToolGrants:
    """Names of tools, by the agent that may use them; `default` for all other agents."""

    default: frozenset[str] = field(default_factory=for_all)
    agents: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def allowed(self, agent: str) -> frozenset[str]:
        """What the agent may use; an empty name is an agent that isn't listed."""
        return self.agents.get(agent, self.default)

    def anyone_may(self, *tools: str) -> bool:
        """Whether some agent may use one of the tools."""
        return not self.default.union(*self.agents.values()).isdisjoint(tools)

    def anyone_may_use(self, group: ToolGroup) -> bool:
        """Whether some agent may use some tool of the group."""
        return self.anyone_may(*load().tools(group))


def read_grants(path: Path | None = None) -> ToolGrants:
    """What the file says. Without a default, others may use all tools but those that need opting in.

    Raises `KnowledgeConfigError` with file and line.
    """
    section = read_section(SECTION, path)
    if section is None:
        return ToolGrants()
    listed = {agent: _tools(entry) for agent, entry in section.entries().items()}
    default = listed.pop(DEFAULT) if DEFAULT in listed else for_all()
    return ToolGrants(default, listed)


def _tools(entry: Marked) -> frozenset[str]:
    found = frozenset(_tool(item) for item in entry.items())
    if len(found) > MAX_TOOLS:
        raise entry.error(
            f"an agent may use at most {MAX_TOOLS} tools, not {len(found)}: leave out what it needs least"
        )
    return found


def _tool(item: Marked) -> str:
    name = item.text()
    tools = load().tools()
    if name not in tools:
        raise item.error(f"unknown tool {name!r}; there are: {', '.join(tools)}")
    return name

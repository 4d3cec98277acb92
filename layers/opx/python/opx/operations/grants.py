"""Grants of tools to agents: section `agents` of `knowledge.yaml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from opx.errors import MissingDistributionError, distribution_of
from opx.operations import load, of_tool
from opx.operations.registry import MAX_TOOLS, ToolGroup
from opx.runtime.knowledge_file import Marked, read_section

SECTION = "agents"
DEFAULT = "default"
"""The key of the tools of agents that aren't listed."""


class ForAll(Set[str]):
    """The tools that an agent may use by default: all but opt-in ones. A lookup imports only the modules that may declare
    the tool."""

    def __contains__(self, name: object) -> bool:
        found = of_tool(name) if isinstance(name, str) else None
        return found is not None and found.is_for_all

    def __iter__(self) -> Iterator[str]:
        return (name for name, one in load().tools().items() if one.is_for_all)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, slots=True)
class ToolGrants:
    """Names of granted tools by agent; `default` for all other agents."""

    default: Set[str] = field(default_factory=ForAll)
    agents: Mapping[str, Set[str]] = field(default_factory=dict)

    def allowed(self, agent: str) -> Set[str]:
        """The tools that the agent may use; an empty name means an agent that isn't listed."""
        return self.agents.get(agent, self.default)

    def anyone_may(self, *tools: str) -> bool:
        """True if some agent may use one of the tools."""
        return any(not allowed.isdisjoint(tools) for allowed in (self.default, *self.agents.values()))

    def anyone_may_use(self, group: ToolGroup) -> bool:
        """True if some agent may use some tool of the group."""
        return self.anyone_may(*load().tools(group))


def read_grants(path: Path | None = None) -> ToolGrants:
    """Reads the grants. Without a default, other agents may use all tools but opt-in ones.

    Raises `KnowledgeConfigError` with file and line.
    """
    section = read_section(SECTION, path)
    if section is None:
        return ToolGrants()
    listed: dict[str, Set[str]] = {agent: _tools(entry) for agent, entry in section.entries().items()}
    return ToolGrants(listed.pop(DEFAULT, ForAll()), listed)


def _tools(entry: Marked) -> frozenset[str]:
    found = frozenset(_tool(item) for item in entry.items())
    if len(found) > MAX_TOOLS:
        raise entry.error(
            f"an agent may use at most {MAX_TOOLS} tools, not {len(found)}: leave out what it needs least"
        )
    return found


def _tool(item: Marked) -> str:
    name = item.text()
    if of_tool(name) is None:
        if distribution_of("tool", name):
            raise item.error(str(MissingDistributionError("tool", name)))
        raise item.error(f"unknown tool {name!r}; there are: {', '.join(load().tools())}")
    return name

"""Who shares what was learned, and who may ask for it: section `learning` of `knowledge.yaml`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from opx.domain.scopes import Scope
from opx.runtime.knowledge_file import read_section

SECTION = "learning"


class Share(StrEnum):
    """How far what a project taught is told."""

    CLIENT = "client"
    GROUP = "group"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class LearningRules:
    """What is shared with whom, and the names of those who may ask for patterns."""

    share: Share = Share.CLIENT
    orchestrators: frozenset[str] = frozenset()

    def shared(self, scope: Scope, group_of: Callable[[str, str], str]) -> Scope:
        """The scope in which is kept what an entry of `scope` teaches: never one of another client.

        `group_of(client, project)` names the project's group. A project without one keeps to itself what it would share
        with its group.
        """
        if not scope.project_id or self.share is Share.PROJECT:
            return scope
        if self.share is Share.CLIENT:
            return Scope(scope.client_id)
        group = group_of(scope.client_id, scope.project_id)
        return Scope(scope.client_id, group_id=group) if group else scope


def read_learning_rules(path: Path | None = None) -> LearningRules:
    """What the file says; shared with the client, and nobody may ask, if it says nothing.

    Raises `KnowledgeConfigError` with file and line.
    """
    section = read_section(SECTION, path)
    if section is None:
        return LearningRules()
    fields = section.fields(optional=("share", "orchestrators"))
    share = fields["share"].text() if "share" in fields else Share.CLIENT.value
    if share not in tuple(Share):
        raise fields["share"].error(f"unknown share {share!r}; allowed: {', '.join(Share)}")
    names = fields["orchestrators"].items() if "orchestrators" in fields else []
    return LearningRules(Share(share), frozenset(name.text() for name in names))

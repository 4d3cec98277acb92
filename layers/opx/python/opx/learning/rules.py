"""Rules for sharing patterns and for querying them: section `learning` of `knowledge.yaml`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from opx.domain.scopes import Identity, Scope
from opx.errors import NotOrchestratorError
from opx.runtime.knowledge_file import read_section

SECTION = "learning"


class Share(StrEnum):
    """Scope in which the patterns of a project are shared."""

    CLIENT = "client"
    GROUP = "group"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class LearningRules:
    """The scope of sharing, and the names of the principals that may query patterns."""

    share: Share = Share.CLIENT
    orchestrators: frozenset[str] = frozenset()

    def shared(self, scope: Scope, group_of: Callable[[str, str], str]) -> Scope:
        """The scope in which patterns of entries of `scope` are stored: never one of another client.

        `group_of(client, project)` names the project's group. A project without one keeps the patterns that it
        would share with its group.
        """
        if not scope.project_id or self.share is Share.PROJECT:
            return scope
        if self.share is Share.CLIENT:
            return Scope(scope.client_id)
        group = group_of(scope.client_id, scope.project_id)
        return Scope(scope.client_id, group_id=group) if group else scope


def read_learning_rules(path: Path | None = None) -> LearningRules:
    """Reads the section; without it, patterns are shared with the client, and no principal may query them.

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


# -- orchestrators


_ROLE = re.compile(r"arn:[\w-]+:(?:iam|sts)::\d*:(?:assumed-role|role)/(?P<path>.+)\Z", re.ASCII)


def check_orchestrator(rules: LearningRules, identity: Identity) -> None:
    """Raises `NotOrchestratorError` unless the identity's principal is one of the named orchestrators.

    A name is compared as it is; that of a role in AWS also stands for each of its sessions.
    """
    if rules.orchestrators.isdisjoint(_names(identity.principal)):
        raise NotOrchestratorError(
            f"{identity.principal[:100] or 'a caller without a name'} is no orchestrator, and only orchestrators may query "
            "patterns: name it in knowledge.yaml under `learning: {orchestrators: [...]}`"
        )


def _names(principal: str) -> set[str]:
    """Names of a principal: itself, and the role that an ARN names."""
    names = {principal} - {""}
    role = _ROLE.match(principal)
    if role:
        session_of = principal.split(":")[2] == "sts"
        path = role["path"].split("/")
        names.add(path[0] if session_of else path[-1])
    return names

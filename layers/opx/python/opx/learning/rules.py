"""Rules for sharing patterns and for querying them: section `learning` of `knowledge.yaml`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from opx.domain.knowledge import PATTERNS_CATEGORY
from opx.domain.policy import Action, Principal, Role, authorize
from opx.domain.scopes import Identity, Scope
from opx.runtime.knowledge_file import Marked, read_section

SECTION = "learning"
C = TypeVar("C", bound=StrEnum)


class Share(StrEnum):
    """Scope in which the patterns of a project are shared."""

    CLIENT = "client"
    GROUP = "group"
    PROJECT = "project"


class Audience(StrEnum):
    """Callers whose searches find patterns among other documents."""

    PEOPLE = "people"
    EVERYONE = "everyone"


class LearningRules(Struct, frozen=True):
    """The scope of sharing, the names of the principals that may query patterns, and whose searches find them."""

    share: Share = Share.CLIENT
    orchestrators: frozenset[str] = frozenset()
    search: Audience = Audience.PEOPLE

    @property
    def hidden_from_agents(self) -> frozenset[str]:
        """Categories that searches by agents' tools leave out: agents get patterns from their orchestrator."""
        return frozenset() if self.search is Audience.EVERYONE else frozenset({PATTERNS_CATEGORY})

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
    fields = section.fields(optional=("share", "orchestrators", "search"))
    share, search = _choice(fields, "share", Share.CLIENT), _choice(fields, "search", Audience.PEOPLE)
    names = fields["orchestrators"].items() if "orchestrators" in fields else []
    return LearningRules(share, frozenset(name.text() for name in names), search)


def _choice(fields: Mapping[str, Marked], name: str, default: C) -> C:
    """The value of a field with a list of values. Raises `KnowledgeConfigError`."""
    if name not in fields:
        return default
    given, kind = fields[name].text(), type(default)
    if given not in tuple(kind):
        raise fields[name].error(f"unknown {name} {given!r}; allowed: {', '.join(kind)}")
    return kind(given)


# -- orchestrators


_ROLE = re.compile(r"arn:[\w-]+:(?:iam|sts)::\d*:(?:assumed-role|role)/(?P<path>.+)\Z", re.ASCII)


def is_orchestrator(rules: LearningRules, principal: str) -> bool:
    """True if the principal is one of the named orchestrators. A name is compared as it is; that of a role in AWS also stands
    for each of its sessions."""
    return not rules.orchestrators.isdisjoint(_names(principal))


def check_orchestrator(rules: LearningRules, identity: Identity) -> None:
    """Raises `NotOrchestratorError` unless the policy permits an identity without a token to query patterns."""
    named = {Role.ORCHESTRATOR} if is_orchestrator(rules, identity.principal) else set()
    own = Scope(identity.client_id, project_id=identity.project_id)
    principal = Principal(own, frozenset({Role.READER, *named}), name=identity.principal)
    authorize(principal, Action.QUERY_PATTERNS, own)


def _names(principal: str) -> set[str]:
    """Names of a principal: itself, and the role that an ARN names."""
    names = {principal} - {""}
    role = _ROLE.match(principal)
    if role:
        session_of = principal.split(":")[2] == "sts"
        path = role["path"].split("/")
        names.add(path[0] if session_of else path[-1])
    return names

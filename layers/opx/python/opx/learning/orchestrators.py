"""Who may ask for patterns: those who plan work, by the names in section `learning` of `knowledge.yaml`."""

from __future__ import annotations

import re

from opx.domain.scopes import Identity
from opx.errors import NotOrchestratorError
from opx.learning.rules import LearningRules

_ROLE = re.compile(r"arn:[\w-]+:(?:iam|sts)::\d*:(?:assumed-role|role)/(?P<path>.+)\Z", re.ASCII)


def check_orchestrator(rules: LearningRules, identity: Identity) -> None:
    """Raises `NotOrchestratorError` unless the identity's principal is one of the named orchestrators.

    A name is compared as it is; that of a role in AWS also stands for each of its sessions.
    """
    if rules.orchestrators.isdisjoint(_names(identity.principal)):
        raise NotOrchestratorError(
            f"{identity.principal[:100] or 'a caller without a name'} is no orchestrator, and patterns are told to these "
            "alone: name it in knowledge.yaml under `learning: {orchestrators: [...]}`"
        )


def _names(principal: str) -> set[str]:
    """What a principal may be called: as it is, and by the role that an ARN names."""
    names = {principal} - {""}
    role = _ROLE.match(principal)
    if role:
        session_of = principal.split(":")[2] == "sts"
        path = role["path"].split("/")
        names.add(path[0] if session_of else path[-1])
    return names

"""Callers from the claims of verified tokens, alike for the HTTP API and for the agents' gateway."""

from __future__ import annotations

from collections.abc import Mapping

from opx.domain.policy import GROUPS, SCOPES, scopes_of_groups
from opx.domain.scopes import Identity
from opx.errors import ForbiddenError
from opx.operations.context import Caller

CLIENT_CLAIMS = ("opx_client_id", "custom:opxClientId")
PROJECT_CLAIMS = ("opx_project_id", "custom:opxProjectId")
AGENT_CLAIMS = ("opx_agent", "custom:opxAgent")
"""Either spelling: user pools of Cognito put `custom:` before the names of attributes. `AGENT_CLAIMS` name the calling agent
in the grants of tools; only the gateway's callers are agents."""

_SCOPE_CLAIMS = ("scope", "scp")
_SUBJECT_CLAIMS = ("sub", "client_id")


def caller_of_claims(claims: object, groups_claim: str = "") -> Caller:
    """The caller that claims describe. With a `groups_claim`, groups are roles, too: a token has those of its scopes and of
    its groups, and one that has neither isn't even a reader's.

    Raises `ForbiddenError` for a token without a role, and for claims that contradict each other or aren't strings.
    """
    if not isinstance(claims, Mapping):
        raise ForbiddenError("the token has no claims")
    principal = next((claims[name] for name in _SUBJECT_CLAIMS if isinstance(claims.get(name), str)), "")
    identity = Identity(_claim(claims, CLIENT_CLAIMS), _claim(claims, PROJECT_CLAIMS), principal)
    scopes = frozenset(scope for name in _SCOPE_CLAIMS for scope in _scopes(claims.get(name)))
    if groups_claim:
        scopes |= scopes_of_groups(_groups(claims.get(groups_claim)))
        if scopes.isdisjoint(SCOPES):
            raise ForbiddenError(f"you are in none of the groups that give a role here: {', '.join(GROUPS)}")
    return Caller(identity, token_scopes=scopes)


def agent_of_claims(claims: Mapping[str, object]) -> str:
    """The agent that claims name, "" for none. Raises `ForbiddenError` as `caller_of_claims`."""
    return _claim(claims, AGENT_CLAIMS)


def _scopes(claim: object) -> list[str]:
    """Scopes of a claim: a string, or a list, which API Gateway makes a string in brackets."""
    if isinstance(claim, list):
        return [scope for scope in claim if isinstance(scope, str)]
    return claim.strip("[]").replace(",", " ").split() if isinstance(claim, str) else []


def _groups(claim: object) -> list[str]:
    """Groups of a claim: a list, which API Gateway makes a string in brackets, its words separated by spaces."""
    if isinstance(claim, list):
        return [group for group in claim if isinstance(group, str)]
    return claim.strip("[]").split() if isinstance(claim, str) else []


def _claim(claims: Mapping[str, object], names: tuple[str, ...]) -> str:
    values = [claims[name] for name in names if name in claims]
    if not all(isinstance(value, str) and value == values[0] for value in values):
        raise ForbiddenError(f"the token's claims {' and '.join(names)} contradict each other, or are not strings")
    return str(values[0]) if values else ""

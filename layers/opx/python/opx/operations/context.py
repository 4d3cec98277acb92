"""Context of an operation's call: the caller, the system, and progress reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from opx.domain.policy import EVERYTHING, Action, Principal, Role, Target, administrator_of, authorize, decide, roles_of
from opx.domain.record import Json
from opx.domain.scopes import Identity, Reader, Scope
from opx.runtime.metrics import Report, unreported

if TYPE_CHECKING:
    from opx.operations.forms import UploadedFile
    from opx.operations.system import System


Progress = Callable[[str, int], None]
"""Called with the current step of a long operation, and the number of items done, 0 where they aren't counted."""


def unwatched(_step: str, _count: int) -> None:
    """Ignores progress."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller of an operation. `owns_system`: works on the machine itself, and sees every scope. `token_scopes` is None
    without a token: the caller's permissions are then on routes (IAM) or tools (grants). `agent` is the calling agent's
    name in the grants, "" for none."""

    identity: Identity
    owns_system: bool = False
    token_scopes: frozenset[str] | None = None
    agent: str = ""

    @property
    def name(self) -> str:
        """The name by which knowledge.yaml may list it as an orchestrator."""
        return self.agent or self.identity.principal

    def roles(self, own: Scope) -> frozenset[Role]:
        """Its roles in its own scope: the owner's on the machine itself, those of a token's scopes, else the administrator's,
        whose permissions on routes and tools are the limit. Orchestrators are known by name, too (`Context.principal`)."""
        if self.owns_system:
            return frozenset({Role.OWNER})
        return frozenset({administrator_of(own)}) if self.token_scopes is None else roles_of(self.token_scopes, own)


@dataclass(frozen=True)
class Context:
    """A call of an operation. `report` receives its metrics, `progress` the current step of a long one; `files` and
    `form` are those of a request that was sent as a form. With `group_id`, new documents belong to that group of the
    client; for the owner of the machine only."""

    system: System
    caller: Caller
    report: Report = unreported
    progress: Progress = unwatched
    files: tuple[UploadedFile, ...] | None = None
    form: Json | None = None
    group_id: str = ""

    @property
    def identity(self) -> Identity:
        return self.caller.identity

    @property
    def author(self) -> str:
        """The name under which the caller's changes are recorded; "" if unknown."""
        if self.caller.owns_system:
            from opx.runtime.machine import user_of_process

            return self.identity.principal or user_of_process()
        return self.caller.name

    @cached_property
    def reader(self) -> Reader:
        """The scopes that the caller may see. Raises `InvalidScopeError` for a malformed identity."""
        return self.system.corpus.projects.reader(self.identity)

    @cached_property
    def scope(self) -> Scope:
        """The caller's own scope, which owns its new documents. Raises `InvalidScopeError` for a malformed identity."""
        if self.group_id:
            return Scope(self.identity.client_id, group_id=self.group_id)
        return Scope(self.identity.client_id, project_id=self.identity.project_id)

    def principal(self, action: Action) -> Principal:
        """The caller as the policy sees it. Groups are left out: `reader` has them, and no action but reading depends on
        them. The names of orchestrators are looked up only for actions on patterns."""
        roles = self.caller.roles(self.scope)
        if action is Action.QUERY_PATTERNS and self._is_named_orchestrator():
            roles |= {Role.ORCHESTRATOR}
        return Principal(self.scope, roles, name=self.caller.name)

    def authorize(self, action: Action, target: Target | None = None) -> None:
        """Raises `ForbiddenError` or `NotOrchestratorError` unless the caller may do this to the target, by default the usual
        one."""
        authorize(self.principal(action), action, self.usual_target(action) if target is None else target)

    def usual_target(self, action: Action) -> Target:
        """The target of an action whose request names none: the caller's own scope, or what the action always concerns."""
        if action in (Action.WATCH, Action.ADMINISTER):
            return EVERYTHING
        return self.system.installation.scope if action is Action.MANAGE_SOURCES else self.scope

    def may(self, action: Action, target: Target) -> bool:
        """True if the policy permits the caller to do this to the target."""
        return not decide(self.principal(action), action, target)

    def sees_every_scope(self, action: Action) -> bool:
        """True for callers whose lists have the records of all scopes: who may read them, and names no client."""
        return not self.identity.client_id and self.may(action, EVERYTHING)

    def _is_named_orchestrator(self) -> bool:
        from opx.learning.rules import is_orchestrator

        return is_orchestrator(self.system.learning.rules, self.caller.name)

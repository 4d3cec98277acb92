"""Context of an operation's call: the caller, the system, and progress reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

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
    without a token, as permissions are then checked on routes. `agent` is the calling agent's name in the grants, "" for
    none."""

    identity: Identity
    owns_system: bool = False
    token_scopes: frozenset[str] | None = None
    agent: str = ""


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

    @property
    def sees_every_scope(self) -> bool:
        """True for the owner of the machine, who sees the records of all scopes unless a client is named."""
        return self.caller.owns_system and not self.identity.client_id

"""The caller of an operation, and the system that it is called on."""

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
"""Called with the step that a long operation is at, and how many things it has done of it, 0 where these aren't counted."""


def unwatched(_step: str, _count: int) -> None:
    """No progress is shown."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. `owns_system`: who works on the machine itself, and sees what there is of every scope. `token_scopes` is
    None where there is no token, as permissions are on routes then. `agent` is the agent that calls, as the grants know it,
    "" where none does."""

    identity: Identity
    owns_system: bool = False
    token_scopes: frozenset[str] | None = None
    agent: str = ""


@dataclass(frozen=True)
class Context:
    """A call of an operation. `report` takes its metrics, `progress` the step that a long one is at; `files` and `form` are
    those of a request that came as a form."""

    system: System
    caller: Caller
    report: Report = unreported
    progress: Progress = unwatched
    files: tuple[UploadedFile, ...] | None = None
    form: Json | None = None

    @property
    def identity(self) -> Identity:
        return self.caller.identity

    @cached_property
    def reader(self) -> Reader:
        """The scopes that the caller may see. Raises `InvalidScopeError` for a malformed identity."""
        return self.system.corpus.projects.reader(self.identity)

    @cached_property
    def scope(self) -> Scope:
        """The caller's own scope, where documents go. Raises `InvalidScopeError` for a malformed identity."""
        return Scope(self.identity.client_id, project_id=self.identity.project_id)

    @property
    def sees_every_scope(self) -> bool:
        """Whoever owns the machine sees what is kept of everybody's questions, unless a client is named."""
        return self.caller.owns_system and not self.identity.client_id

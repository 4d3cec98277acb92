"""The facts of an installation that every capability needs: settings, clock and knowledge.yaml."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from opx.domain.knowledge import KnowledgeModel
from opx.domain.scopes import Identity, Scope
from opx.domain.times import Clock
from opx.runtime.knowledge_file import load_knowledge
from opx.settings import Settings

T = TypeVar("T")


class Installation:
    """Settings and clock, and what knowledge.yaml declares, which is read when it is first needed."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self._declared: dict[Callable[[Path | None], Any], Any] = {}

    @cached_property
    def knowledge(self) -> KnowledgeModel:
        """Tiers and categories. Raises `KnowledgeConfigError`."""
        return load_knowledge(self.knowledge_path)

    @property
    def knowledge_path(self) -> Path | None:
        """The path of knowledge.yaml; None for the one of the library."""
        path = self.settings.knowledge_file
        return Path(path) if path else None

    def declared(self, read: Callable[[Path | None], T]) -> T:
        """Reads a section of knowledge.yaml once, by a function of the file's path. Raises what that raises."""
        if read not in self._declared:
            self._declared[read] = read(self.knowledge_path)
        found: T = self._declared[read]
        return found

    def declare(self, read: Callable[[Path | None], T], value: T) -> None:
        """Have `declared(read)` return this value, whatever the file says."""
        self._declared[read] = value

    def identity_of(self, given: Identity | None) -> Identity:
        """The given identity, or the one that the installation is configured for."""
        return given or Identity(self.settings.client_id, self.settings.project_id)

    @property
    def scope(self) -> Scope:
        """The scope of this installation's own documents, as configured."""
        return Scope(self.settings.client_id, project_id=self.settings.project_id)

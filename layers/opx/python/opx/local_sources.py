"""Sources of the services in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opx.services import Services
    from opx.sources.control import SourceControl
    from opx.sources.states import PullReport, SourceView


class LocalSources:
    """The part of a knowledge base that is about sources."""

    _services: Services

    @cached_property
    def _control(self) -> SourceControl:
        from opx.sources.control import SourceControl

        return SourceControl(self._services)

    def sources(self) -> Sequence[SourceView]:
        return self._control.views()

    def register_source(self, source_id: str, given: Mapping[str, Any]) -> SourceView:
        return self._control.register(source_id, given)

    def remove_source(self, source_id: str) -> None:
        self._control.remove(source_id)

    def pull_source(
        self, source_id: str, *, everything: bool = False, accept_missing: bool = False
    ) -> PullReport | None:
        return self._control.pull(source_id, everything=everything, accept_missing=accept_missing)

    def source_health(self, source_id: str) -> SourceView:
        return self._control.health(source_id)

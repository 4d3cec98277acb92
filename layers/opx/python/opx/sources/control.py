"""What people do with sources: list, register, remove, pull and check them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opx.domain.ids import stable_hash
from opx.domain.record import replace
from opx.domain.sources import Health, SourceDefinition
from opx.sources.connecting import refuse_files
from opx.sources.declared import definition_of
from opx.sources.states import PullState, SourceView

if TYPE_CHECKING:
    from opx.services import Services
    from opx.sources.states import PullReport


class SourceControl:
    """The sources of the installation that `services` are of."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._sources = services.sources

    def views(self) -> list[SourceView]:
        """Every source by id, and how its pulls stand."""
        return [self._view(definition) for definition in self._sources.all()]

    def view(self, source_id: str) -> SourceView:
        """One source. Raises `InvalidInputError` that lists those there are."""
        return self._view(self._sources.get(source_id))

    def health(self, source_id: str) -> SourceView:
        """The source with whether it can be pulled now, for which it is asked."""
        definition = self._sources.get(source_id)
        connected = self._services.connected_source(definition)
        try:
            health: Health = connected.connector.check()
        finally:
            connected.close()
        return replace(self._view(definition), health=health)

    def register(self, source_id: str, given: Mapping[str, Any]) -> SourceView:
        """Keep a source under this id, replacing one that was registered under it, and have it pulled at its times.

        `given` as in knowledge.yaml: kind, category, and options. Raises `InvalidInputError` that names what is wrong,
        before anything is kept.
        """
        definition = definition_of(source_id, given, self._services.knowledge)
        self._services.connected_source(definition).close()  # which checks its options
        self._sources.register(definition)
        if self._services.source_schedules:
            self._services.source_schedules.put(definition)
        return self._view(definition)

    def remove(self, source_id: str) -> None:
        """Forget a registered source. Its documents stay; `opx delete` removes those. Raises `InvalidInputError`."""
        self._sources.remove(source_id)
        if self._services.source_schedules:
            self._services.source_schedules.delete(source_id)

    def pull(self, source_id: str, *, everything: bool = False, accept_missing: bool = False) -> PullReport | None:
        """Pull it now. None where a function does it: it is asked to, and the source's state tells what came of it.

        Raises `InvalidInputError` and `SourceBusyError`.
        """
        definition = self._sources.get(source_id)
        if self._services.pulls is None:
            puller = self._services.puller()
            return puller.pull(source_id, everything=everything, accept_missing=accept_missing)
        refuse_files(definition, self._services.settings)
        self._services.pulls.send(pull_message(source_id, everything=everything, accept_missing=accept_missing))
        return None

    def crawl(self, category: str, options: Mapping[str, Any]) -> tuple[str, PullReport | None]:
        """Register a site as a source that is pulled by hand, under an id that follows from its address, and pull it
        now. The id, and what `pull` returns. Raises `InvalidInputError`."""
        starts = options.get("start") or options.get("sitemaps") or ()
        source_id = f"crawl-{stable_hash('crawl', sorted(starts))[:12]}"
        self.register(source_id, {"kind": "crawl", "category": category, "schedule": "", "options": options})
        return source_id, self.pull(source_id)

    def _view(self, definition: SourceDefinition) -> SourceView:
        declared = self._sources.is_declared(definition.source_id)
        return SourceView.of(definition, self._shown(definition.source_id), declared=declared)

    def _shown(self, source_id: str) -> PullState:
        """The state; a lease that has run out belongs to a process that is gone."""
        state = self._sources.state(source_id)
        return state if state.lease_until > self._services.clock() else replace(state, owner="")


def pull_message(source_id: str, *, everything: bool = False, accept_missing: bool = False) -> str:
    """How a pull is asked for."""
    wishes = {"everything": everything, "accept_missing": accept_missing}
    return json.dumps({"source": source_id, **{name: True for name, wanted in wishes.items() if wanted}})

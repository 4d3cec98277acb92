"""What people do with sources: list, register, remove, pull and check them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from opx.connectors.connecting import refuse_files
from opx.connectors.declared import definition_of
from opx.connectors.states import PullState, SourceView
from opx.domain.ids import stable_hash
from opx.domain.record import replace
from opx.domain.sources import Health, SourceDefinition

if TYPE_CHECKING:
    from opx.connectors.connecting import ConnectedSource
    from opx.connectors.pulling import SourcePuller
    from opx.connectors.repository import SourceRepository
    from opx.domain.sources import PullReport
    from opx.ports import Queue
    from opx.ports.sources import SourceSchedules
    from opx.runtime.installation import Installation


class SourceControl:
    """The sources of an installation. `pulls` is where a function is asked to pull one, None where this process does;
    `schedules` has registered ones pulled at their times, None where the process that pulls looks at the clock itself."""

    def __init__(
        self,
        installation: Installation,
        sources: SourceRepository,
        *,
        connect: Callable[[SourceDefinition], ConnectedSource],
        puller: Callable[[], SourcePuller],
        pulls: Queue | None,
        schedules: SourceSchedules | None,
    ) -> None:
        self._installation = installation
        self._sources = sources
        self._connect = connect
        self._puller = puller
        self._pulls = pulls
        self._schedules = schedules

    @property
    def pulls_elsewhere(self) -> bool:
        """Whether a function pulls, which can't see this machine's files."""
        return self._pulls is not None

    def views(self) -> list[SourceView]:
        """Every source by id, and how its pulls stand."""
        return [self._view(definition) for definition in self._sources.all()]

    def view(self, source_id: str) -> SourceView:
        """One source. Raises `InvalidInputError` that lists those there are."""
        return self._view(self._sources.get(source_id))

    def health(self, source_id: str) -> SourceView:
        """The source with whether it can be pulled now, for which it is asked."""
        definition = self._sources.get(source_id)
        connected = self._connect(definition)
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
        definition = definition_of(source_id, given, self._installation.knowledge)
        self._connect(definition).close()  # which checks its options
        self._sources.register(definition)
        if self._schedules:
            self._schedules.put(definition)
        return self._view(definition)

    def remove(self, source_id: str) -> None:
        """Forget a registered source. Its documents stay; `opx delete` removes those. Raises `InvalidInputError`."""
        self._sources.remove(source_id)
        if self._schedules:
            self._schedules.delete(source_id)

    def pull(self, source_id: str, *, everything: bool = False, accept_missing: bool = False) -> PullReport | None:
        """Pull it now. None where a function does it: it is asked to, and the source's state tells what came of it.

        Raises `InvalidInputError` and `SourceBusyError`.
        """
        definition = self._sources.get(source_id)
        if self._pulls is None:
            puller = self._puller()
            return puller.pull(source_id, everything=everything, accept_missing=accept_missing)
        refuse_files(definition, self._installation.settings)
        self._pulls.send(pull_message(source_id, everything=everything, accept_missing=accept_missing))
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
        return state if state.lease_until > self._installation.clock() else replace(state, owner="")


def pull_message(source_id: str, *, everything: bool = False, accept_missing: bool = False) -> str:
    """How a pull is asked for."""
    wishes = {"everything": everything, "accept_missing": accept_missing}
    return json.dumps({"source": source_id, **{name: True for name, wanted in wishes.items() if wanted}})

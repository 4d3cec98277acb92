"""Directories that are sources, pulled as soon as a file changes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.sources.registry import checked_options

if TYPE_CHECKING:
    from opx.domain.sources import SourceDefinition
    from opx.services import Services
    from opx.sources.pulling import PullReport

LOOK_MS = 50
QUIET_MS = 200
"""A burst of changes is one when nothing happened for this long."""


class DirectoryFeed:
    """Follows the directories among the sources. Each is pulled once at the beginning: what changed while nobody
    looked is made up for."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._followed: dict[str, Generator[set[Any], None, None] | None] = {}

    def poll(self) -> Sequence[str]:
        from opx.running import told

        changed = [source for source in self._services.sources.all() if _is_watched(source) and self._changed(source)]
        return [told(self._pull(definition)) for definition in changed]

    def _changed(self, definition: SourceDefinition) -> bool:
        changes = self._followed.get(definition.source_id)
        if changes is None:
            self._followed[definition.source_id] = _changes_of(definition)
            return self._followed[definition.source_id] is not None
        try:
            return bool(next(changes))
        except (StopIteration, OSError, RuntimeError):  # the directory is gone; it is looked for again
            self._followed[definition.source_id] = None
            return False

    def _pull(self, definition: SourceDefinition) -> PullReport:
        return self._services.puller().pull(definition.source_id)


def _is_watched(definition: SourceDefinition) -> bool:
    """One with a schedule is pulled at its times instead."""
    return definition.kind == "directory" and definition.enabled and not definition.schedule


def _changes_of(definition: SourceDefinition) -> Generator[set[Any], None, None] | None:
    """None while there is no such directory."""
    from watchfiles import watch

    folder = Path(checked_options(definition).path).expanduser()
    if not folder.is_dir():
        return None
    changes = watch(
        folder, step=QUIET_MS, debounce=1000, rust_timeout=LOOK_MS, yield_on_timeout=True, raise_interrupt=True
    )
    next(changes)  # from here on changes are noted
    return changes

"""Directories that are sources, pulled as soon as a file changes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.connectors.registry import checked_options
from opx.connectors.runner import BROKEN_SECONDS, told
from opx.errors import InvalidInputError, SourceBusyError, StoreUnavailableError

if TYPE_CHECKING:
    from opx.connectors.pulling import SourcePuller
    from opx.connectors.repository import SourceRepository
    from opx.domain.sources import SourceDefinition
    from opx.ports import Clock

AGAIN_SECONDS = 10.0
LOOK_MS = 50
QUIET_MS = 200
"""A burst of changes is one when nothing happened for this long."""


class DirectoryFeed:
    """Follows the directories among the sources. Each is pulled once at the beginning: what changed while nobody
    looked is made up for."""

    def __init__(self, sources: SourceRepository, puller: Callable[[], SourcePuller], clock: Clock) -> None:
        self._sources = sources
        self._puller = puller
        self._clock = clock
        self._again: dict[str, float] = {}
        self._followed: dict[str, Generator[set[Any], None, None] | None] = {}

    def poll(self) -> Sequence[str]:
        changed = [source for source in self._sources.all() if _is_watched(source) and self._changed(source)]
        return [line for definition in changed for line in self._pulled(definition)]

    def _changed(self, definition: SourceDefinition) -> bool:
        due = self._again.get(definition.source_id)
        if due is not None:
            if due > self._clock():
                return False
            del self._again[definition.source_id]
            return True
        changes = self._followed.get(definition.source_id)
        if changes is None:
            try:
                self._followed[definition.source_id] = _changes_of(definition)
            except InvalidInputError:  # wrong options, which the pull tells
                return True
            return self._followed[definition.source_id] is not None
        try:
            return bool(next(changes))
        except (StopIteration, OSError, RuntimeError):  # the directory is gone; it is looked for again
            self._followed[definition.source_id] = None
            return False

    def _pulled(self, definition: SourceDefinition) -> list[str]:
        """Lines about a pull; one that could not be done is tried again after a while."""
        try:
            report = self._puller().pull(definition.source_id)
        except SourceBusyError:
            self._again[definition.source_id] = self._clock() + AGAIN_SECONDS
            return []
        except (InvalidInputError, StoreUnavailableError) as exc:
            self._again[definition.source_id] = self._clock() + BROKEN_SECONDS
            return [f"source {definition.source_id}: {exc}"]
        if report.error:
            self._again[definition.source_id] = self._clock() + AGAIN_SECONDS
        return [told(report)]


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

"""The aliases of scopes as this process read them a moment ago, each scope's by itself."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from opx.graph.alias_view import LoadedNames
from opx.ports import Clock

SECONDS = 30.0
"""How late an alias of another process may be seen."""

MAX_SCOPES = 1_000
MAX_ALIASES = 100_000
"""Of all scopes together: some 30 MB."""


@dataclass(frozen=True, slots=True)
class _Kept:
    names: LoadedNames | None
    until: float


class AliasCache:
    """Keeps at most so many, those used last. Several threads may use it."""

    def __init__(
        self,
        load: Callable[[str], LoadedNames | None],
        *,
        clock: Clock,
        seconds: float = SECONDS,
        max_scopes: int = MAX_SCOPES,
        max_aliases: int = MAX_ALIASES,
    ) -> None:
        self._load = load
        self._clock = clock
        self._seconds = seconds
        self._most = (max_scopes, max_aliases)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._aliases = 0
        self._changes = 0
        self._lock = threading.Lock()

    def names(self, area: str) -> LoadedNames | None:
        """The aliases of a scope; None if it has too many to keep. Raises `StoreUnavailableError`."""
        now = self._clock()
        with self._lock:
            kept = self._kept.get(area)
            if kept and now < kept.until:
                self._kept.move_to_end(area)
                return kept.names
            changes = self._changes
        names = self._load(area)
        with self._lock:
            if changes == self._changes:  # else it may have been read before the change
                self._keep(area, _Kept(names, now + self._seconds))
        return names

    def forget(self, area: str) -> None:
        """Read this scope again when it is asked for next."""
        with self._lock:
            self._changes += 1
            self._drop(area)

    def _keep(self, area: str, kept: _Kept) -> None:
        self._drop(area)
        self._kept[area] = kept
        self._aliases += _size(kept)
        max_scopes, max_aliases = self._most
        while len(self._kept) > max_scopes or (self._aliases > max_aliases and len(self._kept) > 1):
            self._drop(next(iter(self._kept)))

    def _drop(self, area: str) -> None:
        if (kept := self._kept.pop(area, None)) is not None:
            self._aliases -= _size(kept)


def _size(kept: _Kept) -> int:
    return len(kept.names) if kept.names else 0

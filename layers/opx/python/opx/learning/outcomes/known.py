"""Of which scopes anything is known at all, so that questions of the others cost nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from opx.learning.outcomes.rows import OUTCOMES, WARNINGS, known_key, known_scope
from opx.ports import Table

LOOKED_AGAIN_SECONDS = 60.0
"""After which a process looks whether another one has written the first outcome or warning of a scope."""

_KINDS = (OUTCOMES, WARNINGS)


class KnownScopes:
    """Remembers what there is, which is never taken back, and for a while what there isn't."""

    def __init__(self, table: Table, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._monotonic = monotonic
        self._found: set[tuple[str, str]] = set()
        self._looked: dict[str, float] = {}

    def note(self, scope_key: str, kind: str, mark: str = "") -> None:
        """Write that there is something; `mark` is another one each time that readers have to look again."""
        if mark or (scope_key, kind) not in self._found:
            self._table.put({**known_key(scope_key, kind), "mark": mark})
            self._found.add((scope_key, kind))

    def of(self, scopes: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """The scopes of which there are outcomes, and those of which there are warnings. One read a minute at most.
        Raises `StoreUnavailableError`."""
        self._look(scopes)
        return {kind: [scope for scope in scopes if (scope, kind) in self._found] for kind in _KINDS}

    def _look(self, scopes: Sequence[str]) -> None:
        now = self._monotonic()
        unsure = [scope for scope in scopes if self._is_unsure(scope, now)]
        if not unsure:
            return
        keys = [known_key(scope, kind) for scope in unsure for kind in self._missing(scope)]
        self._found.update((known_scope(item), str(item["entry"])) for item in self._table.get_many(keys))
        self._looked.update(dict.fromkeys(unsure, now))

    def _is_unsure(self, scope: str, now: float) -> bool:
        looked = self._looked.get(scope)
        stale = looked is None or now - looked >= LOOKED_AGAIN_SECONDS
        return stale and any(True for _ in self._missing(scope))

    def _missing(self, scope: str) -> Iterable[str]:
        return (kind for kind in _KINDS if (scope, kind) not in self._found)

"""Waiting for the workers of a deployed system."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from opx.edges.api_requests import Pause
from opx.errors import OpxError
from opx.ingestion.outcomes import Outcome, Result
from opx.ingestion.states import ObjectPhase, ObjectState

KEYS_AT_ONCE = 100
KEYS_A_ROUND = 300
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0
PATIENCE_SECONDS = 900.0
"""Longer than the system's own attempts at a document that fails for a while go on, about 620 seconds in all. What a
worker left undone that crashed comes back to the queue only after 1,800 seconds: nobody is kept waiting for that."""

_DONE = {ObjectPhase.INGESTED: Result.INGESTED, ObjectPhase.DELETED: Result.DELETED, ObjectPhase.FAILED: Result.FAILED}


class Waiting:
    """Asks for the states of objects until they are settled, less and less often while nothing happens."""

    def __init__(
        self,
        states: Callable[[Sequence[str]], list[ObjectState]],
        *,
        pause: Pause = time.sleep,
        now: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._states = states
        self._pause = pause
        self._now = now
        self._patience = patience

    def outcomes(self, sent: Collection[str], known_failures: Mapping[str, str]) -> Iterator[Outcome]:
        """Outcomes as objects are settled, until all are or none was for `patience` seconds.

        `known_failures` has the marks of failures from before the objects were sent, by key: those don't count.
        """
        pending = sorted(set(sent))
        pause, last_news = FIRST_PAUSE_SECONDS, self._now()
        while pending:
            asked, later = pending[:KEYS_A_ROUND], pending[KEYS_A_ROUND:]
            settled = []
            for state in self._asked(asked):
                if state.state in _DONE and (not state.mark or state.mark != known_failures.get(state.object_key)):
                    settled.append(state.object_key)
                    yield _outcome(state)
            pending = [*later, *(key for key in asked if key not in settled)]
            if settled:
                pause, last_news = FIRST_PAUSE_SECONDS, self._now()
            elif self._now() - last_news >= self._patience:
                return
            if pending:
                self._pause(pause)
                pause = min(1.5 * pause, LONGEST_PAUSE_SECONDS)

    def _asked(self, keys: Sequence[str]) -> Iterator[ObjectState]:
        for at in range(0, len(keys), KEYS_AT_ONCE):
            yield from self._states(keys[at : at + KEYS_AT_ONCE])


def _outcome(state: ObjectState) -> Outcome:
    return Outcome(
        _DONE[state.state],
        state.object_key,
        reason=state.reason,
        document_id=state.document_id,
        title=state.title,
        chunks=state.chunks,
        error=OpxError(state.reason) if state.state is ObjectPhase.FAILED else None,
    )

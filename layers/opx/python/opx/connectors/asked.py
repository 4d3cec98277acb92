"""Pulls that a message asks for: one at a time, and asked for again if there is more, or if it failed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from opx.connectors.schedules import MAX_RETRIES, retry_delay
from opx.errors import InvalidInputError, SourceBusyError

if TYPE_CHECKING:
    from opx.connectors.pulling import SourcePuller
    from opx.connectors.repository import SourceRepository
    from opx.ports import Clock, Queue

log = logging.getLogger(__name__)

MAX_DELAY_SECONDS = 900
"""The longest that SQS keeps a message back. A source that wants longer is asked at its next time."""

BUSY_SECONDS = 300
_WISHES = ("everything", "accept_missing")


class PullRequests:
    """Does one pull at a time; `pulls` gets the message that asks for the rest, or for another try."""

    def __init__(self, sources: SourceRepository, puller: SourcePuller, pulls: Queue | None, clock: Clock) -> None:
        self._sources = sources
        self._puller = puller
        self._pulls = pulls
        self._clock = clock

    def do(self, body: str, *, stop: Callable[[], bool]) -> None:
        """Pull the source that a message names, for as long as `stop` allows; another message has the rest done.

        A source that is being pulled already is left to who does it, and one that was removed is forgotten. Raises
        `InvalidInputError` for a message that names no source, and for a source with wrong options.
        """
        asked = _asked(body)
        source_id = asked["source"]
        if source_id not in {definition.source_id for definition in self._sources.all()}:
            log.warning("there is no source %s any more", source_id)
            return
        # What goes on has begun anew already, if everything was wanted.
        again = {"source": source_id, **({"accept_missing": True} if asked.get("accept_missing") else {})}
        try:
            done = self._puller.pull(source_id, stop=stop, **{wish: bool(asked.get(wish)) for wish in _WISHES})
        except SourceBusyError as exc:
            log.info("left alone: %s", exc)
            if any(asked.get(wish) for wish in _WISHES):  # somebody asked for it, and was told that it will be done
                self._send(asked, BUSY_SECONDS)
            return
        if done.more:
            self._send(again, 0)
        elif done.error:
            self._try_again(again)

    def _try_again(self, asked: Mapping[str, Any]) -> None:
        """Three times, with growing pauses; afterwards the source waits for its next time."""
        state = self._sources.state(asked["source"])
        delay = retry_delay(state, self._clock())
        if state.failures <= MAX_RETRIES and delay <= MAX_DELAY_SECONDS:
            self._send(asked, int(delay))

    def _send(self, asked: Mapping[str, Any], delay: int) -> None:
        if self._pulls is None:
            raise InvalidInputError("pulls can't be asked for here: OPX_PULL_QUEUE_URL is not set")
        self._pulls.send(json.dumps(asked), delay_seconds=delay)


def _asked(body: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError as exc:
        raise InvalidInputError("the message is not JSON") from exc
    if not isinstance(found, dict) or not isinstance(found.get("source"), str):
        raise InvalidInputError("the message names no source")
    return found

"""A function's turn at a new index: as much as it has time for, and then a message for the next."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any

from opx.errors import EmbeddingError, InvalidInputError, ReindexBusyError
from opx.lifecycle.reindex.job import Phase
from opx.lifecycle.reindex.making import Progress
from opx.lifecycle.reindex.reindexing import Reindexer
from opx.ports import Queue

if TYPE_CHECKING:
    from opx.retrieval.calibration.calibrating import Calibrator

log = logging.getLogger(__name__)

GO_ON = json.dumps({"do": "go on"})
CALIBRATE = json.dumps({"do": "calibrate"})
CALIBRATE_IF_DUE = json.dumps({"do": "calibrate", "ifDue": True})
SEEN_EVERYWHERE = 180
"""Seconds after which every function asks the new index."""

LONGEST_DELAY = 900
"""Seconds that a message of SQS can be delayed."""

_DONE = ("reindex", "go on", "force", "rollback", "discard")


def calibrate_as_asked(body: str, calibrator: Callable[[], Calibrator]) -> bool:
    """Calibrate if a message asks for that, `{"do": "calibrate", "ifDue": false}`; whether it did.

    A corpus or a model that can't be calibrated on is logged. Raises `StoreUnavailableError`: then it is to be asked again.
    """
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(asked, dict) or asked.get("do") != "calibrate":
        return False
    from opx.retrieval.calibration.calibrating import calibrate_if_due, outcome_line

    try:
        found = calibrator()
        line = calibrate_if_due(found) if asked.get("ifDue") else outcome_line(found.run())
    except (EmbeddingError, InvalidInputError) as exc:
        line = f"not calibrated: {exc}"
    log.info("%s", line or "no calibration is due")
    return True


def take_turn(body: str, reindexer: Reindexer, rebuilds: Queue | None, *, stop: Callable[[], bool]) -> Progress | None:
    """Do what a message asks for: `{"do": "reindex", "model": ..., "dimension": ...}`, `go on`, `force`, `rollback` or
    `discard`. Until it is finished, another message to `rebuilds` goes on with it; None if there is nothing to go on with.

    Raises `InvalidInputError` for a message that isn't understood or can't be done.
    """
    asked = _read(body)
    wanted = asked["do"]
    if wanted == "go on":
        return _gone_on(reindexer, rebuilds, stop)
    if wanted == "discard":
        reindexer.discard()
        return None
    if wanted == "reindex" and (asked.get("model") or not reindexer.is_under_way):
        reindexer.start(model=str(asked.get("model", "")), dimension=int(asked.get("dimension", 0)))
    elif wanted == "rollback":
        reindexer.roll_back()
    elif wanted == "force":
        reindexer.force()
    if wanted == "reindex":
        reindexer.compare_again()
    return _worked(reindexer, rebuilds, stop)


def _gone_on(reindexer: Reindexer, rebuilds: Queue | None, stop: Callable[[], bool]) -> Progress | None:
    """A message may come twice: then another has the work in hand, and goes on with it, or it is done."""
    if not reindexer.is_under_way:
        return None
    try:
        return _worked(reindexer, rebuilds, stop)
    except ReindexBusyError as exc:
        log.info("%s", exc)
        return None


def _worked(reindexer: Reindexer, rebuilds: Queue | None, stop: Callable[[], bool]) -> Progress:
    progress = reindexer.advance(stop)
    if progress.finished:
        log.info("the new index is %s: %s", progress.job.phase, progress.job.report)
        if rebuilds and progress.job.phase is Phase.DONE:
            rebuilds.send(CALIBRATE_IF_DUE, delay_seconds=SEEN_EVERYWHERE)
    elif rebuilds:
        rebuilds.send(GO_ON, delay_seconds=min(ceil(progress.wait_seconds), LONGEST_DELAY))
    return progress


def _read(body: str) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError(f"the message is not JSON: {exc}") from exc
    if not isinstance(asked, dict) or asked.get("do") not in _DONE:
        raise InvalidInputError(f'the message must be {{"do": ...}} with one of {", ".join(_DONE)}')
    dimension = asked.get("dimension", 0)
    if not isinstance(dimension, int) or isinstance(dimension, bool) or dimension < 0:
        raise InvalidInputError(f"dimension must be a whole number, not {dimension!r}")
    return asked

"""Daily relinking: adds mentions of names that were declared after the documents that use them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opx.graph.relinking import Relinking

log = logging.getLogger(__name__)

RELINK: Mapping[str, object] = {"task": "relink"}
"""The event that the scheduler sends."""

RELINK_SECONDS = 200.0
"""Seconds, of the 300 that the ingestion function has; before them, new names have `BATCH_SECONDS`."""


def is_relink(event: object) -> bool:
    """True for the scheduler's event; all others come from the queue."""
    return event == RELINK


def relink(relinking: Relinking) -> dict[str, int]:
    """Relink all declared names within the time limit, and return the counts. Raises `StoreUnavailableError`."""
    done = relinking.relink(seconds=RELINK_SECONDS)
    for left in done.left_out:
        log.warning("relinking left out: %s", left)
    return {"names": done.names, "documents": done.documents, "mentions": done.mentions, "busy": done.busy}

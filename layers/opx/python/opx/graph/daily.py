"""What is done about the graph every day: documents mention what was declared after them, also what was left out before."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opx.graph.relinking import Relinking

log = logging.getLogger(__name__)

RELINK: Mapping[str, object] = {"task": "relink"}
"""The event with which the scheduler has it done."""

RELINK_SECONDS = 240.0
"""Of the 300 that the function has which takes documents in."""


def is_relink(event: object) -> bool:
    """Whether the scheduler calls; everything else comes from the queue."""
    return event == RELINK


def relink(relinking: Relinking) -> dict[str, int]:
    """Go through all declared names, as long as there is time. Raises `StoreUnavailableError`."""
    done = relinking.relink(seconds=RELINK_SECONDS)
    for left in done.left_out:
        log.warning("relinking left out: %s", left)
    return {"names": done.names, "documents": done.documents, "mentions": done.mentions, "busy": done.busy}

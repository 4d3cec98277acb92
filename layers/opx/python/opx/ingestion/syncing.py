"""Requests to have a managed service index what was written, as messages of a queue."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ports import IndexSync

log = logging.getLogger(__name__)


def sync_request(since: float) -> str:
    """A message that asks for a run that begins after `since`, in seconds since the epoch."""
    return json.dumps({"since": since})


def requested_since(body: str) -> float:
    """What a message asks for. Raises `InvalidInputError` for one that is no request."""
    try:
        return float(json.loads(body)["since"])
    except (ValueError, TypeError, KeyError) as exc:
        raise InvalidInputError(f"not a request to index: {body[:100]!r}") from exc


def sync_batch(bodies: Iterable[str], sync: IndexSync) -> bool:
    """One run for all requests. False if they must come again, because it can't begin yet or the service is away."""
    moments = []
    for body in bodies:
        try:
            moments.append(requested_since(body))
        except InvalidInputError as exc:
            log.warning("dropped a message: %s", exc)
    if not moments:
        return True
    try:
        return sync.cover(max(moments))
    except StoreUnavailableError:
        log.warning("asked for a run in vain", exc_info=True)
        return False

"""Calls of a collection that may be asleep: repeated while the caller waits, with errors that say which it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from opensearchpy import ConnectionError as NoConnection
from opensearchpy import ConnectionTimeout, OpenSearchException, TransportError
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from opx.errors import IndexUnavailableError, IndexWakingError
from opx.runtime.deadlines import remaining
from opx_aws.opensearch_queries import safe_message
from opx_aws.vendor_errors import Backoff

R = TypeVar("R")

BUSY = frozenset({402, 408, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed. 402 is "maximum OCU capacity reached": the collection is scaling up, or
can't."""

LONGEST_WAIT = 60.0
"""Seconds that a call is repeated at most: twice the time that a next-generation collection takes to wake, 10 to 30 s
according to the developer guide."""

WAKE_SECONDS = 30.0
SHORTEST_WAIT = 0.5
SOONEST_SECONDS = 5.0
"""A caller whose call was in vain need not come back sooner."""

_PAUSES = Backoff(attempts=1000, base=0.25, longest=2.0)


def patiently(
    send: Callable[[float], R],
    doing: str,
    *,
    timeout: float,
    patience: float = LONGEST_WAIT,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> R:
    """The answer to a request that `send` sends, with the seconds to wait for it.

    Time-outs and the statuses in `BUSY` are repeated for `patience` seconds, or until the caller's deadline
    (`opx.runtime.deadlines`) if that is earlier. Raises `IndexWakingError` when that time is over, and
    `IndexUnavailableError` for a refusal, or if no connection can be made twice.
    """
    started = clock()
    left = remaining()
    end = started + (patience if left is None else min(left, patience))
    pauses = _PAUSES.pauses()
    cut_off = 0
    while True:
        try:
            return send(_seconds(timeout, end - clock()))
        except OpenSearchException as exc:
            cut_off += _is_cut_off(exc)
            pause = next(pauses)
            if not (is_temporary(exc) or cut_off == 1):
                raise IndexUnavailableError(f"{doing} failed: {safe_message(exc)}") from exc
            if end - clock() < pause + SHORTEST_WAIT:
                raise _unanswered(exc, doing, clock() - started) from exc
        sleep(pause)


def _unanswered(error: OpenSearchException, doing: str, waited: float) -> IndexUnavailableError:
    """The error after the last try of a request."""
    message = f"{doing} failed: {safe_message(error)}"
    if not is_temporary(error):
        return IndexUnavailableError(message)
    again = max(SOONEST_SECONDS, WAKE_SECONDS - waited)
    return IndexWakingError(f"{message} (waking up, or overloaded; waited {waited:.0f} s)", again)


def _seconds(timeout: float, left: float) -> float:
    """Seconds for one try: the usual ones, and for the last try all that are left."""
    if left <= 0:
        return timeout
    return max(left, SHORTEST_WAIT) if left < 2 * timeout else timeout


def is_temporary(error: OpenSearchException) -> bool:
    """True if a sleeping or an overloaded collection may be the cause."""
    if isinstance(error, ConnectionTimeout) or _no_connection_in_time(error):
        return True
    return isinstance(error, TransportError) and error.status_code in BUSY


def _no_connection_in_time(error: OpenSearchException) -> bool:
    cause = error.info if isinstance(error, NoConnection) else None
    return isinstance(cause, ConnectTimeoutError) and not isinstance(cause, NewConnectionError)


def _is_cut_off(error: OpenSearchException) -> bool:
    """True if a connection was refused or broken; a function's idle connections are broken by the service now and then."""
    return isinstance(error, NoConnection) and not is_temporary(error)

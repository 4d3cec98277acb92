"""One speed limit for all workers that call a model within the quota of an account.

The schedule is an item of a table: `next` is the time at which the next call may begin (as in the generic cell rate
algorithm), and its pace is the share of the quota that is used. A worker reserves a block of calls by a conditional write and
sends each at its time. A throttled call cuts the pace for all: blocks that haven't begun are void, and their workers reserve
again. The pace grows back along a cubic curve (as in TCP CUBIC, RFC 9438): slowly near the level of the last cut, then
faster. An unknown quota is found from below by doubling. The curve advances with reserved time, not with idle time, in which
nothing is learnt about the quota.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from opx.errors import ConditionFailedError, StoreUnavailableError, ThrottledError
from opx.ports import Clock, Condition, Equals, KeyAbsent, Table
from opx.runtime.deadlines import remaining
from opx.runtime.metrics import Metric, Report

ASSUMED_REQUESTS = 600.0
"""Requests a minute that an unknown quota is assumed to have at most."""

MARGIN = 0.97
"""Share of a known quota that is used: clocks and networks aren't exact."""

FIRST_PACE, DOUBLING_SECONDS = 0.1, 5.0
"""An unknown quota is approached from 60 of 600 requests a minute, and twice as many after every five seconds of calls."""

CUT, DEEP_CUT = 0.85, 0.5
"""Pace after a throttled call, as a share of the pace before. Deep: nothing is known yet, or the last cut was not enough."""

SOON_SECONDS = 10.0
"""A cut within this time of the last one shows that that one was not enough."""

RECOVERY_SECONDS = 60.0
"""Time until the pace is again that of the last cut."""

SLOWEST_PACE = 1 / 300
BLOCK_SECONDS = 2.0
"""Length of a block. Workers take turns: a short block lets each have its turn soon."""

LONGEST_WAIT_SECONDS = 60.0
"""A call that would have to wait longer is refused: its work can be done later."""

PAUSE_SECONDS = 1.0
"""Nobody calls for this long after a cut, and cuts are at least twice as far apart."""

PREFIX = "limit#"
"""Of the keys of limits in their table."""

_STALE_SECONDS = 0.5
_KEPT_SECONDS = 7 * 86_400
_CONFLICTS = 20

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Quota:
    """An account's quota of a model, a minute; 0 where it is unknown. Where only tokens are known, requests are unlimited."""

    requests: float = 0.0
    tokens: float = 0.0

    @property
    def is_known(self) -> bool:
        return bool(self.requests or self.tokens)

    def seconds(self, tokens: float) -> float:
        """The time in which the quota allows one call with so many tokens: the larger of both shares."""
        requests = self.requests if self.is_known else ASSUMED_REQUESTS
        of_requests = 60 / requests if requests else 0.0
        of_tokens = 60 * tokens / self.tokens if self.tokens else 0.0
        return max(of_requests, of_tokens) / MARGIN


@dataclass(frozen=True, slots=True)
class ReservedCalls:
    """Reserved times of calls, one each. `cuts` numbers the schedule that they belong to."""

    starts: tuple[float, ...]
    cuts: int


@dataclass(frozen=True, slots=True)
class _State:
    """The schedule. `peak` and `low` are the pace before and after the last of `cuts`, at `cut_at`; `since` is the reserved
    time since then."""

    next: float = 0.0
    peak: float = 0.0
    low: float = 0.0
    since: float = 0.0
    cuts: int = 0
    cut_at: float = 0.0
    revision: int = 0

    def pace(self, *, known: bool) -> float:
        """The share of the quota that may be used now, in (0, 1]."""
        if not self.cuts:
            return 1.0 if known else min(1.0, FIRST_PACE * 2.0 ** min(self.since / DOUBLING_SECONDS, 10.0))
        grown = (self.since - RECOVERY_SECONDS) / RECOVERY_SECONDS
        return max(SLOWEST_PACE, min(1.0, self.peak + (self.peak - self.low) * grown**3))

    def cut(self, now: float, *, known: bool) -> _State:
        pace = self.pace(known=known)
        is_deep = self.since < SOON_SECONDS if self.cuts else not known
        kept = DEEP_CUT if is_deep else CUT
        # Below the last peak other callers have taken a part of the quota: aim lower than at the level of this cut.
        peak = pace * (1 + kept) / 2 if self.cuts and pace < self.peak else pace
        low = max(SLOWEST_PACE, pace * kept)
        return replace(
            self, next=now + PAUSE_SECONDS, peak=max(peak, low), low=low, since=0.0, cuts=self.cuts + 1, cut_at=now
        )


class SpeedLimit:
    """Paces the calls of a model, together with all workers that use the same item of the table; safe to share between
    threads.

    Without a table, or while it is unavailable, the limit is that of this process. `throttled_calls` and `waited_seconds`
    count what happened in this process.
    """

    def __init__(
        self,
        quota: Quota,
        table: Callable[[], Table] | None = None,
        model: str = "",
        *,
        clock: Clock = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._quota = quota
        self._table = table
        self._key = {"cacheKey": f"{PREFIX}{model}"}
        self._clock = clock
        self.sleep = sleep
        self._lock = threading.Lock()
        self._own = _State()
        self.throttled_calls = 0
        self.waited_seconds = 0.0

    def reserve(self, tokens: Sequence[float]) -> ReservedCalls:
        """Reserves times for the first of these calls, at least one, each with its number of tokens, and waits until the
        first is due.

        Raises `ThrottledError` before anything is reserved if that is further away than the caller can wait.
        """
        while True:
            block = self._reserved(tokens)
            wait = self._wait_for(block.starts[0])
            if wait < _STALE_SECONDS or self._read().cuts == block.cuts:
                return block

    def due(self, start: float) -> None:
        """Waits until the time of a call."""
        self._wait_for(start)

    def throttled(self, block: ReservedCalls | None = None) -> None:
        """Cuts the pace after a throttled call, unless that was done since its block was reserved."""
        with self._lock:
            self.throttled_calls += 1

        def cut(state: _State, now: float) -> _State | None:
            is_answered = block is not None and state.cuts != block.cuts
            if is_answered or now < state.cut_at + 2 * PAUSE_SECONDS:
                return None
            return state.cut(now, known=self._quota.is_known)

        self._change(cut)

    def _wait_for(self, start: float) -> float:
        wait = start - self._clock()
        if wait > 0:
            with self._lock:
                self.waited_seconds += wait
            self.sleep(wait)
        return wait

    def _reserved(self, tokens: Sequence[float]) -> ReservedCalls:
        left = remaining()
        patience = LONGEST_WAIT_SECONDS if left is None else min(left, LONGEST_WAIT_SECONDS)
        starts: list[float] = []

        def reserve(state: _State, now: float) -> _State:
            starts.clear()
            pace = state.pace(known=self._quota.is_known)
            begin = end = max(now, state.next)
            if begin > now and begin - now >= patience:
                raise ThrottledError("the quota of the embedding model is used up for now", max(1.0, begin - now))
            for each in tokens:
                length = self._quota.seconds(each) / pace
                if starts and (end + length - begin > BLOCK_SECONDS or end - now >= patience):
                    break
                starts.append(end)
                end += length
            return replace(state, next=end, since=state.since + end - begin)

        state = self._change(reserve)
        return ReservedCalls(tuple(starts), state.cuts)

    # -- the item

    def _change(self, change: Callable[[_State, float], _State | None]) -> _State:
        """Applies a change to the newest state; none if it returns None. Returns the resulting state."""
        for attempt in range(_CONFLICTS if self._table else 0):
            try:
                state = self._read_shared()
                changed = change(state, self._clock())
                if changed is None:
                    return state
                self._write_shared(changed)
            except ConditionFailedError:  # another worker was faster
                self.sleep(random.uniform(0, 0.01 * 2 ** min(attempt, 6)))  # noqa: S311 - spreads retries
            except ThrottledError:
                raise
            except StoreUnavailableError as exc:
                log.warning("the shared speed limit is unavailable, this process uses its own: %s", exc)
                break
            else:
                with self._lock:
                    self._own = changed
                return changed
        with self._lock:
            self._own = change(self._own, self._clock()) or self._own
            return self._own

    def _read(self) -> _State:
        try:
            return self._read_shared() if self._table else self._own
        except StoreUnavailableError:
            return self._own

    def _read_shared(self) -> _State:
        assert self._table
        return _state(self._table().get(self._key) or {})

    def _write_shared(self, state: _State) -> None:
        assert self._table
        condition: Condition = Equals("revision", state.revision) if state.revision else KeyAbsent()
        item = asdict(replace(state, revision=state.revision + 1))
        expires = int(self._clock() + _KEPT_SECONDS)
        self._table().put({**self._key, **item, "expiresAt": expires}, condition=condition)


def _state(item: Mapping[str, Any]) -> _State:
    return _State(**{name: item[name] for name in _State.__slots__ if name in item})


# -- metrics


@contextmanager
def reported_limits(limits: Mapping[str, SpeedLimit], report: Report) -> Iterator[None]:
    """Reports throttled calls of the block, and the time that it waited for its turn; nothing if it called no model."""

    def counted() -> tuple[int, float]:
        known = list(limits.values())
        return sum(one.throttled_calls for one in known), sum(one.waited_seconds for one in known)

    throttled, waited = counted()
    try:
        yield
    finally:
        throttled, waited = counted()[0] - throttled, counted()[1] - waited
        if limits:
            report(Metric.EMBEDDING_THROTTLES, float(throttled))
            report(Metric.EMBEDDING_WAIT, waited)

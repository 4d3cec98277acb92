"""Bedrock's InvokeModel with the quota of an account, on a clock that tests move.

The quota is shared by all callers, in requests and in tokens a minute, each a bucket that is full at the beginning and holds
`burst_seconds` of the quota. A call that finds too little in a bucket is throttled, and takes nothing out.
"""

from __future__ import annotations

import heapq
import io
import json
import math
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from botocore.exceptions import ClientError

DIMENSION = 256
CALL_SECONDS = 0.15


@dataclass
class _Bucket:
    """`per_minute` units flow in; 0 for a bucket without a limit."""

    per_minute: float
    burst_seconds: float
    at: float
    level: float = field(init=False)

    def __post_init__(self) -> None:
        self.level = self._size

    @property
    def _size(self) -> float:
        return max(1.0, self.per_minute / 60 * self.burst_seconds)

    def has(self, units: float, now: float) -> bool:
        self.level = min(self._size, self.level + (now - self.at) * self.per_minute / 60)
        self.at = now
        return not self.per_minute or self.level >= units - 1e-9

    def take(self, units: float) -> None:
        self.level -= units


class QuotaDouble:
    """A client of `bedrock-runtime` for Titan V2 and Cohere Embed v4 that answers after `seconds`, within the quota.

    `others` is the share of the quota that other callers use steadily. `slow` and `malformed` number the calls (from 1) that
    take twenty times as long, and that get a reply without a vector. `embedded` counts the calls for each text, `throttled`
    those that were refused.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        *,
        requests_per_minute: float = 0,
        tokens_per_minute: float = 0,
        burst_seconds: float = 1.0,
        others: float = 0.0,
        seconds: float = CALL_SECONDS,
        slow: frozenset[int] = frozenset(),
        malformed: frozenset[int] = frozenset(),
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._requests = _Bucket(requests_per_minute, burst_seconds, clock())
        self._tokens = _Bucket(tokens_per_minute, burst_seconds, clock())
        self._others, self._others_at = others * requests_per_minute / 60, clock()
        self._seconds, self._slow, self._malformed = seconds, slow, malformed
        self.embedded: Counter[str] = Counter()
        self.calls = 0
        self.throttled = 0

    def invoke_model(self, *, body: str, **_: str) -> dict[str, Any]:
        request = json.loads(body)
        texts = [request["inputText"]] if "inputText" in request else request["texts"]
        self._let_others_call()
        self.calls += 1
        number, now, tokens = self.calls, self._clock(), sum(len(text) // 4 for text in texts)
        if not (self._requests.has(1, now) and self._tokens.has(tokens, now)):
            self.throttled += 1
            self._sleep(0.02)
            raise ClientError(
                {"Error": {"Code": "ThrottlingException", "Message": "Too many requests, please wait"}}, "InvokeModel"
            )
        self._requests.take(1)
        self._tokens.take(tokens)
        self.embedded.update(texts)
        self._sleep(self._seconds * (20 if number in self._slow else 1))
        vectors = (
            []
            if number in self._malformed
            else [a_vector(text, request.get("dimensions", DIMENSION)) for text in texts]
        )
        return {"body": io.BytesIO(json.dumps(_reply(request, vectors)).encode())}

    def _let_others_call(self) -> None:
        """Takes what others called since the last call; they are throttled like everybody else."""
        now = self._clock()
        due = math.floor((now - self._others_at) * self._others)
        for _ in range(due):
            self._others_at += 1 / self._others
            if self._requests.has(1, self._others_at):
                self._requests.take(1)


def a_vector(text: str, dimension: int) -> list[float]:
    vector = [0.0] * dimension
    vector[hash(text) % dimension] = 1.0
    return vector


def _reply(request: dict[str, Any], vectors: list[list[float]]) -> dict[str, Any]:
    if "inputText" in request:
        return {"embedding": vectors[0]} if vectors else {}
    return {"embeddings": {"float": vectors}}


class VirtualTime:
    """A `clock` and a `sleep` for threads that were started by `spawn`; `run` returns when all have ended.

    Deterministic: of threads that wake at the same time, the one that fell asleep first runs first.
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.started = self.now = now
        self._sleepers: list[tuple[float, int, threading.Semaphore]] = []
        self._numbers = count()
        self._control = threading.Semaphore(0)
        self._mine = threading.local()
        self._errors: list[BaseException] = []

    @property
    def elapsed(self) -> float:
        return self.now - self.started

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        turn = getattr(self._mine, "turn", None) or threading.Semaphore(0)
        self._mine.turn = turn  # of a thread that works for one of these, which waits for it
        self._enqueue(seconds, turn)
        self._control.release()
        turn.acquire()

    def spawn(self, work: Callable[[], None]) -> None:
        turn = threading.Semaphore(0)

        def run() -> None:
            self._mine.turn = turn
            turn.acquire()
            try:
                work()
            except BaseException as exc:  # noqa: BLE001 - raised again by `run`
                self._errors.append(exc)
            finally:
                self._control.release()

        threading.Thread(target=run, daemon=True).start()
        self._enqueue(0.0, turn)

    def run(self) -> None:
        """Runs all threads to their end. Raises the error of the first one that fails."""
        while self._sleepers and not self._errors:
            self.now, _, turn = heapq.heappop(self._sleepers)
            turn.release()
            self._control.acquire()
        if self._errors:
            raise self._errors[0]

    def _enqueue(self, seconds: float, turn: threading.Semaphore) -> None:
        heapq.heappush(self._sleepers, (self.now + max(0.0, seconds), next(self._numbers), turn))

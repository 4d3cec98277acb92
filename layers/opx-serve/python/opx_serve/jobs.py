"""Jobs: requests that a server performs beside the connection that they came by, and reports the progress of.

A request to a route of an operation with the header `Prefer: respond-async` (RFC 7240) is answered with 202 and a job.
`GET /jobs/{id}` has its state and, at the end, its reply; `GET /jobs/{id}/events` streams the steps as server-sent events.
`DELETE /jobs/{id}` ends it at its next step.
Jobs are this process's: they end with it, and what they do continues when it is requested again. A client may use a part of
what is limited, so that others have the rest.
"""

from __future__ import annotations

import itertools
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from opx.domain.ids import iso_time
from opx.domain.record import Json
from opx.edges.http import reply
from opx.operations.context import Caller
from opx_serve.routes import JOB_SECONDS, Answers, Raw

PREFIX = "/jobs"
PREFERENCE = "respond-async"
MOST_RUNNING, RUNNING_OF_A_CLIENT = 16, 4
"""Jobs at once. Requests wait for no job: each has a thread of its own."""

KEPT = 100
"""Ended jobs of a client whose replies are kept."""

MOST_STEPS = 1000
"""Steps of a job that are kept; the oldest are dropped."""

MOST_STREAMS, STREAMS_OF_A_CLIENT = 64, 16
"""Streams at once, of the server's connections."""

_POLL_SECONDS = 0.2
_ALIVE_SECONDS = 15.0
"""Pause after which a comment is sent, so that proxies don't close a stream in which nothing happens."""


class JobCancelled(BaseException):
    """Ends a job that was cancelled, or took too long, where it reports its next step. No `except Exception` of an operation
    holds it back."""


@dataclass(frozen=True, slots=True)
class JobStep:
    """A step of a job; numbers count from 1."""

    number: int
    text: str
    count: int


@dataclass
class Job:
    """A request in progress, or its reply. Steps are added in its own thread."""

    job_id: str
    request: str
    caller: Caller
    started: float
    steps: list[JobStep] = field(default_factory=list)
    reply: Json | None = None
    is_cancelled: bool = False
    ends: float = field(default_factory=lambda: time.monotonic() + JOB_SECONDS)

    def note(self, text: str, count: int) -> None:
        """Adds a step. Raises `JobCancelled` if the job was cancelled, or is late."""
        if self.is_cancelled or time.monotonic() > self.ends:
            raise JobCancelled
        number = self.steps[-1].number + 1 if self.steps else 1
        self.steps = [*self.steps[-MOST_STEPS + 1 :], JobStep(number, text, count)]

    def view(self) -> Json:
        """The state as JSON; `status` and `result` are those of the reply."""
        found, steps = self.reply, self.steps
        last = steps[-1] if steps else JobStep(0, "", 0)
        return {
            "jobId": self.job_id,
            "request": self.request,
            "state": self._state,
            "startedAt": iso_time(self.started),
            "step": last.text,
            "count": last.count,
            "status": found["statusCode"] if found else 0,
            "result": json.loads(found["body"]) if found else None,
        }

    @property
    def _state(self) -> str:
        """`cancelling` until the next step of a cancelled job; one that reports no more steps is done all the same."""
        if self.reply is None:
            return "cancelling" if self.is_cancelled else "running"
        if self.reply is CANCELLED:
            return "cancelled"
        return "done" if self.reply["statusCode"] < 400 else "failed"


_CANCELLED = "it was cancelled; what was done is kept: start it again to go on"
CANCELLED = reply(409, {"error": {"code": "cancelled", "message": _CANCELLED}})
"""The reply of a cancelled job."""

_LATE = f"it took more than {JOB_SECONDS / 3600:.0f} hours; what was done is kept: start it again to go on"
LATE = reply(504, {"error": {"code": "too_slow", "message": _LATE}})
"""The reply of a job that took too long."""


class Jobs:
    """The jobs of a server, by caller."""

    def __init__(self, answers: Answers, clock: Callable[[], float] = time.time) -> None:
        self._answers = answers
        self._clock = clock
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self.streams: Counter[str] = Counter()
        """Open streams by client."""

    def start(self, raw: Raw, caller: Caller) -> Job | None:
        """Begins a job; None if too many are running, of the client or together."""
        client = caller.identity.client_id
        with self._lock:
            running = Counter(job.caller.identity.client_id for job in self._jobs.values() if job.reply is None)
            if running.total() >= MOST_RUNNING or running[client] >= RUNNING_OF_A_CLIENT:
                return None
            job = Job(secrets.token_hex(8), f"{raw.method} {raw.path[:200]}", caller, self._clock())
            self._forget(client)
            self._jobs[job.job_id] = job

        def work() -> None:
            try:
                job.reply = self._answers.answer(raw, caller, job.note)[1]
            except JobCancelled:
                job.reply = CANCELLED if job.is_cancelled else LATE

        threading.Thread(target=work, name=f"job {job.job_id}", daemon=True).start()
        return job

    def _forget(self, client: str) -> None:
        """Drops the oldest ended jobs of a client, so that one more may be kept."""
        ended = [
            job.job_id
            for job in self._jobs.values()
            if job.reply is not None and job.caller.identity.client_id == client
        ]
        for job_id in ended[: max(0, len(ended) - KEPT + 1)]:
            del self._jobs[job_id]

    def may_stream(self, caller: Caller) -> bool:
        """False if too many streams are open, of the client or together."""
        return self.streams.total() < MOST_STREAMS and self.streams[caller.identity.client_id] < STREAMS_OF_A_CLIENT

    def get(self, job_id: str, caller: Caller) -> Job | None:
        """A job of this caller's."""
        job = self._jobs.get(job_id)
        return job if job and job.caller == caller else None

    def of(self, caller: Caller) -> list[Job]:
        """The jobs of a caller, the newest first."""
        with self._lock:
            return [job for job in reversed(self._jobs.values()) if job.caller == caller]


async def events(jobs: Jobs, job: Job, after: int, is_stopping: Callable[[], bool]) -> AsyncIterator[str]:
    """The steps of a job behind a number as server-sent events, and its view as the event `end`. Ends when the job does, and
    when the server stops."""
    client = job.caller.identity.client_id
    jobs.streams[client] += 1
    try:
        yield "retry: 1000\n\n"
        for turn in itertools.count(1):
            ended, steps = job.reply, job.steps
            for step in steps:
                if step.number > after:
                    yield _event("step", {"step": step.text, "count": step.count}, step.number)
                    after = step.number
            if ended is not None:
                yield _event("end", job.view(), after)
                return
            if is_stopping():
                return
            if turn % round(_ALIVE_SECONDS / _POLL_SECONDS) == 0:
                yield ":\n\n"
            await anyio.sleep(_POLL_SECONDS)
    finally:
        jobs.streams[client] -= 1


def _event(kind: str, data: Any, number: int) -> str:
    return f"event: {kind}\nid: {number}\ndata: {json.dumps(data)}\n\n"


def prefers_job(preference: str) -> bool:
    """True for a header `Prefer` that asks for a job."""
    return PREFERENCE in (part.strip().lower() for part in preference.replace(";", ",").split(","))

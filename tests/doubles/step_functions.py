"""AWS Step Functions: moto's interpreter of the Amazon States Language, with functions that are called in this process.

Four things are added to the interpreter: time passes only on the clock of the test, a distributed map fails if more of its
children fail than is tolerated (moto counts them and goes on), an execution that is stopped starts no more children, and a
map may have any number of them.
"""

from __future__ import annotations

import io
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto.stepfunctions.parser.api import HistoryEventType
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import StatesErrorNameType
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.distributed_iteration_component import (
    DistributedIterationComponent,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.itemprocessor import (
    distributed_item_processor_worker,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import WaitFunction

from opx_testing.fake_time import FakeTime
from tests.support.fakes import FakeContext

INTERPRETED: Any = {"stepfunctions": {"execute_state_machine": True}}
"""Configuration of moto."""

ROLE = "arn:aws:iam::123456789012:role/bulk-machine"
LARGEST_PAYLOAD = 262_144
"""Bytes of the input or result of a state."""

Handler = Callable[[Any, Any], Any]


class Killed(BaseException):
    """Ends a function as the end of its process does: nothing in the library catches it."""


class Kill:
    """Kills the first call of a stage at its request number `at` to AWS: that one and all after it are not made.

    Requests of other threads of the call, which are under way, are.
    """

    def __init__(self, stage: str, at: int) -> None:
        self._stage = stage
        self._at = at
        self._requests: dict[int, int] = {}
        self.killed = False

    def begin(self, event: dict[str, Any]) -> None:
        self._requests.pop(threading.get_ident(), None)
        if event["stage"] == self._stage and not self.killed:
            self._requests[threading.get_ident()] = 0

    def end(self) -> None:
        """Another call may have a thread of the same number."""
        self._requests.pop(threading.get_ident(), None)

    def count(self) -> None:
        """Counts a request of this thread."""
        here = threading.get_ident()
        if here in self._requests:
            self._requests[here] += 1
            if self._requests[here] >= self._at:
                self.killed = True
                raise Killed


@dataclass
class Context(FakeContext):
    """Of a call with most of its time left."""

    left: int = 880_000

    def get_remaining_time_in_millis(self) -> int:
        return self.left


@dataclass
class Functions:
    """Lambda: calls handlers by their functions' names, with what JSON leaves of their events and results.

    `before` is called with each event and may raise `Killed`, or wait; `after` at the end of each call. `calls` counts
    events by stage and shard.
    """

    handlers: dict[str, Handler]
    before: Callable[[dict[str, Any]], None] = lambda _event: None
    after: Callable[[], None] = lambda: None
    left: int = 880_000
    calls: Counter[tuple[str, object]] = field(default_factory=Counter)
    results: list[tuple[dict[str, Any], Any]] = field(default_factory=list)
    most_at_once: int = 0
    _running: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def invoke(self, *, FunctionName: str, Payload: bytes | str, **_: Any) -> dict[str, Any]:  # noqa: N803
        event = json.loads(Payload)
        with self._lock:
            self.calls[event.get("stage", ""), event.get("shard")] += 1
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
        handler = self.handlers[FunctionName.rpartition(":")[2]]
        try:
            self.before(event)
            answer = handler(event, Context(self.left))
        except Killed:
            message = "RequestId: 1 Error: Runtime exited with error: signal: killed"
            return _failed("Runtime.ExitError", message)
        except Exception as exc:  # noqa: BLE001 - as the runtime does
            return _failed(type(exc).__name__, str(exc))
        finally:
            self.after()
            with self._lock:
                self._running -= 1
        body = json.dumps(answer).encode()
        assert len(body) < LARGEST_PAYLOAD
        self.results.append((event, answer))
        return {"StatusCode": 200, "ExecutedVersion": "$LATEST", "Payload": io.BytesIO(body)}


def _failed(kind: str, message: str) -> dict[str, Any]:
    body = json.dumps({"errorType": kind, "errorMessage": message, "stackTrace": []}).encode()
    return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": io.BytesIO(body)}


@dataclass
class StateMachine:
    """A state machine in moto. `arn` is what `Settings` has."""

    client: Any
    arn: str
    functions: Functions

    def start(self, name: str, given: Mapping[str, Any]) -> str:
        started = self.client.start_execution(stateMachineArn=self.arn, name=name, input=json.dumps(given))
        return str(started["executionArn"])

    def ended(self, execution: str, seconds: float = 600.0, every: float = 0.2) -> dict[str, Any]:
        """Waits for the end of an execution; returns its description. Each look takes the interpreter time."""
        last = time.monotonic() + seconds
        while time.monotonic() < last:
            found: dict[str, Any] = self.client.describe_execution(executionArn=execution)
            if found["status"] != "RUNNING":
                return found
            time.sleep(every)
        raise AssertionError(f"{execution} is still running: {self.functions.calls}")

    def names(self, execution: str) -> list[str]:
        """Names of the states that the execution entered."""
        history = self.client.get_execution_history(executionArn=execution)["events"]
        return [event["stateEnteredEventDetails"]["name"] for event in history if "stateEnteredEventDetails" in event]


@contextmanager
def a_state_machine(
    aws: boto3.Session, definition: str, functions: Functions, clock: FakeTime, name: str = "opx-knowledge-bulk"
) -> Iterator[StateMachine]:
    """A state machine of this definition, in an account that moto mocks as `INTERPRETED`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lambda_eval_utils, "boto_client_for", lambda **_: functions)
        patch.setattr(retrier_decl, "time", SimpleNamespace(sleep=clock.sleep))
        patch.setattr(WaitFunction, "_wait_interval", lambda _, env, wait_seconds: _wait(env, wait_seconds, clock))
        patch.setattr(DistributedIterationComponent, "_map_run", _tolerating)
        patch.setattr(DistributedItemProcessorWorker, "_eval_job", _unless_stopped)
        patch.setattr(DistributedItemProcessorWorker, "_eval_pool", _one_after_the_other)
        client = aws.client("stepfunctions")
        made = client.create_state_machine(name=name, definition=definition, roleArn=ROLE)
        yield StateMachine(client, made["stateMachineArn"], functions)


def _wait(env: Any, seconds: float, clock: FakeTime) -> None:
    if env.is_running():
        clock.sleep(seconds)


DistributedItemProcessorWorker = distributed_item_processor_worker.DistributedItemProcessorWorker
_run = DistributedIterationComponent._map_run


def _tolerating(component: Any, env: Any, eval_input: Any) -> None:
    """Runs a map, and fails if it has more failures than it tolerates."""
    _run(component, env, eval_input)
    counted = eval_input.map_run_record.item_counter
    failed, total = counted.failed.get(), counted.total.get()
    if env.is_running() and failed * 100 > total * eval_input.tolerated_failure_percentage:
        error = "States.ExceedToleratedFailureThreshold"
        cause = "The specified tolerated failure threshold was exceeded"
        details: Any = {"mapRunFailedEventDetails": {"error": error, "cause": cause}}
        raise FailureEventException(
            FailureEvent(
                env=env,
                error_name=StatesErrorName(StatesErrorNameType.StatesExceedToleratedFailureThreshold),
                event_type=HistoryEventType.MapRunFailed,
                event_details=details,
            )
        )


_work = DistributedItemProcessorWorker._eval_job


def _unless_stopped(worker: Any, env: Any, job: Any) -> None:
    """Runs a child, unless its execution was stopped meanwhile."""
    if env.is_running():
        _work(worker, env, job)


def _one_after_the_other(worker: Any, job: Any, worker_frame: Any) -> None:
    """Runs children until there are no more. moto's worker calls itself for each: a thousand exceed Python's stack."""
    while job is not None:
        frame = worker_frame.open_inner_frame()
        worker._eval_job(env=frame, job=job)
        worker_frame.delete_frame(frame)
        ends = isinstance(job.job_output, Exception) or worker.stopped()
        following = None if ends else worker._job_pool.next_job()
        if following is None:  # before the job is closed, as the map's environment goes on then
            worker._env.delete_frame(worker_frame)
        worker._job_pool.close_job(job)
        job = following

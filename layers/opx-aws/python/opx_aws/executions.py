"""Runs the stages of bulk jobs by executions of a state machine of AWS Step Functions."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from opx_aws.vendor_errors import passed_over, translated_errors

TOLERATED_PERCENT = 5
"""Share of a stage's children that may fail for good; their documents are failed items. Beyond it the execution fails, since
the cause is likely to be the same for all."""

_MISSING = "ExecutionDoesNotExist"
_FAILED = ("FAILED", "TIMED_OUT", "ABORTED")
_CAUSE_CHARACTERS = 300


class StateMachineRunner:
    """`BulkRunner` whose executions are named for their job, `JOB-1` and so on: each further one continues the job.

    So many `children` work at once in a stage.
    """

    def __init__(self, client: Any, state_machine: str, *, children: int, tolerated: int = TOLERATED_PERCENT) -> None:
        self._client = client
        self._machine = state_machine
        self._children = children
        self._tolerated = tolerated

    def start(self, job_id: str) -> str:
        given = json.dumps({"job": job_id, "children": self._children, "tolerated": self._tolerated})
        for number in count(1):
            name = f"{job_id}-{number}"
            found = self._described(self._arn(name))
            if found and found["status"] == "RUNNING":
                return str(found["executionArn"])
            if found:
                continue
            started = {"executionArn": self._arn(name)}  # by another caller, a moment ago
            with translated_errors(f"start the bulk job {job_id}"), passed_over("ExecutionAlreadyExists"):
                started = self._client.start_execution(stateMachineArn=self._machine, name=name, input=given)
            return str(started["executionArn"])
        raise AssertionError("numbers end")

    def problem(self, execution_id: str) -> str:
        found = self._described(execution_id)
        if found is None:
            return "its execution is gone: Step Functions keeps executions for 90 days"
        if found["status"] not in _FAILED:
            return ""
        error, cause = str(found.get("error", "")), _readable(str(found.get("cause", "")))
        words = [part for part in (error, cause) if part]
        return f"its execution {found['status'].lower().replace('_', ' ')}" + (f": {': '.join(words)}" if words else "")

    def cancel(self, execution_id: str) -> None:
        with translated_errors("stop a bulk job"), passed_over(_MISSING):
            self._client.stop_execution(executionArn=execution_id, cause="the bulk job was cancelled")

    def _arn(self, name: str) -> str:
        return f"{self._machine.replace(':stateMachine:', ':execution:')}:{name}"

    def _described(self, execution: str) -> dict[str, Any] | None:
        with translated_errors("look at a bulk job's execution"), passed_over(_MISSING):
            found: dict[str, Any] = self._client.describe_execution(executionArn=execution)
            return found
        return None


def _readable(cause: str) -> str:
    """The message of a function's error, if the cause is one."""
    try:
        found = json.loads(cause)
    except ValueError:
        found = None
    message = str(found.get("errorMessage", "")) if isinstance(found, dict) else cause
    return message[:_CAUSE_CHARACTERS]

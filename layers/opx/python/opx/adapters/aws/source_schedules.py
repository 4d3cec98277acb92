"""Schedules of registered sources in EventBridge Scheduler."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from opx.adapters.aws.vendor_errors import error_code, passed_over, translated_errors
from opx.domain.sources import SourceDefinition
from opx.sources.schedules import JITTER_MINUTES, scheduler_cron

if TYPE_CHECKING:
    from mypy_boto3_scheduler import EventBridgeSchedulerClient


@dataclass(frozen=True, slots=True)
class PullTarget:
    """The queue that pulls are asked for in, and the role with which the scheduler may do that."""

    queue_arn: str
    role_arn: str
    dead_letters_arn: str


class EventBridgeSchedules:
    """A schedule a source, named `source-<id>`, in the group of the environment."""

    def __init__(self, client: EventBridgeSchedulerClient, group: str, target: PullTarget) -> None:
        self._client = client
        self._group = group
        self._target = target

    def put(self, definition: SourceDefinition) -> None:
        if not (definition.schedule and definition.enabled):
            self.delete(definition.source_id)
            return
        wanted = self._wanted(definition)
        with translated_errors(f"schedule pulls of {definition.source_id}"):
            try:
                self._client.update_schedule(**wanted)
            except ClientError as exc:
                if error_code(exc) != "ResourceNotFoundException":
                    raise
                self._client.create_schedule(**wanted)

    def delete(self, source_id: str) -> None:
        with translated_errors(f"stop pulls of {source_id}"), passed_over("ResourceNotFoundException"):
            self._client.delete_schedule(Name=_name(source_id), GroupName=self._group)

    def _wanted(self, definition: SourceDefinition) -> dict[str, Any]:
        target = self._target
        return {
            "Name": _name(definition.source_id),
            "GroupName": self._group,
            "Description": f"Pull {definition.source_id}, which was registered",
            "ScheduleExpression": scheduler_cron(definition.schedule),
            "ScheduleExpressionTimezone": definition.time_zone,
            "FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": JITTER_MINUTES},
            "Target": {
                "Arn": target.queue_arn,
                "RoleArn": target.role_arn,
                "Input": json.dumps({"source": definition.source_id}),
                "DeadLetterConfig": {"Arn": target.dead_letters_arn},
            },
        }


def _name(source_id: str) -> str:
    return f"source-{source_id}"

"""Schedules pulls of sources with EventBridge, and maps streams to the function that consumes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from opx.connectors.states import JITTER_MINUTES, scheduler_cron
from opx.domain.sources import SourceDefinition, StreamDefinition, StreamKind
from opx.errors import InvalidInputError
from opx_aws.event_source_mappings import mapping_of
from opx_aws.vendor_errors import error_code, passed_over, translated_errors

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_scheduler import EventBridgeSchedulerClient


@dataclass(frozen=True, slots=True)
class PullTarget:
    """The queue of pull requests, and the role with which the scheduler may send to it."""

    queue_arn: str
    role_arn: str
    dead_letters_arn: str


class EventBridgeSchedules:
    """A schedule per source, named `source-<id>`, in the group of the environment."""

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


_FIXED = (
    "AmazonManagedKafkaEventSourceConfig",
    "EventSourceArn",
    "SelfManagedEventSource",
    "SelfManagedKafkaEventSourceConfig",
    "StartingPosition",
    "Topics",
)
"""Properties that can't be changed in a mapping."""

_REFUSED = ("InvalidParameterValueException", "ResourceConflictException", "ResourceInUseException")


class EventSourceMappings:
    """Makes Lambda read streams for `function`, whose role must be permitted to. Discarded records are noted in the
    queue with the ARN `failed`."""

    def __init__(self, client: LambdaClient, function: str, *, failed: str = "") -> None:
        self._client = client
        self._function = function
        self._failed = failed

    def put(self, definition: StreamDefinition) -> str:
        """Creates or replaces the stream's mapping. Returns its id."""
        if definition.kind is StreamKind.REDIS:
            raise InvalidInputError(f"stream {definition.name}: Redis is read by `opx run`, not by a function")
        wanted = mapping_of(definition, self._function, failed=self._failed)
        with _refusals(definition), translated_errors(f"subscribe to {definition.source}"):
            known = self._known(definition)
            if known is None:
                return self._client.create_event_source_mapping(FunctionName=self._function, **wanted)["UUID"]
            changes = {name: value for name, value in wanted.items() if name not in _FIXED}
            changes.setdefault("FilterCriteria", {"Filters": []})  # omitted properties would keep their old value
            self._client.update_event_source_mapping(UUID=known["UUID"], **changes)
            return str(known["UUID"])

    def delete(self, definition: StreamDefinition) -> None:
        """Deletes the stream's mapping; no-op if there is none."""
        with _refusals(definition), translated_errors(f"end the subscription to {definition.source}"):
            known = self._known(definition)
            if known:
                self._client.delete_event_source_mapping(UUID=known["UUID"])

    def _known(self, definition: StreamDefinition) -> Any:
        pages = self._client.get_paginator("list_event_source_mappings").paginate(FunctionName=self._function)
        for page in pages:
            for mapping in page["EventSourceMappings"]:
                brokers = mapping.get("SelfManagedEventSource", {}).get("Endpoints", {}).get("KAFKA_BOOTSTRAP_SERVERS")
                source = "kafka://" + ",".join(brokers) if brokers else mapping.get("EventSourceArn", "")
                if definition.is_of(source, "".join(mapping.get("Topics", []))):
                    return mapping
        return None


@contextmanager
def _refusals(definition: StreamDefinition) -> Iterator[None]:
    """Translates Lambda's refusals of a stream, such as that the function's role may not read it."""
    try:
        yield
    except ClientError as exc:
        if error_code(exc) in _REFUSED:
            raise InvalidInputError(f"stream {definition.name}: {exc.response['Error']['Message']}") from exc
        raise

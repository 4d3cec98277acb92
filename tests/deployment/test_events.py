"""What runs at fixed times, and what is handed on between parts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from tests.deployment.system import System, eventually


def test_every_enabled_schedule_calls_its_function_with_the_rights_of_its_role(system: System) -> None:
    """Second schedules with the targets of those that were deployed, and a time that comes soon."""
    scheduler = system.emulator.client("scheduler")
    group = system.names.schedule_group
    names = [found["Name"] for found in scheduler.list_schedules(GroupName=group, State="ENABLED")["Schedules"]]
    targets = [scheduler.get_schedule(GroupName=group, Name=name)["Target"] for name in names]
    assert targets
    soon = datetime.now(UTC) + timedelta(seconds=1)
    for number, target in enumerate(targets):
        scheduler.create_schedule(
            GroupName=group,
            Name=f"soon-{number}",
            ScheduleExpression=f"at({soon:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target=target,
        )
    for function in {target["Arn"].split(":")[6] for target in targets}:
        eventually(lambda function=function: system.log(function))  # type: ignore[misc]
        assert not [line for line in system.log(function) if '"ERROR"' in line or "Traceback" in line]


def test_a_learning_event_waits_in_the_queue_of_the_learning_loop(system: System) -> None:
    event = {"Source": "opx.learning", "DetailType": "Outcome", "Detail": json.dumps({"ticket": "OPS-1"})}
    answer = system.emulator.client("events").put_events(Entries=[{**event, "EventBusName": system.names.learning_bus}])
    assert answer["FailedEntryCount"] == 0
    eventually(lambda: system.waiting("learning") == 1)

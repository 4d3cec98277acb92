"""Scheduled calls, and events between functions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from opx.ingestion.events import ObjectEvent
from opx.ports.tables import ANNOUNCEMENTS, STAGING
from tests.deployment.system import SystemUnderTest, eventually


def test_every_enabled_schedule_calls_its_function_with_the_rights_of_its_role(system: SystemUnderTest) -> None:
    """Second schedules with the targets of those that were deployed, and a time that comes soon."""
    scheduler = system.emulator.client("scheduler")
    group = system.names.schedule_group
    names = [found["Name"] for found in scheduler.list_schedules(GroupName=group, State="ENABLED")["Schedules"]]
    targets = [scheduler.get_schedule(GroupName=group, Name=name)["Target"] for name in names]
    assert targets
    targets = [target for target in targets if ":lambda:" in target["Arn"]]  # the others are queues
    functions = {target["Arn"].split(":")[6] for target in targets}
    before = {function: len(system.log(function)) for function in functions}
    soon = datetime.now(UTC) + timedelta(seconds=1)
    for number, target in enumerate(targets):
        scheduler.create_schedule(
            GroupName=group,
            Name=f"soon-{number}",
            ScheduleExpression=f"at({soon:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target=target,
        )
    for function in functions:
        eventually(lambda function=function: system.log(function)[before[function] :])  # type: ignore[misc]
        lines = system.log(function)[before[function] :]
        assert not [line for line in lines if '"ERROR"' in line or "Traceback" in line]


def test_a_learning_event_is_captured(system: SystemUnderTest) -> None:
    detail = {"project_id": "shop", "gate_type": "design_review", "approved_approach": "One queue a client."}
    event = {"Source": "opx.learning", "DetailType": "GateApproved", "Detail": json.dumps(detail)}
    answer = system.emulator.client("events").put_events(Entries=[{**event, "EventBusName": system.names.learning_bus}])
    assert answer["FailedEntryCount"] == 0
    captured = eventually(lambda: system.items(STAGING))
    assert [item["approved_approach"]["S"] for item in captured] == ["One queue a client."]


def test_announced_change_is_in_the_ledger_until_it_is_ingested(system: SystemUnderTest) -> None:
    """The ledger's queue delays what the bucket announces: here, announcements are sent without a delay. The second one is
    of an object that is gone."""
    key = "documents/runbooks/winch.md"
    system.put(key, "# Winch cable frayed\n\nReplace the cable of the winch.")
    system.ingested(key, "Replace the cable")
    change, gone = (ObjectEvent(name, False, "F" * 16).to_json() for name in (key, "documents/runbooks/gone.md"))
    for event in (gone, change):
        system.sqs.send_message(QueueUrl=system.queue("announcements"), MessageBody=event, DelaySeconds=0)
    rows = eventually(lambda: system.items(ANNOUNCEMENTS), seconds=120)
    assert [row["objectKey"]["S"] for row in rows] == [key]
    system.sqs.send_message(QueueUrl=system.queue("ingest"), MessageBody=change)
    eventually(lambda: not system.items(ANNOUNCEMENTS))

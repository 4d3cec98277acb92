"""CloudWatch alarms, as CloudWatch publishes them to an SNS topic ("Notifying users on alarm changes")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from opx.webhooks.deliveries import refuse_deep
from opx.webhooks.errors import PayloadError
from opx.webhooks.payloads.shape import Change, document, metadata, moment, needed, part, rows_at, text_at, value_at


def alarm_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """The alarm in a message of SNS. Raises `PayloadError` for a message that is none."""
    try:
        found = json.loads(str(message.get("Message")))
    except (ValueError, RecursionError) as exc:
        raise PayloadError("the topic's message is no CloudWatch alarm: it is not JSON") from exc
    if not isinstance(found, dict):
        raise PayloadError("the topic's message is no CloudWatch alarm: it is not a JSON object")
    refuse_deep(found)
    return found


def event_of(alarm: Mapping[str, Any]) -> str:
    """`ALARM`, `OK` or `INSUFFICIENT_DATA`."""
    return needed(alarm, "NewStateValue")


def changes_of(alarm: Mapping[str, Any]) -> list[Change]:
    """The alarm as it is now."""
    name = needed(alarm, "AlarmName")
    account, region = text_at(alarm, "AWSAccountId"), text_at(alarm, "Region")
    time = moment(needed(alarm, "StateChangeTime"), "StateChangeTime")
    namespace, metric = text_at(alarm, "Trigger", "Namespace"), text_at(alarm, "Trigger", "MetricName")
    dimensions = [
        f"{text_at(each, 'name')} = {text_at(each, 'value')}" for each in rows_at(alarm, "Trigger", "Dimensions")
    ]
    facts = [
        ("State", event_of(alarm)),
        ("Before", text_at(alarm, "OldStateValue")),
        ("Since", time),
        ("Account", account),
        ("Region", region),
        ("Metric", f"{namespace} {metric}".strip()),
        ("Dimensions", ", ".join(dimensions)),
        ("Rule", text_at(alarm, "AlarmRule")),
    ]
    sections = [("Description", text_at(alarm, "AlarmDescription")), ("Reason", text_at(alarm, "NewStateReason"))]
    return [
        Change(
            key=f"{part(account or 'account')}/{part(text_at(alarm, 'AlarmArn') or region or 'region')}/{part(name)}",
            time=time,
            text=document(f"CloudWatch alarm {name}", facts, sections),
            metadata=metadata(
                tags=["cloudwatch", event_of(alarm), region],
                updated=time,
                services=[str(value_at(each, "value") or "") for each in rows_at(alarm, "Trigger", "Dimensions")],
            ),
        )
    ]

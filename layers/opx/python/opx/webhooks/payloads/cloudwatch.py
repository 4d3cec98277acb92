"""CloudWatch alarms, as CloudWatch publishes them to an SNS topic ("Notifying users on alarm changes"): on a metric, on
an expression over several ("Using metric math"), and on other alarms ("Combining alarms")."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from opx.webhooks.deliveries import refuse_deep
from opx.webhooks.errors import PayloadError
from opx.webhooks.payloads.shape import (
    Change,
    document,
    metadata,
    moment,
    needed,
    one_line,
    part,
    rows_at,
    text_at,
    value_at,
)


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
    metrics = _metrics(alarm)
    dimensions = [each for metric in metrics for each in rows_at(metric, "Dimensions")]
    facts = [
        ("State", event_of(alarm)),
        ("Before", text_at(alarm, "OldStateValue")),
        ("Since", time),
        ("Account", account),
        ("Region", region),
        ("Metric", _listed(_called(metric) for metric in metrics)),
        ("Dimensions", _listed(_pair(each) for each in dimensions)),
        ("Rule", text_at(alarm, "AlarmRule")),
    ]
    sections = [
        ("Description", text_at(alarm, "AlarmDescription")),
        ("Reason", text_at(alarm, "NewStateReason")),
        ("Metrics", "\n".join(_query(row) for row in rows_at(alarm, "Trigger", "Metrics"))),
        ("Triggered by", "\n".join(_child(row) for row in rows_at(alarm, "TriggeringChildren"))),
    ]
    return [
        Change(
            key=f"{part(account or 'account')}/{part(text_at(alarm, 'AlarmArn') or region or 'region')}/{part(name)}",
            time=time,
            text=document(f"CloudWatch alarm {name}", facts, sections),
            metadata=metadata(
                tags=["cloudwatch", event_of(alarm), region],
                updated=time,
                services=[text_at(each, "value") for each in dimensions],
            ),
        )
    ]


def _metrics(alarm: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The metric of the trigger, or those that its expression is over."""
    found = [value_at(alarm, "Trigger")]
    found += [value_at(row, "MetricStat", "Metric") for row in rows_at(alarm, "Trigger", "Metrics")]
    return [each for each in found if isinstance(each, Mapping) and _called(each)]


def _called(metric: Mapping[str, Any]) -> str:
    return f"{text_at(metric, 'Namespace')} {text_at(metric, 'MetricName')}".strip()


def _pair(dimension: Mapping[str, Any]) -> str:
    return f"{text_at(dimension, 'name')} = {text_at(dimension, 'value')}"


def _query(row: Mapping[str, Any]) -> str:
    """A line for a metric, or for the expression that its `Id` stands for."""
    metric = value_at(row, "MetricStat", "Metric")
    if isinstance(metric, Mapping):
        statistic = " ".join(filter(None, (text_at(row, "MetricStat", "Stat"), "of", _called(metric))))
        dimensions = _listed(_pair(each) for each in rows_at(metric, "Dimensions"))
        said = f"{statistic} ({dimensions})" if dimensions else statistic
    else:
        said = f"`{' '.join(text_at(row, 'Expression').split())}`"
    label = one_line(text_at(row, "Label"))
    return f"- {text_at(row, 'Id')}: {one_line(said)}" + (f", called {label}" if label else "")


def _child(row: Mapping[str, Any]) -> str:
    """A line for an alarm that made this one change."""
    arn, since = text_at(row, "Arn"), text_at(row, "State", "Timestamp")
    name = arn.partition(":alarm:")[2] or arn
    return one_line(f"- {name}: {text_at(row, 'State', 'Value')}" + (f" since {since}" if since else ""))


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))

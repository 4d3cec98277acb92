"""Converts CloudWatch alarms that were published to an SNS topic ("Notifying users on alarm changes") to documents:
alarms on a metric, on an expression over several ("Using metric math"), and on other alarms ("Combining alarms")."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import field

from opx.connectors.deliveries import (
    DocumentUpdate,
    PayloadError,
    document,
    metadata,
    moment,
    one_line,
    part,
    read_payload,
    refuse_deep,
)
from opx.formats.data.replies import Loose, NeededWords, Shape, Words


class _Dimension(Shape, frozen=True):
    name: Words = ""
    value: Words = ""

    @property
    def pair(self) -> str:
        return f"{self.name} = {self.value}"


class _Metric(Shape, frozen=True, rename="pascal"):
    namespace: Words = ""
    metric_name: Words = ""
    dimensions: tuple[_Dimension, ...] = ()

    @property
    def called(self) -> str:
        return f"{self.namespace} {self.metric_name}".strip()


class _MetricStat(Shape, frozen=True, rename="pascal"):
    metric: Loose[_Metric | None] = None
    stat: Words = ""


class _Query(Shape, frozen=True, rename="pascal"):
    """A metric, or an expression over others."""

    id: Words = ""
    label: Words = ""
    expression: Words = ""
    metric_stat: Loose[_MetricStat] = _MetricStat()


class _Trigger(_Metric, frozen=True, rename="pascal"):
    metrics: tuple[_Query, ...] = ()


class _ChildState(Shape, frozen=True, rename="pascal"):
    value: Words = ""
    timestamp: Words = ""


class _Child(Shape, frozen=True, rename="pascal"):
    """An alarm that triggered the state change of a composite alarm."""

    arn: Words = ""
    state: Loose[_ChildState] = _ChildState()


class _State(Shape, frozen=True, rename="pascal"):
    new_state_value: NeededWords


class _Alarm(_State, frozen=True, rename="pascal"):
    alarm_name: NeededWords
    state_change_time: NeededWords
    account: Words = field(default="", name="AWSAccountId")
    region: Words = ""
    alarm_arn: Words = ""
    old_state_value: Words = ""
    alarm_rule: Words = ""
    alarm_description: Words = ""
    new_state_reason: Words = ""
    trigger: Loose[_Trigger] = _Trigger()
    triggering_children: tuple[_Child, ...] = ()


def alarm_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the alarm in an SNS message. Raises `PayloadError` for a message without one."""
    try:
        found = json.loads(str(message.get("Message")))
    except (ValueError, RecursionError) as exc:
        raise PayloadError("the topic's message is not a CloudWatch alarm: it is not JSON") from exc
    if not isinstance(found, dict):
        raise PayloadError("the topic's message is not a CloudWatch alarm: it is not a JSON object")
    refuse_deep(found)
    return found


def event_of(alarm: Mapping[str, Any]) -> str:
    """State of the alarm: `ALARM`, `OK` or `INSUFFICIENT_DATA`."""
    return read_payload(_State, alarm).new_state_value


def changes_of(alarm: Mapping[str, Any]) -> list[DocumentUpdate]:
    """Returns one document with the alarm's current state."""
    found = read_payload(_Alarm, alarm)
    time = moment(found.state_change_time, "StateChangeTime")
    metrics = _metrics(found.trigger)
    dimensions = [each for metric in metrics for each in metric.dimensions]
    facts = [
        ("State", found.new_state_value),
        ("Before", found.old_state_value),
        ("Since", time),
        ("Account", found.account),
        ("Region", found.region),
        ("Metric", _listed(metric.called for metric in metrics)),
        ("Dimensions", _listed(each.pair for each in dimensions)),
        ("Rule", found.alarm_rule),
    ]
    sections = [
        ("Description", found.alarm_description),
        ("Reason", found.new_state_reason),
        ("Metrics", "\n".join(map(_query, found.trigger.metrics))),
        ("Triggered by", "\n".join(map(_child, found.triggering_children))),
    ]
    location = part(found.alarm_arn or found.region or "region")
    return [
        DocumentUpdate(
            key=f"{part(found.account or 'account')}/{location}/{part(found.alarm_name)}",
            time=time,
            text=document(f"CloudWatch alarm {found.alarm_name}", facts, sections),
            metadata=metadata(
                tags=["cloudwatch", found.new_state_value, found.region],
                updated=time,
                services=[each.value for each in dimensions],
            ),
        )
    ]


def _metrics(trigger: _Trigger) -> list[_Metric]:
    """Metrics of the trigger: its own, or those that its expression uses."""
    found = [trigger, *(row.metric_stat.metric for row in trigger.metrics)]
    return [each for each in found if each is not None and each.called]


def _query(row: _Query) -> str:
    """Markdown line for a metric, or for the expression that its `Id` stands for."""
    metric = row.metric_stat.metric
    if metric is not None:
        statistic = " ".join(filter(None, (row.metric_stat.stat, "of", metric.called)))
        dimensions = _listed(each.pair for each in metric.dimensions)
        shown = f"{statistic} ({dimensions})" if dimensions else statistic
    else:
        shown = f"`{' '.join(row.expression.split())}`"
    label = one_line(row.label)
    return f"- {row.id}: {one_line(shown)}" + (f", called {label}" if label else "")


def _child(row: _Child) -> str:
    """Markdown line for an alarm that triggered the state change."""
    name = row.arn.partition(":alarm:")[2] or row.arn
    since = row.state.timestamp
    return one_line(f"- {name}: {row.state.value}" + (f" since {since}" if since else ""))


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))

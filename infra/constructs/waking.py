"""Calls that wake a sleeping collection before the questions come, if chosen: by alarms, incidents, and a timetable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.constructs.queues import dead_letter_queue
from infra.constructs.schedules import Schedules
from infra.names import Names
from opx.domain.sources import WebhookDefinition
from opx.ingestion.events import CREATED, DOCUMENTS_FOLDER
from opx.retrieval.waking import WAKE
from opx.runtime.knowledge_file import load_knowledge
from opx_streams.webhooks.definitions import load_webhooks
from opx_streams.webhooks.formats import reports_incidents
from opx_streams.webhooks.receiving import FOLDER

EVERY_MINUTES = 8
"""A collection stops after ten idle minutes."""

DAYS = {"weekdays": "MON-FRI", "daily": "*"}


class Waking(Construct):
    """Rules and a schedule that call the function with `WAKE`."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, function_arn: str) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self._function_arn = function_arn
        if not (names.deployment.wake_on_alarms or names.deployment.awake):
            return
        self._failed = dead_letter_queue(self, "Failed", names.queue("waking-failed"), of="EventBridge")
        if names.deployment.wake_on_alarms:
            self._rule("Alarms", "Alarms of this account that go off", _ALARMS)
            incidents = incident_deliveries(names)
            if incidents:
                self._rule("Incidents", "Deliveries of incidents and alerts", incidents)
        if names.deployment.awake:
            self._timetable()

    def _rule(self, name: str, description: str, pattern: events.EventPattern) -> None:
        function = lambda_.Function.from_function_attributes(
            self, f"{name}Function", function_arn=self._function_arn, same_environment=True
        )
        target = targets.LambdaFunction(
            function,
            dead_letter_queue=self._failed,
            event=events.RuleTargetInput.from_object(dict(WAKE)),
            # A later call would wake the collection for nobody.
            max_event_age=Duration.minutes(1),
            retry_attempts=2,
        )
        events.Rule(
            self, name, description=f"{description} wake the search index", event_pattern=pattern, targets=[target]
        )

    def _timetable(self) -> None:
        deployment = self._names.deployment
        first, last = deployment.awake_hours
        days = DAYS[deployment.awake.partition(" ")[0]]
        schedules = Schedules(
            self,
            "Schedules",
            names=self._names,
            target=self._function_arn,
            action="lambda:InvokeFunction",
            dead_letters=self._failed,
        )
        schedules.add(
            "keep-awake",
            f"cron(0/{EVERY_MINUTES} {first}-{last - 1} ? * {days} *)",
            description="Keep the search index awake",
            payload=WAKE,
            time_zone=deployment.awake_zone,
            on_time=True,
        )


_ALARMS = events.EventPattern(
    source=["aws.cloudwatch"],
    detail_type=["CloudWatch Alarm State Change"],
    detail={"state": {"value": ["ALARM"]}},
)


def incident_deliveries(
    names: Names, webhooks: Mapping[str, WebhookDefinition] | None = None
) -> events.EventPattern | None:
    """The pattern of objects that webhooks for incidents and alerts write; None if none is declared and deployed."""
    if not names.deployment.webhooks:
        return None
    declared = load_webhooks(load_knowledge()) if webhooks is None else webhooks
    keys: list[Mapping[str, Any]] = [
        {"wildcard": f"*{DOCUMENTS_FOLDER}{one.category}/{FOLDER}/{one.name}/*"}
        for one in declared.values()
        if reports_incidents(one.format)
    ]
    if not keys:
        return None
    detail = {"bucket": {"name": [names.corpus_bucket]}, "object": {"key": keys}}
    return events.EventPattern(source=["aws.s3"], detail_type=[CREATED], detail=detail)

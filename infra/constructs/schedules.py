"""Schedules of EventBridge Scheduler that invoke a function or send to a queue."""

from __future__ import annotations

import json
from collections.abc import Mapping

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from infra.constructs import rights
from infra.constructs.queues import dead_letter_queue
from infra.names import Names
from opx.connectors.states import JITTER_MINUTES

RETRIES = 3
KEPT_SECONDS = 3600
"""Seconds for which the scheduler retries a call before it goes to the dead letters."""

_FLEXIBLY = scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="FLEXIBLE", maximum_window_in_minutes=JITTER_MINUTES)
_EXACTLY = scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF")
REPEATED, REPEATED_SECONDS = 2, 6 * 3600
"""Lambda's own retries of an asynchronous call that failed, and the seconds for which it keeps the call: its maxima."""


class Schedules(Construct):
    """Schedules with one target: a queue with `sqs:SendMessage`, or a function with `lambda:InvokeFunction`.

    The scheduler's role may do that, and send undelivered calls to `dead_letters`. The group of this environment
    (`Names.schedule_group`, created by the sources stack) has to exist.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        target: str,
        action: str,
        dead_letters: sqs.IQueue,
        role_name: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self._target = target
        self._dead_letters = dead_letters
        self.role = iam.Role(self, "Role", role_name=role_name, assumed_by=_scheduler(names))
        self.role.add_to_policy(rights.allow([action], target))
        self.role.add_to_policy(rights.allow(["sqs:SendMessage"], dead_letters.queue_arn))

    def add(
        self,
        name: str,
        expression: str,
        *,
        description: str,
        payload: Mapping[str, object] | None = None,
        enabled: bool = True,
        time_zone: str = "UTC",
        on_time: bool = False,
    ) -> scheduler.CfnSchedule:
        """Sends `payload` at the times of `expression`, if `enabled`; within `JITTER_MINUTES` of them unless `on_time`."""
        return scheduler.CfnSchedule(
            self,
            name,
            name=name,
            group_name=self._names.schedule_group,
            description=description,
            schedule_expression=expression,
            schedule_expression_timezone=time_zone,
            state="ENABLED" if enabled else "DISABLED",
            flexible_time_window=_EXACTLY if on_time else _FLEXIBLY,
            target=scheduler.CfnSchedule.TargetProperty(
                arn=self._target,
                role_arn=self.role.role_arn,
                input=json.dumps(dict(payload or {}), sort_keys=True),
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(arn=self._dead_letters.queue_arn),
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=KEPT_SECONDS, maximum_retry_attempts=RETRIES
                ),
            ),
        )


def _scheduler(names: Names) -> iam.IPrincipal:
    """The scheduler on behalf of this environment's schedules, and of nobody else's."""
    return iam.PrincipalWithConditions(
        iam.ServicePrincipal("scheduler.amazonaws.com"),
        {"ArnLike": {"aws:SourceArn": names.schedule_group_arn}},
    )


def invocations(
    scope: Construct,
    construct_id: str,
    *,
    names: Names,
    function_arn: str,
    failed: tuple[str, str],
    function: IDependable | None = None,
) -> Schedules:
    """Schedules that invoke a function. `failed` are construct id and name of the queue for calls that the scheduler could
    not deliver, and for those that failed each time; `function_arn` and `function` are as for `keep_failed_calls`."""
    queue_id, queue = failed
    dead_letters = dead_letter_queue(scope, queue_id, names.queue(queue), of="the scheduler and of failed calls")
    keep_failed_calls(scope, f"{queue_id}Calls", function_arn=function_arn, queue=dead_letters, function=function)
    return Schedules(
        scope,
        construct_id,
        names=names,
        target=function_arn,
        action="lambda:InvokeFunction",
        dead_letters=dead_letters,
    )


def keep_failed_calls(
    scope: Construct, construct_id: str, *, function_arn: str, queue: sqs.IQueue, function: IDependable | None = None
) -> None:
    """Sends asynchronous calls of a function that failed each time to a queue; Lambda would drop them.

    `function_arn` is made of the function's name, and may end with an alias: the configuration is that of the alias. The
    function's role needs `sqs:SendMessage` on the queue, which Lambda checks; `function`, if it is in the same stack,
    comes before.
    """
    name, _, alias = function_arn.partition(":function:")[2].partition(":")
    kept = lambda_.CfnEventInvokeConfig(
        scope,
        construct_id,
        function_name=name,
        qualifier=alias or "$LATEST",
        maximum_retry_attempts=REPEATED,
        maximum_event_age_in_seconds=REPEATED_SECONDS,
        destination_config=lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
            on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(destination=queue.queue_arn)
        ),
    )
    if function:
        kept.node.add_dependency(function)

"""The state machine of bulk jobs: its definition in the Amazon States Language, its role and its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.constructs.batch_inference import FOLDER
from infra.constructs.keeping import removal_policy
from infra.constructs.use_case_function import LOG_RETENTION
from infra.names import Names

JOB = "$$.Execution.Input.job"
_BUSY = ["ServiceBusyError", "Lambda.TooManyRequestsException"]
_LAMBDA = ["Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException", "Lambda.Unknown"]

_RETRY = [
    {
        "ErrorEquals": _BUSY,
        "IntervalSeconds": 20,
        "BackoffRate": 2.0,
        "MaxDelaySeconds": 300,
        "MaxAttempts": 40,
        "JitterStrategy": "FULL",
    },
    {"ErrorEquals": _LAMBDA, "IntervalSeconds": 2, "BackoffRate": 2.0, "MaxAttempts": 6, "JitterStrategy": "FULL"},
    {
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 5,
        "BackoffRate": 3.0,
        "MaxAttempts": 3,
        "JitterStrategy": "FULL",
    },
]
"""A busy model, index or table is called again for about three hours at most; what fails otherwise, or is killed, three
times. The function continues where the failed call ended, as every stage does."""

ATTEMPTS = 4
"""Calls for a shard after which it counts as failed, if it neither ends nor is busy."""

_RECORD = "Record failure"
_OF_JOB = {"job.$": JOB}
_LIMITS = {"children.$": "$$.Execution.Input.children", "tolerated.$": "$$.Execution.Input.tolerated"}
_OF_FAILURE = {"execution.$": "$$.Execution.Name", "error.$": "$.failure.Error", "cause.$": "$.failure.Cause"}


def definition(function: str, bucket: str, partition: str) -> dict[str, Any]:
    """The states. An execution's input is `{"job": ..., "children": N, "tolerated": PERCENT}`.

    A stage that one call can't finish is called again (`finished` false) after `waitSeconds`. A failure is recorded in the
    job; a redrive of the execution, or another one of the same job, then continues from the first stage that lacks results.
    """
    services = f"arn:{partition}:states:::"
    states: dict[str, Any] = {
        **_turns("list", function, services, then="Prepare"),
        **_shards("prepare", function, bucket, services, then=_called("embed")),
        **_turns("embed", function, services, then="Apply"),
        **_shards("apply", function, bucket, services, then=_called("finish")),
        **_turns("finish", function, services, then="Done"),
        "Done": {"Type": "Succeed"},
        _RECORD: {
            **_invoke("fail", function, services, {**_OF_JOB, **_OF_FAILURE}),
            # Reached by a redrive, and for a job that was ended: the call that records a failure fails itself.
            "Next": "Is list finished?",
        },
    }
    return {"Comment": "Bulk ingestion and reindexing", "StartAt": _called("list"), "States": states}


def _called(stage: str) -> str:
    return stage.capitalize()


def _invoke(stage: str, function: str, services: str, more: Mapping[str, str]) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": f"{services}lambda:invoke",
        "Parameters": {"FunctionName": function, "Payload": {"stage": stage, **more}},
        "ResultSelector": {f"{name}.$": f"$.Payload.{name}" for name in ("finished", "waitSeconds", "ended")},
        "ResultPath": "$.turn",
        "TimeoutSeconds": 960,
    }


def _until_finished(
    stage: str, function: str, services: str, more: Mapping[str, str], following: Mapping[str, Any]
) -> dict[str, Any]:
    """A task that is repeated until the stage is finished; `following` are the fields of its end."""
    name = _called(stage)
    finished, waiting = f"Is {stage} finished?", f"Wait for {stage}"
    return {
        name: {**_invoke(stage, function, services, more), "Retry": _RETRY, "Next": finished},
        finished: {
            "Type": "Choice",
            "Choices": [{"Variable": "$.turn.finished", "BooleanEquals": True, "Next": f"End of {stage}"}],
            "Default": waiting,
        },
        waiting: {"Type": "Wait", "SecondsPath": "$.turn.waitSeconds", "Next": name},
        f"End of {stage}": {"Type": "Pass", **following},
    }


def _turns(stage: str, function: str, services: str, *, then: str) -> dict[str, Any]:
    states = _until_finished(stage, function, services, _OF_JOB, {"Parameters": _LIMITS, "Next": then})
    states[_called(stage)]["Catch"] = _CATCH
    states[f"Is {stage} finished?"]["Choices"].insert(0, _ENDED)
    return states


_ENDED = {"Variable": "$.turn.ended", "BooleanEquals": True, "Next": "Done"}
"""Of a job that was cancelled, or was done before: its files are gone."""

_CATCH = [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.failure", "Next": _RECORD}]


def _shards(stage: str, function: str, bucket: str, services: str, *, then: str) -> dict[str, Any]:
    """A child execution for each shard of the job's list in S3."""
    own = {
        "job.$": "$.job",
        "shard.$": "$.shard",
        "retries.$": "$$.State.RetryCount",
    }  # `$$.Execution` is the child's own
    child = _until_finished(stage, function, services, own, {"Result": {}, "End": True})
    processing = {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},  # EXPRESS ends after five minutes
        "StartAt": _called(stage),
        "States": child,
    }
    return {
        _called(stage): {
            "Type": "Map",
            "Label": _called(stage),
            "ItemReader": {
                "Resource": f"{services}s3:getObject",
                "ReaderConfig": {"InputType": "JSON"},
                "Parameters": {"Bucket": bucket, "Key.$": f"States.Format('bulk/{{}}/shards.json', {JOB})"},
            },
            "ItemSelector": {"job.$": JOB, "shard.$": "$$.Map.Item.Value.number"},
            "ItemProcessor": processing,
            "MaxConcurrencyPath": "$.children",
            "ToleratedFailurePercentagePath": "$.tolerated",
            "ResultWriter": {
                "Resource": f"{services}s3:putObject",
                "Parameters": {"Bucket": bucket, "Prefix.$": f"States.Format('bulk/{{}}/runs', {JOB})"},
            },
            "ResultPath": None,
            "Catch": _CATCH,
            "Next": then,
        }
    }


class BulkMachine(Construct):
    """A standard state machine that may call one function, read and write the folder of bulk jobs, and start its own
    children."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, function_arn: str) -> None:
        super().__init__(scope, construct_id)
        self.log_group = logs.LogGroup(
            self,
            "Log",
            log_group_name=f"/aws/vendedlogs/states/{names.state_machine}",
            retention=LOG_RETENTION,
            removal_policy=removal_policy(ephemeral=names.deployment.ephemeral),
        )
        self.role = iam.Role(
            self,
            "Role",
            role_name=names.role("bulk_machine"),
            assumed_by=iam.ServicePrincipal(
                "states.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            ),
        )
        policy = iam.Policy(self, "Rights", roles=[self.role], statements=_rights(names, function_arn))
        self._acknowledge(names, policy)
        self.machine = sfn.CfnStateMachine(
            self,
            "StateMachine",
            state_machine_name=names.state_machine,
            state_machine_type="STANDARD",
            role_arn=self.role.role_arn,
            definition_string=Stack.of(self).to_json_string(
                definition(function_arn, names.corpus_bucket, Aws.PARTITION)
            ),
            logging_configuration=sfn.CfnStateMachine.LoggingConfigurationProperty(
                level="ALL",
                include_execution_data=False,
                destinations=[
                    sfn.CfnStateMachine.LogDestinationProperty(
                        cloud_watch_logs_log_group=sfn.CfnStateMachine.CloudWatchLogsLogGroupProperty(
                            log_group_arn=self.log_group.log_group_arn
                        )
                    )
                ],
            ),
            tracing_configuration=sfn.CfnStateMachine.TracingConfigurationProperty(enabled=True),
        )
        self.machine.node.add_dependency(policy)

    @staticmethod
    def _acknowledge(names: Names, policy: iam.Policy) -> None:
        acknowledge_wildcard(policy, "*", "deliveries of logs and traces are no resources: their actions take none")
        reason = "executions and objects have no names known at deployment; they are this state machine's own"
        for own in (f"{names.corpus_arn}/{FOLDER}", *_executions(names)):
            acknowledge_wildcard(policy, own, reason)


_DELIVERIES = (
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
)
"""Step Functions developer guide, "Logging in CloudWatch Logs" and "Trace data in AWS X-Ray"."""


def _executions(names: Names) -> list[str]:
    return [names.executions_arn, f"{names.state_machine_arn.replace(':stateMachine:', ':execution:')}/*"]


def _rights(names: Names, function_arn: str) -> list[iam.PolicyStatement]:
    """Starting itself is for children, which are executions of `NAME/LABEL`; redriving is for those that failed."""
    return [
        rights.allow(["lambda:InvokeFunction"], function_arn),
        rights.allow(["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"], f"{names.corpus_arn}/{FOLDER}"),
        rights.allow(["s3:ListMultipartUploadParts"], f"{names.corpus_arn}/{FOLDER}"),
        rights.allow(["states:StartExecution"], names.state_machine_arn),
        rights.allow(
            ["states:DescribeExecution", "states:RedriveExecution", "states:StopExecution"], *_executions(names)
        ),
        rights.allow(_DELIVERIES, "*"),
    ]

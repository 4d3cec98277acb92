"""Settings and rights of the function that starts, lists and cancels bulk jobs for the HTTP API, if there are any."""

from __future__ import annotations

from aws_cdk import aws_iam as iam

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.constructs.batch_inference import FOLDER, ROLE, acknowledge_jobs, stopping_rights
from infra.names import Names

ON_WORKING_FILES = ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject")


def settings(names: Names) -> dict[str, str]:
    """Settings of functions that start and cancel bulk jobs."""
    if not names.deployment.bulk:
        return {}
    deployment = names.deployment
    quotas = {key: getattr(deployment, key) for key in ("batch_fewest_records", "batch_most_records", "batch_jobs")}
    return {
        "bulk_state_machine": names.state_machine_arn,
        "bulk_batch_role": names.role_arn(ROLE),
        "bulk_children": str(deployment.bulk_children),
        **{key: str(value) for key, value in quotas.items() if value},
    }


def working_files(names: Names) -> iam.PolicyStatement:
    """Rights on the folder of bulk jobs."""
    return rights.allow(ON_WORKING_FILES, f"{names.corpus_arn}/{FOLDER}")


def starting_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights to start executions, to look at them and to stop them, with the batch jobs that they started."""
    if not names.deployment.bulk:
        return []
    return [
        rights.allow(["states:StartExecution"], names.state_machine_arn),
        rights.allow(["states:DescribeExecution", "states:StopExecution"], names.executions_arn),
        working_files(names),
        *stopping_rights(),
    ]


def acknowledge(role: iam.Role, names: Names) -> None:
    """Acknowledges the wildcards in these rights."""
    if names.deployment.bulk:
        reason = "executions and objects have no names known at deployment; they are those of bulk jobs alone"
        acknowledge_wildcard(role, names.executions_arn, reason)
        acknowledge_wildcard(role, f"{names.corpus_arn}/{FOLDER}", reason)
        acknowledge_jobs(role)

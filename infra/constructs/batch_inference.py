"""The role in which Bedrock reads the texts of a batch job and writes their vectors, and the rights to run such jobs."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.names import Names

FOLDER = "bulk/*"
"""Objects of bulk jobs in the corpus bucket, as a pattern of keys."""

ROLE = "batch_inference"
_JOBS_REASON = "jobs have ids of the service; the model and the role that may be passed limit them"


def jobs_arn() -> str:
    return f"arn:{Aws.PARTITION}:bedrock:{Aws.REGION}:{Aws.ACCOUNT_ID}:model-invocation-job/*"


class BatchInferenceRole(Construct):
    """A role for batch inference jobs of this account and region, limited to the folder of bulk jobs."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        conditions = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}, "ArnLike": {"aws:SourceArn": jobs_arn()}}
        self.role = iam.Role(
            self,
            "Role",
            role_name=names.role(ROLE),
            assumed_by=iam.ServicePrincipal("bedrock.amazonaws.com", conditions=conditions),
        )
        listing = rights.allow(["s3:ListBucket"], names.corpus_arn)
        listing.add_conditions({"StringLike": {"s3:prefix": FOLDER}})
        objects = rights.allow(["s3:GetObject", "s3:PutObject"], f"{names.corpus_arn}/{FOLDER}")
        for right in (listing, objects, *rights.embed_texts(names)):
            self.role.add_to_policy(right)
        acknowledge_wildcard(self.role, f"{names.corpus_arn}/{FOLDER}", "objects have no names known at deployment")
        rights.acknowledge_texts(self.role, names)


def starting_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights to start jobs of the models of texts in that role, and to look after them."""
    pass_role = rights.allow(["iam:PassRole"], names.role_arn(ROLE))
    pass_role.add_condition("StringEquals", {"iam:PassedToService": "bedrock.amazonaws.com"})
    models = [arn for model in rights.text_models(names) for arn in rights.model_arns(model)]
    return [
        rights.allow(["bedrock:CreateModelInvocationJob"], *models, jobs_arn()),
        rights.allow(["bedrock:GetModelInvocationJob", "bedrock:StopModelInvocationJob"], jobs_arn()),
        rights.allow(["bedrock:ListModelInvocationJobs"], "*"),
        pass_role,
    ]


def stopping_rights() -> list[iam.PolicyStatement]:
    """Right of the function that cancels bulk jobs."""
    return [rights.allow(["bedrock:StopModelInvocationJob"], jobs_arn())]


def acknowledge_jobs(role: iam.Role) -> None:
    acknowledge_wildcard(role, jobs_arn(), _JOBS_REASON)

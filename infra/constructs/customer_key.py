"""Encryption of all stored data of an environment with a customer managed key."""

from __future__ import annotations

import json

import aws_cdk as cdk
import jsii
from aws_cdk import Aws, Stack
from aws_cdk import aws_backup as backup
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_opensearchserverless as aoss
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct, IConstruct

from infra.constructs import rights
from infra.constructs.backup_plan import BackupPlan
from infra.constructs.batch_inference import BatchInferenceRole
from infra.constructs.bulk_machine import BulkMachine
from infra.constructs.console_pages import ConsolePages
from infra.constructs.keeping import removal_policy
from infra.constructs.knowledge_base_role import KnowledgeBaseRole
from infra.constructs.schedules import Schedules
from infra.constructs.use_case_function import UseCaseFunction
from infra.names import Names

USE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")
SERVICES = ("cloudwatch", "delivery.logs", "events", "scheduler", "sns")
"""Services that write into encrypted queues and topics on the account's behalf."""

_WITHOUT_KEY = ("AccessLogs", "Pages")
"""S3 and CloudFront deliver access logs only into buckets encrypted with keys of S3; the console's page is no secret, and an
existing key wouldn't let CloudFront read it."""


def customer_key(scope: Construct, construct_id: str, *, names: Names) -> kms.Key:
    """A key for one environment, which rotates every year."""
    key = kms.Key(
        scope,
        construct_id,
        alias=names.key_alias,
        description=f"OPX Knowledge, environment {names.deployment.environment}",
        enable_key_rotation=True,
        removal_policy=removal_policy(ephemeral=names.deployment.ephemeral),
    )
    for statement in key_policy():
        key.add_to_resource_policy(statement)
    return key


def key_policy() -> list[iam.PolicyStatement]:
    """Statements that a key's policy needs besides its administration; an existing key needs them too."""
    logs_of_account = f"arn:{Aws.PARTITION}:logs:{Aws.REGION}:{Aws.ACCOUNT_ID}:log-group:*"
    return [
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(f"{service}.amazonaws.com") for service in SERVICES],
            actions=[*USE_KEY, "kms:DescribeKey", "kms:ReEncrypt*"],  # the last two for event buses and archives
            resources=["*"],
            conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
        ),
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(f"logs.{Aws.REGION}.amazonaws.com")],
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": logs_of_account}},
        ),
    ]


@jsii.implements(cdk.IAspect)
class EncryptWith:
    """Gives the key to every bucket, table, queue, topic, secret, log group, bus, function, vault and collection it visits.

    An aspect, so that nothing is forgotten: what a stack adds later is encrypted too. Roles of functions and of
    schedules may use it.
    """

    def __init__(self, arn: str) -> None:
        self._arn = arn

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, UseCaseFunction | Schedules | ConsolePages | BulkMachine | BatchInferenceRole):
            node.role.add_to_policy(rights.allow(USE_KEY, self._arn))
        elif isinstance(node, KnowledgeBaseRole):
            node.role.add_to_policy(rights.allow(["kms:Decrypt"], self._arn))
        elif isinstance(node, BackupPlan):
            self._allow_backups(node)
        elif isinstance(node, s3.CfnBucket | dynamodb.CfnTable | aoss.CfnSecurityPolicy):
            self._encrypt_store(node)
        else:
            self._encrypt_passing(node)

    def _allow_backups(self, node: BackupPlan) -> None:
        """The role reads tables and bucket, and AWS Backup writes copies in its name."""
        node.role.add_to_policy(rights.allow([*USE_KEY, "kms:DescribeKey"], self._arn))
        granting = rights.allow(["kms:CreateGrant"], self._arn)
        granting.add_conditions({"Bool": {"kms:GrantIsForAWSResource": "true"}})
        node.role.add_to_policy(granting)

    def _encrypt_store(self, node: s3.CfnBucket | dynamodb.CfnTable | aoss.CfnSecurityPolicy) -> None:
        if isinstance(node, s3.CfnBucket):
            if not set(_WITHOUT_KEY) & set(node.node.path.split("/")):
                node.bucket_encryption = self._bucket_encryption()
        elif isinstance(node, dynamodb.CfnTable):
            node.sse_specification = dynamodb.CfnTable.SSESpecificationProperty(
                sse_enabled=True, sse_type="KMS", kms_master_key_id=self._arn
            )
        elif node.type == "encryption":
            rules = json.loads(node.policy)["Rules"]
            node.policy = Stack.of(node).to_json_string({"Rules": rules, "AWSOwnedKey": False, "KmsARN": self._arn})

    def _encrypt_passing(self, node: IConstruct) -> None:
        """Encrypts queues, secrets, topics, log groups and buses."""
        if isinstance(node, sqs.CfnQueue):
            node.sqs_managed_sse_enabled = None
            node.kms_master_key_id = self._arn
            node.kms_data_key_reuse_period_seconds = 300
        elif isinstance(node, secretsmanager.CfnSecret):
            node.kms_key_id = self._arn
        elif isinstance(node, sns.CfnTopic):
            node.kms_master_key_id = self._arn
        elif isinstance(node, logs.CfnLogGroup):
            node.kms_key_id = self._arn
        elif isinstance(node, events.CfnEventBus | events.CfnArchive):
            node.kms_key_identifier = self._arn
        elif isinstance(node, lambda_.CfnFunction):
            node.kms_key_arn = self._arn
        elif isinstance(node, sfn.CfnStateMachine):
            node.encryption_configuration = sfn.CfnStateMachine.EncryptionConfigurationProperty(
                type="CUSTOMER_MANAGED_KMS_KEY", kms_key_id=self._arn, kms_data_key_reuse_period_seconds=300
            )
        elif isinstance(node, backup.CfnBackupVault):
            node.encryption_key_arn = self._arn

    def _bucket_encryption(self) -> s3.CfnBucket.BucketEncryptionProperty:
        rule = s3.CfnBucket.ServerSideEncryptionRuleProperty(
            bucket_key_enabled=True,
            server_side_encryption_by_default=s3.CfnBucket.ServerSideEncryptionByDefaultProperty(
                sse_algorithm="aws:kms", kms_master_key_id=self._arn
            ),
        )
        return s3.CfnBucket.BucketEncryptionProperty(server_side_encryption_configuration=[rule])

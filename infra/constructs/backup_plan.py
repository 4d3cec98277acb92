"""Recovery points of tables and bucket with AWS Backup: one a day, and one a month."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_backup as backup
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.constructs.keeping import removal_policy
from infra.names import Names
from opx.ports.tables import ALL_TABLES, ANNOUNCEMENTS, DELIVERIES, EMBEDDINGS, IDEMPOTENCY, WEB_CACHE

LEFT_OUT = (ANNOUNCEMENTS, DELIVERIES, EMBEDDINGS, IDEMPOTENCY, WEB_CACHE)
"""Tables that are caches, or about work in hand: an old state of them is of no use."""

BACKED_UP = tuple(spec for spec in ALL_TABLES if spec not in LEFT_OUT)

EVERY_DAY, EVERY_MONTH = "cron(0 3 * * ? *)", "cron(0 4 1 * ? *)"
MONTHLY_KEPT_DAYS = 365

_MANAGED_RULES = f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:rule/AwsBackupManagedRule*"
_SERVICE = "backup.amazonaws.com"


class BackupPlan(Construct):
    """A vault, a plan that fills it with copies of the corpus and of the tables that are no caches, and the role for that.

    The rights are those of AWS's policies for this (AWSBackupServiceRolePolicyForBackup, …ForS3Backup), on these resources.
    A vault with recovery points can't be deleted.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        self.vault = backup.CfnBackupVault(self, "Vault", backup_vault_name=names.backup_vault)
        self.vault.apply_removal_policy(removal_policy(ephemeral=names.deployment.ephemeral))
        self.role = self._role(names)
        plan = backup.CfnBackupPlan(
            self,
            "Plan",
            backup_plan=backup.CfnBackupPlan.BackupPlanResourceTypeProperty(
                backup_plan_name=names.backup_vault,
                backup_plan_rule=[
                    self._rule("daily", EVERY_DAY, names.deployment.backup_days),
                    self._rule("monthly", EVERY_MONTH, MONTHLY_KEPT_DAYS),
                ],
            ),
        )
        backup.CfnBackupSelection(
            self,
            "Selection",
            backup_plan_id=plan.ref,
            backup_selection=backup.CfnBackupSelection.BackupSelectionResourceTypeProperty(
                selection_name=names.backup_vault,
                iam_role_arn=self.role.role_arn,
                resources=[names.corpus_arn, *map(names.table_arn, BACKED_UP)],
            ),
        ).node.add_dependency(self.role)

    def _rule(self, name: str, schedule: str, days: int) -> backup.CfnBackupPlan.BackupRuleResourceTypeProperty:
        return backup.CfnBackupPlan.BackupRuleResourceTypeProperty(
            rule_name=name,
            target_backup_vault=self.vault.ref,
            schedule_expression=schedule,
            lifecycle=backup.CfnBackupPlan.LifecycleResourceTypeProperty(delete_after_days=days),
        )

    def _role(self, names: Names) -> iam.Role:
        account = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal(_SERVICE, conditions=account))
        copies = [f"{names.table_arn(spec)}/backup/*" for spec in BACKED_UP]
        objects = f"{names.corpus_arn}/*"
        for right in (
            rights.allow(_ON_TABLES, *map(names.table_arn, BACKED_UP)),
            rights.allow(["dynamodb:DeleteBackup", "dynamodb:DescribeBackup"], *copies),
            rights.allow(_ON_BUCKET, names.corpus_arn),
            rights.allow(_ON_OBJECTS, objects),
            rights.allow(_ON_RULES, _MANAGED_RULES),
            rights.allow(["backup:DescribeBackupVault"], self.vault.attr_backup_vault_arn),
            rights.allow(
                ["cloudwatch:GetMetricData", "events:ListRules", "s3:ListAllMyBuckets", "tag:GetResources"], "*"
            ),
        ):
            role.add_to_policy(right)
        for copy in copies:
            acknowledge_wildcard(role, copy, "backups of a table have no names known at deployment")
        acknowledge_wildcard(role, objects, "all objects of the corpus are backed up")
        acknowledge_wildcard(role, _MANAGED_RULES, "AWS Backup numbers the rules that it makes for changes of buckets")
        acknowledge_wildcard(role, "*", "metrics of buckets, and lists of rules, buckets and tags, are no resources")
        return role


_ON_TABLES = (
    "dynamodb:CreateBackup",
    "dynamodb:DescribeTable",
    "dynamodb:ListTagsOfResource",
    "dynamodb:StartAwsBackupJob",
)
_ON_BUCKET = (
    "s3:GetBucketAcl",
    "s3:GetBucketLocation",
    "s3:GetBucketNotification",
    "s3:GetBucketTagging",
    "s3:GetBucketVersioning",
    "s3:GetInventoryConfiguration",
    "s3:ListBucket",
    "s3:ListBucketVersions",
    "s3:ListTagsForResource",
    "s3:PutBucketNotification",
    "s3:PutInventoryConfiguration",
)
_ON_OBJECTS = (
    "s3:GetObject",
    "s3:GetObjectAcl",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionAcl",
    "s3:GetObjectVersionTagging",
)
_ON_RULES = (
    "events:DeleteRule",
    "events:DescribeRule",
    "events:DisableRule",
    "events:EnableRule",
    "events:ListTargetsByRule",
    "events:PutRule",
    "events:PutTargets",
    "events:RemoveTargets",
)

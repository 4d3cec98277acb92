"""Recovery points of tables and bucket."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from infra.configuration import ContextError, Deployment
from infra.constructs.backup_plan import BACKED_UP, LEFT_OUT
from opx.ports.tables import ALL_TABLES, AUDIT, DOCUMENTS, EMBEDDINGS
from tests.infra.templates import Assembly, lint_findings, listed

KEY_ARN = "arn:aws:kms:eu-central-1:111111111111:key/1b2c3d4e"


@pytest.fixture(scope="module")
def daily(make: Callable[..., Assembly]) -> Assembly:
    return make(backup="daily", backup_days="30", kms_key=KEY_ARN)


def test_a_day_is_kept_as_long_as_chosen_and_a_month_for_a_year(daily: Assembly) -> None:
    plan = daily.only("storage", "Backup::BackupPlan")["BackupPlan"]
    found = {
        rule["RuleName"]: (rule["ScheduleExpression"], rule["Lifecycle"]["DeleteAfterDays"])
        for rule in plan["BackupPlanRule"]
    }
    assert found == {"daily": ("cron(0 3 * * ? *)", 30), "monthly": ("cron(0 4 1 * ? *)", 365)}


def test_the_bucket_and_all_tables_but_caches_are_named(daily: Assembly) -> None:
    selected = daily.only("storage", "Backup::BackupSelection")["BackupSelection"]["Resources"]
    bucket, *tables = selected
    assert bucket == "arn:<AWS::Partition>:s3:::dev-opx-knowledge-corpus-<AWS::AccountId>-<AWS::Region>"
    assert {table.rsplit("/", 1)[1] for table in tables} == {f"dev-{spec.name}" for spec in BACKED_UP}
    assert {DOCUMENTS, AUDIT} <= set(BACKED_UP)
    assert EMBEDDINGS in LEFT_OUT
    assert len(BACKED_UP) + len(LEFT_OUT) == len(ALL_TABLES)


def test_the_bucket_has_versions_as_its_backups_need(daily: Assembly) -> None:
    versioned = [one.get("VersioningConfiguration") for one in daily.resources("storage", "S3::Bucket").values()]
    assert {"Status": "Enabled"} in versioned


def test_the_vault_stays_and_has_the_key(daily: Assembly) -> None:
    (vault,) = (r for _, _, r in daily.all_resources() if r["Type"] == "AWS::Backup::BackupVault")
    assert vault["DeletionPolicy"] == "RetainExceptOnCreate"
    assert vault["Properties"] == {
        "BackupVaultName": "dev-opx-knowledge",
        "EncryptionKeyArn": KEY_ARN,
        **{key: vault["Properties"][key] for key in ("BackupVaultTags",)},
    }


def test_the_role_may_do_exactly_this(daily: Assembly) -> None:
    policies = daily.resources("storage", "IAM::Policy").values()
    (policy,) = (one for one in policies if "dynamodb:StartAwsBackupJob" in json.dumps(one))
    anywhere = {
        action
        for statement in policy["PolicyDocument"]["Statement"]
        if "*" in listed(statement["Resource"])
        for action in listed(statement["Action"])
    }
    actions = {action for statement in policy["PolicyDocument"]["Statement"] for action in listed(statement["Action"])}
    assert anywhere == {"cloudwatch:GetMetricData", "events:ListRules", "s3:ListAllMyBuckets", "tag:GetResources"}
    assert not [one for one in actions if one.startswith(("s3:Delete", "s3:PutObject", "dynamodb:DeleteItem"))]
    assert {one for one in actions if one.startswith("dynamodb:")} == {
        "dynamodb:CreateBackup",
        "dynamodb:DeleteBackup",
        "dynamodb:DescribeBackup",
        "dynamodb:DescribeTable",
        "dynamodb:ListTagsOfResource",
        "dynamodb:StartAwsBackupJob",
    }
    (granting,) = (one for one in policy["PolicyDocument"]["Statement"] if "kms:CreateGrant" in listed(one["Action"]))
    assert granting["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}


def test_a_failed_copy_raises_an_alarm(daily: Assembly) -> None:
    alarms = daily.resources("observability", "CloudWatch::Alarm").values()
    (alarm,) = (one for one in alarms if one["AlarmName"] == "dev-opx-knowledge-backup-failed")
    metrics = [one["MetricStat"]["Metric"] for one in alarm["Metrics"] if "MetricStat" in one]
    assert {one["MetricName"] for one in metrics} == {
        "NumberOfBackupJobsAborted",
        "NumberOfBackupJobsExpired",
        "NumberOfBackupJobsFailed",
    }
    assert {str(one["Dimensions"]) for one in metrics} == {
        str([{"Name": "BackupVaultName", "Value": "dev-opx-knowledge"}])
    }


def test_the_templates_are_clean(daily: Assembly) -> None:
    assert daily.findings == []
    assert lint_findings(daily, "storage") == []


def test_nothing_is_backed_up_unless_chosen(default: Assembly) -> None:
    assert not [r["Type"] for _, _, r in default.all_resources() if r["Type"].startswith("AWS::Backup")]


@pytest.mark.parametrize(
    ("context", "reason"), [({"backup": "hourly"}, "none, daily"), ({"backup_days": "0"}, "1 or more")]
)
def test_other_values_are_refused(context: dict[str, str], reason: str) -> None:
    with pytest.raises(ContextError, match=reason):
        Deployment.from_context(context)

"""The nightly seal: when it is made, with which rights, and where its key is."""

from __future__ import annotations

from infra.constructs.layer_contents import ROOT
from opx.ports.tables import ALL_TABLES, ANNOUNCEMENTS, AUDIT, DOCUMENTS, GAPS, KEYS, LIFECYCLE
from opx.settings import Settings, env_name
from tests.infra.templates import Assembly, Resource
from tests.infra.test_ingestion import BUCKET, pairs, queue_arn, table_arns
from tests.infra.test_lifecycle import rights

FUNCTION = "dev-opx-seal-knowledge"
KEY = "dev-opx-seal/signing-key"
KEY_ARN = f"arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:{KEY}-??????"
SOURCES = "arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:dev-opx-knowledge/*"


def seal(assembly: Assembly) -> Resource:
    functions = assembly.resources("lifecycle", "Lambda::Function").values()
    (found,) = [function for function in functions if function["FunctionName"] == FUNCTION]
    return found


def without_indexes(arns: set[str]) -> set[str]:
    return {arn for arn in arns if "/index/" not in arn}


def test_the_function_reads_what_an_archive_has_and_writes_seals_alone(default: Assembly) -> None:
    logs = seal(default)["LoggingConfig"]["LogGroup"].strip("<>")
    folders = {f"{BUCKET}/{prefix}{kind}/*" for prefix in ("", "clients/*/") for kind in ("documents", "chunks")}
    archived = table_arns(*(spec for spec in ALL_TABLES if spec.archived), AUDIT, GAPS)
    assert rights(default, "SealSealKnowledgeRole") == (
        pairs("logs:CreateLogStream PutLogEvents", {f"<{logs}.Arn>"})
        | pairs("xray:PutTelemetryRecords PutTraceSegments", {"*"})
        | pairs("s3:ListBucket", {BUCKET})
        | pairs("s3:GetObject", folders)
        | pairs("dynamodb:BatchGetItem GetItem Query Scan", table_arns(DOCUMENTS))
        | pairs("dynamodb:BatchGetItem", table_arns(KEYS))
        | pairs("dynamodb:Query", table_arns(ANNOUNCEMENTS))
        | pairs("dynamodb:Scan", without_indexes(archived))
        | pairs("dynamodb:DeleteItem GetItem PutItem Query Scan", table_arns(LIFECYCLE))
        | pairs("secretsmanager:GetSecretValue", {KEY_ARN})
        | pairs("sqs:SendMessage", {queue_arn("seal-failed")})
    )


def test_its_environment_makes_valid_settings_and_nothing_else(default: Assembly) -> None:
    variables = seal(default)["Environment"]["Variables"]
    assert set(variables) <= {env_name(name) for name in Settings.__struct_fields__}
    settings = Settings.from_environ(variables)
    assert (settings.backend, settings.table_prefix, settings.signing_key) == ("aws", "dev-", f"secretsmanager:{KEY}")


def test_the_key_has_an_empty_secret_that_no_other_function_may_read(default: Assembly) -> None:
    (secret,) = default.resources("lifecycle", "SecretsManager::Secret").values()
    assert secret["Name"] == KEY
    assert not {"SecretString", "GenerateSecretString"} & set(secret)
    readers = [
        resource
        for stack in default.written
        for policy in default.resources(stack, "IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if "secretsmanager:GetSecretValue" in statement["Action"]
        for resource in ([statement["Resource"]] if isinstance(statement["Resource"], str) else statement["Resource"])
    ]
    assert sorted(set(readers)) == [SOURCES, KEY_ARN]
    assert readers.count(KEY_ARN) == 1


def test_it_is_called_every_night_and_what_fails_is_kept(default: Assembly) -> None:
    schedules = default.resources("lifecycle", "Scheduler::Schedule").values()
    (found,) = [schedule for schedule in schedules if schedule["Name"] == "seal-knowledge"]
    assert (found["ScheduleExpression"], found["State"]) == ("cron(10 3-6 * * ? *)", "ENABLED")
    assert found["Target"]["Input"] == "{}", "nothing is accepted by a schedule"
    queues = default.resources("lifecycle", "SQS::Queue")
    (queue,) = [name for name, queue in queues.items() if queue["QueueName"] == "dev-opx-knowledge-seal-failed"]
    assert found["Target"]["DeadLetterConfig"]["Arn"] == f"<{queue}.Arn>"


def test_a_contradicted_or_failed_seal_has_an_alarm(default: Assembly) -> None:
    alarms = {alarm["AlarmName"] for alarm in default.resources("observability", "CloudWatch::Alarm").values()}
    wanted = ("seal-contradicted", "function-seal-knowledge", "dead-letters-seal-failed")
    assert {f"dev-opx-knowledge-{name}" for name in wanted} <= alarms


def test_the_handler_that_is_deployed_exists() -> None:
    assert (ROOT / "lambdas" / "seal_knowledge" / "handler.py").is_file()

"""The daily removal of what is past its retention: when, with which rights, and who hears of it."""

from __future__ import annotations

from infra.constructs.layer_contents import ROOT
from opx.ports.tables import CALENDAR, DOCUMENTS, ENTRIES, GRAPH, KEYS, LIFECYCLE, PATTERNS, PROJECTS, USES
from opx.settings import Settings, env_name
from tests.infra.templates import Assembly, Resource, lint_findings, listed
from tests.infra.test_ingestion import BUCKET, pairs, queue_arn, table_arns

FUNCTION = "dev-opx-prune-knowledge"
CHANGED = (CALENDAR, DOCUMENTS, ENTRIES, GRAPH, KEYS, LIFECYCLE, PATTERNS)


def prune(assembly: Assembly) -> Resource:
    functions = assembly.resources("lifecycle", "Lambda::Function").values()
    (found,) = [function for function in functions if function["FunctionName"] == FUNCTION]
    return found


def rights(assembly: Assembly, role: str) -> set[tuple[str, str]]:
    return {
        (action, resource)
        for policy in assembly.resources("lifecycle", "IAM::Policy").values()
        if any(str(name).strip("<>").startswith(role) for name in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def test_the_function_may_do_exactly_this(default: Assembly) -> None:
    logs = prune(default)["LoggingConfig"]["LogGroup"].strip("<>")
    found = rights(default, "PruneKnowledgeRole")
    (collection,) = {resource for action, resource in found if action == "aoss:APIAccessAll"}
    folders = {f"{BUCKET}/{prefix}{kind}/*" for prefix in ("", "clients/*/") for kind in ("documents", "chunks")}
    assert found == (
        pairs("logs:CreateLogStream PutLogEvents", {f"<{logs}.Arn>"})
        | pairs("xray:PutTelemetryRecords PutTraceSegments", {"*"})
        | pairs("s3:ListBucket", {BUCKET})
        | pairs("s3:DeleteObject GetObject", folders)
        | pairs("dynamodb:BatchGetItem BatchWriteItem DeleteItem GetItem PutItem Query", table_arns(*CHANGED))
        | pairs("dynamodb:BatchGetItem PutItem", table_arns(PROJECTS))
        | pairs("dynamodb:BatchGetItem", table_arns(USES))
        | pairs("aoss:APIAccessAll", {collection})
        | pairs("sqs:SendMessage", {queue_arn("prune-failed")})
    )


def test_its_environment_makes_valid_settings_and_nothing_else(default: Assembly) -> None:
    variables = prune(default)["Environment"]["Variables"]
    assert set(variables) <= {env_name(name) for name in Settings.__struct_fields__}
    settings = Settings.from_environ(variables)
    assert (settings.backend, settings.table_prefix) == ("aws", "dev-")


def test_it_is_called_every_night_and_what_fails_is_kept(default: Assembly) -> None:
    schedules = default.resources("lifecycle", "Scheduler::Schedule").values()
    (found,) = [schedule for schedule in schedules if schedule["Name"] == "prune-knowledge"]
    assert (found["ScheduleExpression"], found["State"]) == ("cron(30 2-5 * * ? *)", "ENABLED")
    queues = default.resources("lifecycle", "SQS::Queue")
    (queue,) = [name for name, queue in queues.items() if queue["QueueName"] == "dev-opx-knowledge-prune-failed"]
    assert found["Target"]["DeadLetterConfig"]["Arn"] == f"<{queue}.Arn>"


def test_stopped_or_failed_prune_has_an_alarm(default: Assembly) -> None:
    alarms = {alarm["AlarmName"] for alarm in default.resources("observability", "CloudWatch::Alarm").values()}
    wanted = ("prune-stopped", "function-prune-knowledge", "dead-letters-prune-failed")
    assert {f"dev-opx-knowledge-{name}" for name in wanted} <= alarms


def test_versions_that_are_being_removed_expire_by_themselves(default: Assembly) -> None:
    tables = default.resources("storage", "DynamoDB::Table").values()
    (documents,) = [table for table in tables if table["TableName"] == "dev-opx-knowledge-documents"]
    assert documents["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}


def test_rules_are_kept(default: Assembly) -> None:
    assert lint_findings(default, "lifecycle") == []
    assert [finding for finding in default.findings if "lifecycle" in finding] == []


def test_the_handler_that_is_deployed_exists() -> None:
    assert (ROOT / "lambdas" / "prune_knowledge" / "handler.py").is_file()

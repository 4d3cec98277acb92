"""The nightly roll-up of metrics: when, by what, and with which rights."""

from __future__ import annotations

import json

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Match

from infra.application import new_app
from infra.configuration import Deployment
from infra.constructs.code import LayerSource, Platform
from infra.constructs.layer_contents import ROOT
from infra.names import Names
from infra.operations import OperationsStack
from opx.ports.tables import BASELINES
from opx.ports.telemetry import MetricQuery
from opx.settings import Settings, env_name
from opx_telemetry.baselines.definitions import MetricDefinition
from opx_telemetry.prometheus import Prometheus
from opx_telemetry.rules import TelemetryRules
from opx_telemetry.servers import Server
from tests.infra.templates import Assembly, Resource, lint_findings, listed
from tests.infra.test_ingestion import pairs, queue_arn, table_arns

FUNCTION = "dev-opx-roll-up-baselines"


def roll_up(assembly: Assembly) -> Resource:
    functions = assembly.resources("operations", "Lambda::Function").values()
    (found,) = [function for function in functions if function["FunctionName"] == FUNCTION]
    return found


def schedule(assembly: Assembly) -> Resource:
    return assembly.only("operations", "Scheduler::Schedule")


def rights(assembly: Assembly, role: str) -> set[tuple[str, str]]:
    return {
        (action, resource)
        for policy in assembly.resources("operations", "IAM::Policy").values()
        if any(str(name).strip("<>").startswith(role) for name in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def test_the_function_may_do_exactly_this(default: Assembly) -> None:
    logs = roll_up(default)["LoggingConfig"]["LogGroup"].strip("<>")
    assert rights(default, "RollUpBaselinesRole") == (
        pairs("logs:CreateLogStream PutLogEvents", {f"<{logs}.Arn>"})
        | pairs("xray:PutTelemetryRecords PutTraceSegments", {"*"})
        | pairs("dynamodb:BatchGetItem BatchWriteItem GetItem PutItem Query", table_arns(BASELINES))
        | pairs("sqs:SendMessage", {queue_arn("roll-up-failed")})
    )


def test_its_environment_makes_valid_settings_and_nothing_else(default: Assembly) -> None:
    variables = roll_up(default)["Environment"]["Variables"]
    assert set(variables) <= {env_name(name) for name in Settings.__struct_fields__}
    settings = Settings.from_environ(variables)
    assert (settings.backend, settings.table_prefix) == ("aws", "dev-")


def test_it_runs_on_the_schedule_of_the_category_and_failed_calls_are_kept(default: Assembly) -> None:
    found = schedule(default)
    assert (found["Name"], found["ScheduleExpression"]) == ("roll-up-baselines", "cron(0 2 * * ? *)")
    assert json.loads(found["Target"]["Input"]) == {"days": 2}
    (queue,) = [
        name
        for name, queue in default.resources("operations", "SQS::Queue").items()
        if queue["QueueName"] == "dev-opx-knowledge-roll-up-failed"
    ]
    assert found["Target"]["DeadLetterConfig"]["Arn"] == f"<{queue}.Arn>"
    assert ("lambda:InvokeFunction", found["Target"]["Arn"]) in rights(default, "SchedulesRole")


def test_its_failures_are_watched(default: Assembly) -> None:
    watched = set(map(alarm_name, default.resources("observability", "CloudWatch::Alarm").values()))
    assert {"dev-opx-knowledge-function-roll-up-baselines", "dev-opx-knowledge-dead-letters-roll-up-failed"} <= watched


def alarm_name(alarm: Resource) -> str:
    return str(alarm["AlarmName"])


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = MetricDefinition("cpu", MetricQuery("AWS/EC2", "CPUUtilization", "InstanceId"))
    monkeypatch.setattr("infra.operations.declared_metrics", lambda: (cpu,))
    monkeypatch.setattr("infra.constructs.operational_queries.are_wanted", lambda: False)


def test_without_declared_metrics_the_schedule_rests(default: Assembly) -> None:
    assert schedule(default)["State"] == "DISABLED"


@pytest.mark.usefixtures("declared")
def test_declared_metrics_enable_the_schedule_and_ungranted_agents_have_no_function() -> None:
    app = new_app()
    source = LayerSource(bundle=False, platform=Platform("arm64", "3.13"))
    stack = OperationsStack(app, "operations", names=Names(Deployment()), env=cdk.Environment(), source=source)
    template = cdk.assertions.Template.from_stack(stack)
    (found,) = template.find_resources("AWS::Scheduler::Schedule").values()
    assert found["Properties"]["State"] == "ENABLED"
    template.resource_count_is("AWS::Lambda::Function", 1)
    reading = {"Action": Match.array_with(["cloudwatch:GetMetricData", "cloudwatch:ListMetrics"]), "Resource": "*"}
    policy = {"PolicyDocument": {"Statement": Match.array_with([Match.object_like(reading)])}}
    template.has_resource_properties("AWS::IAM::Policy", policy)
    assert stack.queries_arn == ""


@pytest.fixture
def scraped(monkeypatch: pytest.MonkeyPatch) -> None:
    load = MetricDefinition("load", MetricQuery("prometheus", "load", "instance"))
    rules = TelemetryRules(prometheus=Prometheus(Server("prometheus", "https://p.example", token_env="PROM")))
    monkeypatch.setattr("infra.operations.declared_metrics", lambda: (load,))
    monkeypatch.setattr("infra.operations.read_telemetry", lambda: rules)
    monkeypatch.setattr("infra.constructs.operational_queries.are_wanted", lambda: False)


@pytest.mark.usefixtures("scraped")
def test_metrics_of_prometheus_need_secrets_and_no_right_on_cloudwatch() -> None:
    source = LayerSource(bundle=False, platform=Platform("arm64", "3.13"))
    names = Names(Deployment(allowed_hosts="p.internal:9090"))
    stack = OperationsStack(new_app(), "operations", names=names, env=cdk.Environment(), source=source)
    template = json.dumps(cdk.assertions.Template.from_stack(stack).to_json())
    assert "secretsmanager:GetSecretValue" in template
    assert "secret:dev-opx-knowledge/PROM-??????" in template
    assert '"OPX_ALLOWED_HOSTS": "p.internal:9090"' in template
    assert "cloudwatch:GetMetricData" not in template
    assert '"State": "ENABLED"' in template


def test_rules_are_kept(default: Assembly) -> None:
    assert lint_findings(default, "operations") == []
    assert [finding for finding in default.findings if "operations" in finding] == []


def test_the_handler_that_is_deployed_exists() -> None:
    assert (ROOT / "lambdas" / "roll_up_baselines" / "handler.py").is_file()

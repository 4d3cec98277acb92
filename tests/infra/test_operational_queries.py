"""The function that answers questions about running systems: its rights, and who may call it."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks

from infra.agent import AgentStack
from infra.application import new_app
from infra.configuration import Deployment
from infra.constructs import agent_tools, operational_queries
from infra.constructs.agent_tools import offers
from infra.constructs.code import LayerSource, Platform
from infra.constructs.operational_queries import OperationalQueries, are_wanted, telemetry_rights
from infra.names import Names
from opx.operations import load
from opx.operations.grants import ForAll, ToolGrants
from opx.operations.registry import KNOWLEDGE, OPERATIONS
from opx.settings import Settings, env_name
from opx_telemetry.rules import MetricFamily, TelemetryRules
from tests.infra.templates import Assembly, Resource, synthesised
from tests.infra.test_ingestion import pairs

LOGS = "arn:<AWS::Partition>:logs:<AWS::Region>:<AWS::AccountId>:log-group"
EVERYTHING = TelemetryRules(
    log_groups=("/ecs/shop", "/aws/lambda/prod-*"),
    metrics=(MetricFamily("AWS/EC2", "InstanceId", ("CPUUtilization",)),),
    services=("*",),
)
ALL_TOOLS = frozenset(load().tools(OPERATIONS))
GRANTS = ToolGrants(agents={"responder": ALL_TOOLS, OPERATIONS.name: ALL_TOOLS})

FUNCTIONS = {KNOWLEDGE.name: "arn:search", OPERATIONS.name: "arn:operations"}


def configure(patch: pytest.MonkeyPatch, grants: ToolGrants = GRANTS, rules: TelemetryRules = EVERYTHING) -> None:
    """Replaces the grants and the telemetry section of knowledge.yaml."""
    patch.setattr(operational_queries, "read_telemetry", lambda: rules)
    patch.setattr(operational_queries, "tool_grants", lambda: grants)
    patch.setattr(agent_tools, "tool_grants", lambda: grants)


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """The construct alone in a stack, and the gateway in another."""
    outdir = tmp_path_factory.mktemp("queries")
    with pytest.MonkeyPatch.context() as patch:
        configure(patch)
        app = new_app({"aws:cdk:bundling-stacks": []}, str(outdir))
        env, stack = cdk.Environment(), cdk.Stack(app, "queries")
        source = LayerSource(bundle=False, platform=Platform("arm64", "3.13"))
        elsewhere, gateway = Names(Deployment(agent="none")), Names(Deployment())
        made = OperationalQueries(stack, "OperationalQueries", names=elsewhere, source=source)
        arns = {"function_arn": "arn:search", "operations_arn": made.target_arn}
        AgentStack(app, "agent", names=gateway, source=source, env=env, **arns)
        cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
        return synthesised(app, outdir)


def own_rights(assembly: Assembly) -> set[tuple[str, str]]:
    """Rights of the role, without those on log and traces."""
    (policy,) = assembly.resources("queries", "IAM::Policy").values()
    found = set()
    for statement in policy["PolicyDocument"]["Statement"]:
        actions, resources = statement["Action"], statement["Resource"]
        for action in actions if isinstance(actions, list) else [actions]:
            for resource in resources if isinstance(resources, list) else [resources]:
                found.add((action, resource))
    return {
        (action, resource)
        for action, resource in found
        if not action.startswith(("logs:Create", "logs:Put", "xray:Put"))
    }


def without_tables(found: set[tuple[str, str]]) -> set[tuple[str, str]]:
    return {(action, resource) for action, resource in found if not action.startswith("dynamodb:")}


def granted(rules: TelemetryRules) -> set[str]:
    """Actions that the construct grants for these rules."""
    found: set[str] = set()
    for statement in telemetry_rights(rules):
        actions = statement.to_json()["Action"]
        found |= {actions} if isinstance(actions, str) else set(actions)
    return found


def test_function_may_query_the_listed_log_groups_and_read_metrics_and_traces(queries: Assembly) -> None:
    groups = {f"{LOGS}:{name}{end}" for name in EVERYTHING.log_groups for end in ("", ":*")}
    assert without_tables(own_rights(queries)) == (
        pairs("logs:StartQuery", groups)
        | pairs("logs:GetQueryResults StopQuery", {"*"})
        | pairs("cloudwatch:GetMetricData", {"*"})
        | pairs("xray:BatchGetTraces GetTraceSummaries", {"*"})
    )


def test_function_reads_baselines_and_writes_nothing(queries: Assembly) -> None:
    actions = {action for action, _ in own_rights(queries) if action.startswith("dynamodb:")}
    assert actions == {"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"}


def test_function_has_no_rights_without_listed_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch)
    assert granted(TelemetryRules()) == set()


def test_function_has_only_the_rights_of_tools_granted_to_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, ToolGrants(agents={"responder": frozenset({"correlate_metrics"})}))
    assert granted(EVERYTHING) == {"cloudwatch:GetMetricData"}


def test_settings_are_those_that_the_library_knows(queries: Assembly) -> None:
    function = queries.only("queries", "Lambda::Function")
    known = {env_name(name) for name in Settings.__struct_fields__}
    assert set(function["Environment"]["Variables"]) <= known
    assert function["Environment"]["Variables"]["OPX_BACKEND"] == "aws"


def test_question_may_not_take_longer_than_the_function(queries: Assembly) -> None:
    assert TelemetryRules().seconds < queries.only("queries", "Lambda::Function")["Timeout"] == 30


def test_agents_that_are_made_elsewhere_may_call_it(queries: Assembly) -> None:
    permission: Resource = queries.only("queries", "Lambda::Permission")
    assert permission["Principal"] == "bedrock.amazonaws.com"
    assert permission["SourceAccount"] == "<AWS::AccountId>"
    assert permission["SourceArn"].endswith(":agent/*")


def test_cdk_nag_finds_nothing_that_has_no_reason(queries: Assembly) -> None:
    assert queries.findings == []


def test_shipped_file_wants_no_such_function() -> None:
    assert not are_wanted()


class TestOffers:
    @pytest.fixture(autouse=True)
    def _configured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        configure(monkeypatch)

    def test_agent_is_offered_what_it_may_use_and_no_empty_group(self) -> None:
        assert [(offer.tools, offer.function_arn) for offer in offers(FUNCTIONS, "responder")] == [
            (tuple(load().tools(OPERATIONS).values()), "arn:operations")
        ]
        (offer,) = offers(FUNCTIONS, "other")
        assert {tool.name for tool in offer.tools} == frozenset(ForAll())

    def test_gateways_target_is_offered_what_its_name_may_use(self) -> None:
        assert [offer.group.name for offer in offers(FUNCTIONS)] == [KNOWLEDGE.name, OPERATIONS.name]

    def test_group_without_a_function_is_not_offered(self) -> None:
        assert offers({KNOWLEDGE.name: "arn:search"}, "responder") == []


def test_gateway_has_a_target_and_the_right_to_call_for_both(queries: Assembly) -> None:
    targets = {found["Name"]: found for found in queries.resources("agent", "BedrockAgentCore::GatewayTarget").values()}
    assert set(targets) == {KNOWLEDGE.name, OPERATIONS.name}
    called = targets[OPERATIONS.name]["TargetConfiguration"]["Mcp"]["Lambda"]
    assert called["LambdaArn"].endswith(":function:dev-opx-query-operations")
    assert {tool["Name"] for tool in called["ToolSchema"]["InlinePayload"]} == ALL_TOOLS
    (policy,) = queries.resources("agent", "IAM::Policy").values()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Resource"] == ["arn:search", called["LambdaArn"]]


def test_classic_agent_has_a_group_and_a_permission_for_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = Names(Deployment(agent="classic"))
    configure(monkeypatch, ToolGrants(agents={names.agent: frozenset({"search_docs", "get_baseline"})}))
    app = new_app(outdir=str(tmp_path))
    stack = AgentStack(
        app,
        "agent",
        names=names,
        source=LayerSource(bundle=False),
        function_arn="arn:search",
        env=cdk.Environment(),
        operations_arn="arn:operations",
    )
    resources = Template.from_stack(stack).to_json()["Resources"].values()
    (agent,) = (each["Properties"] for each in resources if each["Type"] == "AWS::Bedrock::Agent")
    assert {group["ActionGroupName"] for group in agent["ActionGroups"]} == set(FUNCTIONS)
    permitted = {each["Properties"]["FunctionName"] for each in resources if each["Type"] == "AWS::Lambda::Permission"}
    assert permitted == set(FUNCTIONS.values())
    (alias,) = (each for each in resources if each["Type"] == "AWS::Bedrock::AgentAlias")
    assert len(alias["DependsOn"]) == 2

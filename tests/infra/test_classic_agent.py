"""The classic agent, with an action group of either kind."""

from __future__ import annotations

import json
from collections.abc import Callable

import botocore.session
import pytest
from aws_cdk import Aws
from syrupy.assertion import SnapshotAssertion

from infra.agent import INSTRUCTIONS
from infra.configuration import ContextError, Deployment
from infra.constructs.rights import model_arns
from infra.names import Names
from opx.edges import schemas
from opx.operations.registry import KNOWLEDGE
from tests.infra.templates import Assembly, Resource, lint_findings
from tests.infra.test_agent import (
    ANY_AGENT,
    FOR_ALL,
    LIVE,
    OFFERED,
    VALUES,
    a_permission,
    lowered,
    outputs,
    permissions,
    refusals,
)
from tests.infra.test_application import compact
from tests.infra.test_ingestion import pairs, rights
from tests.infra.test_names import LONGEST_ENVIRONMENT
from tests.support.agent_calls import DISK_TITLE, Handler, body_of, text_of
from tests.support.fakes import FakeContext

MODELS = "arn:<AWS::Partition>:bedrock:<AWS::Region>::foundation-model"
LONGEST_REGION = "us-isof-south-1"
MAX_INSTRUCTIONS = 4000
"""As botocore's model of CreateAgent has it, which checks no such limits; CloudFormation's schema has none."""


@pytest.fixture(scope="module")
def classic(make: Callable[..., Assembly]) -> Assembly:
    return make(agent="classic")


@pytest.fixture(scope="module")
def openapi(make: Callable[..., Assembly]) -> Assembly:
    return make(agent="classic", agent_schema="openapi", agent_model="eu.amazon.nova-lite-v1:0")


@pytest.fixture(params=["classic", "openapi"])
def either(request: pytest.FixtureRequest) -> Assembly:
    assembly: Assembly = request.getfixturevalue(request.param)
    return assembly


def test_cdk_nag_finds_nothing_that_has_no_reason(either: Assembly) -> None:
    assert either.findings == []


def test_cfn_lint_finds_nothing(either: Assembly) -> None:
    assert lint_findings(either, "agent") == []


def test_the_template_is_as_it_was(either: Assembly, snapshot: SnapshotAssertion) -> None:
    assert compact(either, "agent") == snapshot


def test_an_agent_has_every_tool_once(classic: Assembly, openapi: Assembly) -> None:
    for assembly, kind, other in (
        (classic, "FunctionSchema", "ApiSchema"),
        (openapi, "ApiSchema", "FunctionSchema"),
    ):
        (group,) = assembly.only("agent", "Bedrock::Agent")["ActionGroups"]
        assert group["ActionGroupName"] == KNOWLEDGE.name
        assert group["ActionGroupExecutor"] == {"Lambda": LIVE}
        assert kind in group
        assert other not in group


def test_functions_are_those_of_the_library(classic: Assembly) -> None:
    (group,) = classic.only("agent", "Bedrock::Agent")["ActionGroups"]
    assert lowered(group["FunctionSchema"]) == schemas.functions(OFFERED)


def test_operations_are_those_of_the_library(openapi: Assembly) -> None:
    (group,) = openapi.only("agent", "Bedrock::Agent")["ActionGroups"]
    assert json.loads(group["ApiSchema"]["Payload"]) == schemas.tools_openapi(KNOWLEDGE, OFFERED)


def test_the_service_accepts_the_agent(classic: Assembly, openapi: Assembly) -> None:
    """As far as botocore's model of CreateAgent and CreateAgentActionGroup knows."""
    model = botocore.session.get_session().get_service_model("bedrock-agent")
    group_shape = model.operation_model("CreateAgentActionGroup").input_shape
    agent_shape = model.operation_model("CreateAgent").input_shape
    for assembly in (classic, openapi):
        found = lowered(assembly.only("agent", "Bedrock::Agent"))
        (group,) = found.pop("actionGroups")
        assert refusals(group_shape, group | {"agentId": "A" * 10, "agentVersion": "DRAFT"}) == ""
        del found["autoPrepare"]
        assert refusals(agent_shape, found) == ""


def test_its_instructions_require_citations_and_reports_of_no_result(classic: Assembly) -> None:
    assert classic.only("agent", "Bedrock::Agent")["Instruction"] == INSTRUCTIONS
    for rule in ("Search before you answer", "cite", "title", "section", "source", "Never invent", "data"):
        assert rule in INSTRUCTIONS
    assert "If nothing was found, say plainly" in INSTRUCTIONS


def test_its_role_may_call_the_one_model(classic: Assembly) -> None:
    model = f"{MODELS}/amazon.nova-lite-v1:0"
    assert rights(classic, "agent") == pairs("bedrock:InvokeModel InvokeModelWithResponseStream", {model})


def test_through_a_profile_its_role_may_call_the_one_model_wherever_that_is(openapi: Assembly) -> None:
    account = "<AWS::Region>:<AWS::AccountId>"
    profile = f"arn:<AWS::Partition>:bedrock:{account}:inference-profile/eu.amazon.nova-lite-v1:0"
    model = "arn:<AWS::Partition>:bedrock:*::foundation-model/amazon.nova-lite-v1:0"
    assert rights(openapi, "agent") == (
        pairs("bedrock:InvokeModel InvokeModelWithResponseStream", {profile, model})
        | pairs("bedrock:GetInferenceProfile", {profile})
    )


def test_only_agents_of_this_account_may_take_the_role(classic: Assembly) -> None:
    role = classic.only("agent", "IAM::Role")
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "bedrock.amazonaws.com"}
    assert trust["Condition"] == {
        "StringEquals": {"aws:SourceAccount": "<AWS::AccountId>"},
        "ArnLike": {"aws:SourceArn": ANY_AGENT},
    }
    assert role["RoleName"].startswith("AmazonBedrockExecutionRoleForAgents_")


def test_only_this_agent_may_call_the_function(classic: Assembly) -> None:
    (agent,) = classic.resources("agent", "Bedrock::Agent")
    assert permissions(classic, "agent") == [a_permission(LIVE, f"<{agent}.AgentArn>")]
    assert permissions(classic, "retrieval") == []


def test_the_alias_is_there_when_the_agent_may_call_the_function(classic: Assembly) -> None:
    (alias,) = classic.resources("agent", "Bedrock::AgentAlias")
    (permission,) = classic.resources("agent", "Lambda::Permission")
    assert classic.templates["agent"]["Resources"][alias]["DependsOn"] == [permission]


def test_the_agent_is_prepared_when_its_role_may_call_the_model(classic: Assembly) -> None:
    ((name, agent),) = classic.resources("agent", "Bedrock::Agent").items()
    assert agent["AutoPrepare"] is True
    (policy,) = classic.resources("agent", "IAM::Policy")
    assert policy in classic.templates["agent"]["Resources"][name]["DependsOn"]


def test_a_changed_agent_changes_the_alias_so_that_it_gets_a_new_version(classic: Assembly, openapi: Assembly) -> None:
    assert alias_of(openapi)["Description"] != alias_of(classic)["Description"]
    assert alias_of(openapi)["AgentAliasName"] == alias_of(classic)["AgentAliasName"] == "live"


def test_an_agent_that_is_the_same_leaves_the_alias_alone(classic: Assembly, make: Callable[..., Assembly]) -> None:
    assert alias_of(make(agent="classic", query_concurrency="0")) == alias_of(classic)


def test_ids_of_the_agent_and_its_alias_are_outputs(classic: Assembly) -> None:
    (agent,) = classic.resources("agent", "Bedrock::Agent")
    (alias,) = classic.resources("agent", "Bedrock::AgentAlias")
    assert outputs(classic) == {
        "AgentId": f"<{agent}.AgentId>",
        "AgentAliasId": f"<{alias}.AgentAliasId>",
        "AgentAliasArn": f"<{alias}.AgentAliasArn>",
    }


def test_every_function_of_the_template_is_answered_by_the_handler(classic: Assembly, handler: Handler) -> None:
    (group,) = classic.only("agent", "Bedrock::Agent")["ActionGroups"]
    answers = {}
    for function in group["FunctionSchema"]["Functions"]:
        values = [{"name": n, "type": p["Type"], "value": VALUES[n]} for n, p in function["Parameters"].items()]
        event = {"actionGroup": group["ActionGroupName"], "function": function["Name"], "parameters": values}
        answers[function["Name"]] = text_of(handler(event, FakeContext()))
    assert set(answers) == FOR_ALL
    assert answers["search_runbooks"].startswith(f"Source: {DISK_TITLE}")
    assert answers["get_document_details"].startswith("no document with this id")


def test_every_operation_of_the_template_is_answered_by_the_handler(openapi: Assembly, handler: Handler) -> None:
    (group,) = openapi.only("agent", "Bedrock::Agent")["ActionGroups"]
    answers = {}
    for path, methods in json.loads(group["ApiSchema"]["Payload"])["paths"].items():
        schema = methods["post"]["requestBody"]["content"]["application/json"]["schema"]
        values = [{"name": n, "type": p["type"], "value": VALUES[n]} for n, p in schema["properties"].items()]
        body = {"content": {"application/json": {"properties": values}}}
        event = {
            "actionGroup": group["ActionGroupName"],
            "apiPath": path,
            "httpMethod": "POST",
            "requestBody": body,
        }
        answers[path] = body_of(handler(event, FakeContext()))
    assert set(answers) == {f"/{name}" for name in FOR_ALL}
    assert answers["/search_runbooks"]["answer"].startswith(f"Source: {DISK_TITLE}")
    assert answers["/get_document_details"]["error"]["code"] == "not_found"


def test_instructions_are_short_enough_for_the_agent() -> None:
    assert len(INSTRUCTIONS) <= MAX_INSTRUCTIONS


@pytest.mark.parametrize(
    ("model", "base"),
    [
        ("eu.cohere.embed-v4:0", "cohere.embed-v4:0"),
        ("us-gov.anthropic.claude-3-haiku-20240307-v1:0", "anthropic.claude-3-haiku-20240307-v1:0"),
        ("global.amazon.nova-2-lite-v1:0", "amazon.nova-2-lite-v1:0"),
        ("us.ai21.jamba-1-5-mini-v1:0", "ai21.jamba-1-5-mini-v1:0"),
        ("us.zai.glm-4.6", "zai.glm-4.6"),
    ],
)
def test_a_profile_differs_from_a_model_by_its_geography_prefix(model: str, base: str) -> None:
    profile, called = model_arns(model)
    assert profile.endswith(f":inference-profile/{model}")
    assert called.endswith(f":bedrock:*::foundation-model/{base}")


@pytest.mark.parametrize("model", ["amazon.nova-lite-v1:0", "zai.glm-4.6", "deepseek.v3.1", "ai21.jamba-1-5-mini-v1:0"])
def test_a_model_is_called_in_the_region_of_the_deployment(model: str) -> None:
    (called,) = model_arns(model)
    assert called.endswith(f":bedrock:{Aws.REGION}::foundation-model/{model}")


@pytest.mark.parametrize(
    "model", ["", "nova", "arn:aws:bedrock:eu-west-1:1:inference-profile/x", "Amazon.Nova", "a.b c"]
)
def test_a_model_that_is_no_id_is_refused(model: str) -> None:
    with pytest.raises(ContextError, match="context agent_model"):
        Deployment(agent_model=model)


def test_the_agents_role_in_the_longest_environment_fits_into_64_characters() -> None:
    role = Names(Deployment(environment=LONGEST_ENVIRONMENT)).agent_role
    assert len(role.replace(Aws.REGION, LONGEST_REGION)) <= 64


def alias_of(assembly: Assembly) -> Resource:
    return assembly.only("agent", "Bedrock::AgentAlias")

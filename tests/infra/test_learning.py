"""Events about what work taught: where they go, what works on them, and with which rights."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import aws_cdk as cdk
import boto3
import pytest
from cdk_nag import AwsSolutionsChecks

from infra.application import new_app
from infra.configuration import Deployment
from infra.constructs import agent_tools
from infra.constructs.code import LayerSource, Platform
from infra.constructs.collection_addresses import ExistingCollection
from infra.constructs.layer_contents import ROOT
from infra.learning import CHECKPOINT_DELAY, RECEIVES, LearningStack
from infra.names import Names
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.edges.calling import plain
from opx.edges.learning_events import LAST_WAIT, checkpoint, learn
from opx.edges.tools import call_tool
from opx.learning.fields import SOURCE, EntryKind, read_event
from opx.operations import load
from opx.operations.context import Caller, Context
from opx.operations.grants import ToolGrants
from opx.operations.registry import LEARNING
from opx.settings import Settings, env_name
from tests.aws.cloud import Cloud, a_cloud
from tests.infra.templates import Assembly, Resource, lint_findings, listed, synthesised
from tests.infra.test_ingestion import BUCKET
from tests.infra.test_object_rights import ACTIONS, Pair, refused
from tests.support.fakes import function_logs

STACK = "learning"
FUNCTIONS = {"LearnFromEvents": "learn_from_events", "ProcessCheckpoint": "process_checkpoint"}
LEARNED = ("outcomes", "patterns", "staging")


def queue(assembly: Assembly, name: str) -> tuple[str, Resource]:
    """Its ARN, and its properties."""
    found = assembly.resources(STACK, "SQS::Queue").items()
    ((logical_id, properties),) = [(key, one) for key, one in found if one["QueueName"] == f"dev-opx-knowledge-{name}"]
    return f"<{logical_id}.Arn>", properties


def rights(assembly: Assembly, role: str, stack: str = STACK) -> set[Pair]:
    """Rights of the role with this prefix of its logical id, without those on log and traces."""
    return {
        (action, resource)
        for policy in assembly.resources(stack, "IAM::Policy").values()
        if any(str(name).strip("<>").startswith(role) for name in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
        if not action.startswith(("logs:", "xray:"))
    }


def written_tables(found: set[Pair]) -> set[str]:
    writes = {resource for action, resource in found if action.startswith("dynamodb:") and "Item" in action}
    put = {resource for action, resource in found if action == "dynamodb:DeleteItem"}
    assert writes >= put
    return {resource.split("table/")[1].split("/")[0].removeprefix("dev-opx-knowledge-") for resource in put}


def read_tables(found: set[Pair]) -> set[str]:
    read = {resource for action, resource in found if action == "dynamodb:Query"}
    return {resource.split("table/")[1].split("/")[0].removeprefix("dev-opx-knowledge-") for resource in read}


class TestBus:
    def test_every_event_of_this_account_is_archived_for_a_year(self, default: Assembly) -> None:
        archive = default.only(STACK, "Events::Archive")
        assert archive["EventPattern"] == {"source": [SOURCE], "account": ["<AWS::AccountId>"]}
        assert archive["RetentionDays"] == 365

    def test_checkpoints_go_one_way_and_everything_else_the_other(self, default: Assembly) -> None:
        rules = default.resources(STACK, "Events::Rule").values()
        ways = {rule["Targets"][0]["Arn"]: rule["EventPattern"] for rule in rules}
        assert {arn: pattern["detail-type"] for arn, pattern in ways.items()} == {
            queue(default, "checkpoints")[0]: [EntryKind.CHECKPOINT.value],
            queue(default, "learning")[0]: [{"anything-but": [EntryKind.CHECKPOINT.value]}],
        }
        assert {json.dumps(pattern["account"]) for pattern in ways.values()} == {'["<AWS::AccountId>"]'}

    def test_undelivered_and_failed_events_are_kept_for_two_weeks(self, default: Assembly) -> None:
        failed, properties = queue(default, "learning-failed")
        assert properties["MessageRetentionPeriod"] == 14 * 86_400
        for rule in default.resources(STACK, "Events::Rule").values():
            assert [target["DeadLetterConfig"]["Arn"] for target in rule["Targets"]] == [failed]
        for name in ("learning", "checkpoints"):
            assert queue(default, name)[1]["RedrivePolicy"] == {
                "deadLetterTargetArn": failed,
                "maxReceiveCount": RECEIVES,
            }

    def test_a_checkpoint_waits_for_entries_sent_before_it(self, default: Assembly) -> None:
        assert queue(default, "checkpoints")[1]["DelaySeconds"] == CHECKPOINT_DELAY.to_seconds()
        assert "DelaySeconds" not in queue(default, "learning")[1]

    def test_the_function_refuses_with_a_reason_before_the_queue_gives_up(self) -> None:
        assert LAST_WAIT < RECEIVES

    def test_environments_have_buses_of_their_own(self, default: Assembly, ephemeral: Assembly) -> None:
        names = [assembly.only(STACK, "Events::EventBus")["Name"] for assembly in (default, ephemeral)]
        assert names == ["dev-opx-knowledge-learning", "opx-knowledge-learning"]


class TestFunctions:
    @pytest.mark.parametrize(
        ("name", "source"), [("LearnFromEvents", "learning"), ("ProcessCheckpoint", "checkpoints")]
    )
    def test_each_reads_its_queue_and_reports_what_is_to_come_again(
        self, default: Assembly, name: str, source: str
    ) -> None:
        functions = default.resources(STACK, "Lambda::Function")
        mappings = default.resources(STACK, "Lambda::EventSourceMapping").values()
        arn, properties = queue(default, source)
        (mapping,) = [one for one in mappings if one["EventSourceArn"] == arn]
        function = functions[mapping["FunctionName"].strip("<>")]
        assert function["FunctionName"] == f"dev-opx-{FUNCTIONS[name].replace('_', '-')}"
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert properties["VisibilityTimeout"] == 6 * function["Timeout"]

    def test_their_environments_make_valid_settings_and_nothing_else(self, default: Assembly) -> None:
        for function in default.resources(STACK, "Lambda::Function").values():
            variables = function["Environment"]["Variables"]
            assert set(variables) <= {env_name(name) for name in Settings.__struct_fields__}
            settings = Settings.from_environ(variables)
            assert (settings.backend, settings.table_prefix) == ("aws", "dev-")
            assert settings.learning_failed_url
            assert not settings.checkpoint_queue_url  # else a checkpoint would only ask for another one

    def test_event_listener_may_neither_search_nor_put_a_document(self, default: Assembly) -> None:
        found = rights(default, "LearnFromEventsRole")
        assert not {action for action, _ in found if action.startswith(("aoss:", "bedrock:"))}
        assert {action for action, _ in found if action.startswith("s3:")} == {"s3:GetObject", "s3:ListBucket"}
        assert written_tables(found) == set(LEARNED)
        assert {"aliases", "graph"} <= read_tables(found)  # which hold the names of incidents

    def test_checkpoint_function_may_put_only_patterns_and_warnings(self, default: Assembly) -> None:
        found = rights(default, "ProcessCheckpointRole")
        put = {resource for action, resource in found if action in ("s3:PutObject", "s3:DeleteObject")}
        kinds = [f"documents/learning/{kind}/*" for kind in ("patterns", "warnings")]
        assert put == {f"{BUCKET}/{folder}{kind}" for kind in kinds for folder in ("", "clients/*/")}
        assert written_tables(found) == set(LEARNED)

    def test_failures_of_both_are_watched(self, default: Assembly) -> None:
        alarms = default.resources("observability", "CloudWatch::Alarm").values()
        watched = {str(alarm["AlarmName"]).removeprefix("dev-opx-knowledge-") for alarm in alarms}
        functions = {f"function-{name.replace('_', '-')}" for name in FUNCTIONS.values()}
        assert {*functions, "dead-letters-learning-failed", "learning-refused"} <= watched

    def test_the_handlers_that_are_deployed_exist(self) -> None:
        for use_case in (*FUNCTIONS.values(), "learn_from_work"):
            assert (ROOT / "lambdas" / use_case / "handler.py").is_file()

    def test_rules_are_kept(self, default: Assembly) -> None:
        assert lint_findings(default, STACK) == []
        assert [finding for finding in default.findings if STACK in finding] == []


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """The stack where some agent may use the tools, and agents are made elsewhere."""
    outdir = tmp_path_factory.mktemp("learning")
    grants = ToolGrants(agents={"orchestrator": frozenset(load().tools(LEARNING))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("infra.constructs.learning_functions.tool_grants", lambda: grants)
        app = new_app({"aws:cdk:bundling-stacks": []}, str(outdir))
        elsewhere = "arn:aws:aoss:eu-central-1:123456789012:collection/c"
        deployment = Deployment(agent="none", search_endpoint="https://search.example.org", search_arn=elsewhere)
        LearningStack(
            app,
            "opx-knowledge-dev-learning",
            names=Names(deployment),
            env=cdk.Environment(),
            engine=partial(ExistingCollection, deployment),
            source=LayerSource(bundle=False, platform=Platform("arm64", "3.13")),
        )
        cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
        return synthesised(app, outdir)


class TestTools:
    def test_without_an_agent_that_may_use_them_there_is_no_function(self, default: Assembly) -> None:
        functions = default.resources(STACK, "Lambda::Function").values()
        assert {function["FunctionName"] for function in functions} == {
            f"dev-opx-{name.replace('_', '-')}" for name in FUNCTIONS.values()
        }

    def test_they_search_and_keep_entries_but_put_no_document(self, granted: Assembly) -> None:
        found = rights(granted, "LearningToolsLearnFromWorkRole")
        assert {action for action, _ in found if action.startswith("s3:")} == {"s3:GetObject", "s3:ListBucket"}
        assert {"aoss:APIAccessAll", "bedrock:InvokeModel"} <= {action for action, _ in found}
        assert written_tables(found) == {*LEARNED, "gaps"}

    def test_agents_that_are_made_elsewhere_may_call_them(self, granted: Assembly) -> None:
        (permission,) = [
            one
            for one in granted.resources(STACK, "Lambda::Permission").values()
            if one["Principal"] == "bedrock.amazonaws.com"
        ]
        assert permission["SourceArn"].endswith(":agent/*")

    def test_cdk_nag_finds_nothing_that_has_no_reason(self, granted: Assembly) -> None:
        assert granted.findings == []

    def test_a_gateway_offers_them_to_its_target_of_their_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        grants = ToolGrants(agents={LEARNING.name: frozenset({"capture_warning"})})
        monkeypatch.setattr(agent_tools, "tool_grants", lambda: grants)
        (offer,) = agent_tools.offers({LEARNING.name: "arn:learning"})
        assert ([tool.name for tool in offer.tools], offer.function_arn) == (["capture_warning"], "arn:learning")


class TestRightsAreEnough:
    """Calls of AWS by the functions of learning, recorded on doubles, are within their roles' rights."""

    def test_all_calls_for_events_and_checkpoints(self, default: Assembly, aws: boto3.Session) -> None:
        calls: set[Pair] = set()
        with function_logs(), a_cloud(aws) as cloud:
            outcome = _an_outcome(cloud)
            _record(cloud, calls)
            _done(cloud, learn, "Outcome", outcome)
            for name, detail in _EVENTS:
                _done(cloud, learn, name, detail)
            captured = set(calls)
            calls.clear()
            _done(cloud, checkpoint, "Checkpoint", {**_WHOSE, "checkpoint_type": "phase_completion"})
        assert any("audit" in table for _, table in captured)
        assert any(action == "s3:GetObject" and "chunks/" in key for action, key in captured)
        assert any(action == "s3:PutObject" for action, _ in calls)
        assert refused(captured, rights(default, "LearnFromEventsRole")) == set()
        assert refused(calls, rights(default, "ProcessCheckpointRole")) == set()
        manage = rights(default, "ManageKnowledgeRole", "api")
        assert refused(captured, manage) == set()

    def test_all_calls_of_the_tools_of_agents(self, granted: Assembly, aws: boto3.Session) -> None:
        calls: set[Pair] = set()
        with function_logs(), a_cloud(aws) as cloud:
            outcome = _an_outcome(cloud)
            _record(cloud, calls)
            caller = Caller(Identity("acme", "shop", "orchestrator"), agent="orchestrator")

            def call(name: str, **given: str) -> Any:
                return plain(call_tool(load().tools()[name], Context(cloud.services, caller), given.items()))

            entry = call("capture_failure_solution", failure_description="f", solution_steps="s")
            call("verify_solution", entry_id=entry["entryId"], result="worked")
            call("report_outcome", **{name: outcome[name] for name in ("receipt_id", "document_id", "result", "step")})
            _done(cloud, checkpoint, "Checkpoint", {**_WHOSE, "checkpoint_type": "manual"})
            for key in [one for action, one in calls if action == "s3:PutObject"]:
                cloud.send(cloud.event(key.removeprefix(f"{BUCKET}/")))
            cloud.deliver()
            calls.clear()
            call("capture_failure_solution", failure_description="g", solution_steps="s")
            for name, text in (("query_for_task", "task_description"), ("build_context_for_task", "task")):
                assert call(name, **{text: "f"})
        assert any(table.endswith("patterns") for _, table in calls)
        assert refused(calls, rights(granted, "LearningToolsLearnFromWorkRole")) == set()


_WHOSE = {"client_id": "acme", "project_id": "shop"}
_EVENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("FailureSolved", {**_WHOSE, "failure_description": "f", "solution_steps": ["s"], "success_verified": True}),
    ("FailureSolved", {**_WHOSE, "failure_description": "f", "solution_steps": ["s"], "success_verified": True}),
    ("GateApproved", {**_WHOSE, "gate_type": "g", "approved_approach": "a"}),
    ("WarningNoted", {**_WHOSE, "tried": "restart it", "effect": "made_worse"}),
)


def _an_outcome(cloud: Cloud) -> dict[str, Any]:
    """Of a document that was found: it made things worse."""
    cloud.put("documents/runbooks/disk.md", "# Disk\n\n## Full\n\n1. Delete old logs.\n2. Restart the broker.\n")
    cloud.deliver()
    answer = cloud.services.questions.for_reader(Identity("acme", "shop")).search(
        "disk full", QueryConfig(min_confidence=0)
    )
    found = {"receipt_id": answer.receipt_id, "document_id": answer.results[0].document_id}
    return {**_WHOSE, **found, "section": "Full", "result": "made_worse", "step": "Restart the broker."}


def _done(cloud: Cloud, do: Any, kind: str, detail: dict[str, Any]) -> None:
    body = json.dumps({"source": SOURCE, "detail-type": kind, "detail": detail})
    do(cloud.services, read_event(body, Identity()))


def _record(cloud: Cloud, calls: set[Pair]) -> None:
    tables = "arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/"

    def note(params: dict[str, Any], model: Any, **_: object) -> None:
        names = [params["TableName"]] if "TableName" in params else list(params.get("RequestItems", ()))
        for name in names:
            calls.add((f"dynamodb:{model.name}", tables + name.replace("test-", "dev-")))
        for action in ACTIONS.get(model.name, ()) if "Bucket" in params else ():
            calls.add((f"s3:{action}", BUCKET if action == "ListBucket" else f"{BUCKET}/{params['Key']}"))

    for client in (cloud.dynamodb, cloud.s3):
        client.meta.events.register("provide-client-params", note)

"""An operator's access to a deployed system, over the real functions, and alarms as CloudWatch reports them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from lambdas.identify_callers.handler import make_handler as make_identify_handler
from lambdas.manage_knowledge.handler import make_handler as make_manage_handler
from opx.domain.record import replace
from opx.edges.doctor import CheckResult, Examination, Outcome
from opx.errors import AccessDeniedError, NotApplicableError, OpxError
from opx.operations.registry import Function
from opx.settings import Settings
from opx_aws.deployed_api import AwsAccount
from opx_aws.operator import DeployedSystem
from opx_testing.fake_time import FakeTime
from tests.aws.cloud import BUCKET, Cloud, a_cloud
from tests.support.fakes import FakeContext

TOPIC = "arn:aws:sns:eu-central-1:111122223333:opx-knowledge-alarms"
IDENTIFY, SECRET = "opx-identify-callers", "opx-knowledge/gateway"
STACKS = {
    "retrieval": ("opx-retrieve-knowledge", "AWS::Lambda::Alias"),
    "api": ("opx-manage-knowledge", "AWS::Lambda::Function"),
    "ingestion": ("opx-ingest-documents", "AWS::Lambda::Function"),
    "agent": (IDENTIFY, "AWS::Lambda::Function"),
}


def refused(code: str, action: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "refused"}}, action)


@dataclass
class AccountDouble(AwsAccount):
    """An account whose functions are the handlers of a cloud. It is its own client of each service."""

    cloud: Cloud
    stacks: set[str] = field(default_factory=lambda: {"retrieval", "api", "ingestion"})
    executed: tuple[str, ...] = (f"Successfully executed action {TOPIC}",)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    states: list[tuple[str, str]] = field(default_factory=list)
    variables: dict[str, dict[str, str]] = field(default_factory=dict)
    broken: bool = False
    pending: int = 0

    region = "eu-central-1"

    def __post_init__(self) -> None:
        super().__init__("", self.region)
        names = (
            "prod-opx-knowledge-unavailable",
            "dev-opx-knowledge-unavailable",
            "dev-opx-knowledge-dead-letters-expire",
        )
        self.alarms = [{"AlarmName": name, "AlarmActions": [TOPIC], "StateValue": "OK"} for name in names]
        manage = make_manage_handler(lambda: self.cloud.services)
        self.functions = {"retrieve": self.cloud.retrieve, "manage": manage, "ingest": self.cloud.ingest}

    def client(self, service: str, **options: Any) -> Any:
        return self

    def get_paginator(self, action: str) -> Any:
        self._action = action
        return self

    def paginate(self, **given: Any) -> Iterator[Mapping[str, Any]]:
        if self._action == "describe_alarms":
            prefix = given["AlarmNamePrefix"]
            return iter([{"MetricAlarms": [one for one in self.alarms if one["AlarmName"].startswith(prefix)]}])
        kind = given["StackName"].rpartition("-")[2]
        if kind not in self.stacks:
            raise refused("ValidationError", "ListStackResources")
        name, resource = STACKS[kind]
        return iter([{"StackResourceSummaries": [{"ResourceType": resource, "PhysicalResourceId": name}]}])

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803
        raise refused("ValidationError", "DescribeStacks")

    def get_function_configuration(self, FunctionName: str) -> dict[str, Any]:  # noqa: N803
        return {"Environment": {"Variables": self.variables.get(FunctionName, {"OPX_CORPUS_BUCKET": BUCKET})}}

    def takes_tokens(self, session: boto3.Session) -> None:
        """The environment has a gateway for tokens."""
        session.client("secretsmanager").create_secret(Name=SECRET, SecretString="k" * 64)
        services = self.cloud.services
        services.installation.settings = replace(services.installation.settings, gateway_secret=SECRET)
        chosen = Settings(gateway_secret=SECRET, token_issuer="https://issuer", token_audience="opx")
        self.variables[IDENTIFY] = {"OPX_TOKEN_ISSUER": "https://issuer", "OPX_TOKEN_AUDIENCE": "opx"}
        secrets: Any = services.ports.deployment_secrets
        self.functions["identify"] = make_identify_handler(lambda: secrets, lambda: chosen)
        self.stacks.add("agent")

    def invoke(self, FunctionName: str, Payload: str, ClientContext: str = "") -> dict[str, Any]:  # noqa: N803
        if self.pending:
            self.pending -= 1
            raise refused("ResourceConflictException", "Invoke")
        if self.broken:
            failure = {"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out after 30.00 seconds"}
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(failure).encode())}
        handler = self.functions[FunctionName.split("-")[1]]
        context = SimpleNamespace(**json.loads(base64.b64decode(ClientContext))) if ClientContext else None
        answer = handler(json.loads(Payload), FakeContext(context))
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}

    def put_object(self, Bucket: str, Key: str, Body: bytes) -> None:  # noqa: N803
        assert Bucket == BUCKET
        self.cloud.put(Key, Body.decode())
        assert self.cloud.deliver() == []

    def delete_object(self, Bucket: str, Key: str) -> None:  # noqa: N803
        assert Bucket == BUCKET
        self.cloud.delete(Key)
        assert self.cloud.deliver() == []

    def set_alarm_state(self, AlarmName: str, StateValue: str, StateReason: str) -> None:  # noqa: N803
        assert "opx doctor" in StateReason
        self.states.append((AlarmName, StateValue))

    def describe_alarm_history(self, **given: Any) -> dict[str, Any]:
        assert given["StartDate"] <= datetime.now(UTC)
        return {"AlarmHistoryItems": [{"HistorySummary": summary} for summary in self.executed]}

    def list_subscriptions_by_topic(self, TopicArn: str) -> dict[str, Any]:  # noqa: N803
        return {"Subscriptions": [{"SubscriptionArn": f"{TopicArn}:1"}, {"SubscriptionArn": "PendingConfirmation"}]}


@pytest.fixture
def account(aws: boto3.Session) -> Iterator[AccountDouble]:
    with a_cloud(aws) as cloud:
        yield AccountDouble(cloud)


def a_deployment(account: AccountDouble) -> DeployedSystem:
    return DeployedSystem(account, "dev", lambda: None, sleep=lambda _: None)


def examined(account: AccountDouble) -> dict[str, CheckResult]:
    time = FakeTime()
    return {
        one.check: one for one in Examination(a_deployment(account), "0a1b", clock=time.clock, sleep=time.sleep).run()
    }


def test_a_deployed_system_is_examined_through_its_functions(account: AccountDouble) -> None:
    account.stacks.discard("api")
    found = examined(account)
    assert {name: one.detail for name, one in found.items() if one.outcome is Outcome.FAILED} == {}
    assert found["HTTP API"].detail == "there is no HTTP API in this environment"
    assert found["gateway"].detail == "there is no stack opx-knowledge-dev-agent"
    assert "8 texts" in found["embedding"].detail
    listed = account.cloud.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    assert [one["Key"] for one in listed if "/documents/" in f"/{one['Key']}"] == []


def test_states_of_documents_come_from_the_function_of_the_api(account: AccountDouble) -> None:
    found = examined(account)
    assert found["ingestion"].outcome is Outcome.OK
    assert found["deletion"].detail.startswith("3 documents deleted;")


def test_a_function_that_fails_is_reported_with_its_error(account: AccountDouble) -> None:
    account.broken = True
    found = examined(account)
    assert (
        found["index"].detail == "opx-retrieve-knowledge failed: Sandbox.Timedout: Task timed out after 30.00 seconds"
    )
    assert found["embedding"].outcome is found["ingestion"].outcome is Outcome.FAILED


def test_holders_of_tokens_find_their_own_documents(account: AccountDouble, aws: boto3.Session) -> None:
    assert examined(account)["tokens"].outcome is Outcome.SKIPPED
    account.takes_tokens(aws)
    found = examined(account)["tokens"]
    assert (found.outcome, found.detail) == (
        Outcome.OK,
        "the gateway's interceptor and the function keep clients apart by their tokens",
    )


def test_an_interceptor_that_refuses_is_quoted(account: AccountDouble, aws: boto3.Session) -> None:
    account.takes_tokens(aws)
    account.variables[IDENTIFY]["OPX_TOKEN_AUDIENCE"] = "another"
    assert "the token is for another audience" in examined(account)["tokens"].detail


def test_functions_that_are_still_created_are_waited_for(account: AccountDouble) -> None:
    account.pending = 5
    assert examined(account)["index"].outcome is Outcome.OK
    account.pending = 1_000
    with pytest.raises(OpxError, match="opx-retrieve-knowledge is not ready after 120 s: ResourceConflictException"):
        a_deployment(account).invoke(Function.RETRIEVE, {})


class TestAlarm:
    def test_it_goes_off_and_back_and_names_its_subscribers(self, account: AccountDouble) -> None:
        found = a_deployment(account).fire_alarm()
        name = "dev-opx-knowledge-dead-letters-expire"
        assert account.states == [(name, "ALARM"), (name, "OK")]
        assert found == f"{name} went off, notified {TOPIC} with 1 confirmed subscription, and is back"

    def test_one_that_is_off_already_is_left_alone(self, account: AccountDouble) -> None:
        account.alarms[2]["StateValue"] = "ALARM"
        a_deployment(account).fire_alarm()
        assert {name for name, _ in account.states} == {"dev-opx-knowledge-unavailable"}

    def test_without_a_usable_one_nothing_is_done(self, account: AccountDouble) -> None:
        account.alarms.clear()
        with pytest.raises(NotApplicableError):
            a_deployment(account).fire_alarm()

    @pytest.mark.parametrize(
        ("executed", "problem"),
        [
            ((), "none of its actions was executed"),
            ((f"Failed to execute action {TOPIC}",), "Failed to execute action"),
        ],
    )
    def test_an_action_that_is_not_executed_is_an_error_and_the_alarm_is_cleared(
        self, account: AccountDouble, executed: tuple[str, ...], problem: str
    ) -> None:
        account.executed = executed
        with pytest.raises(OpxError, match=problem):
            a_deployment(account).fire_alarm()
        assert [state for _, state in account.states] == ["ALARM", "OK"]

    def test_a_missing_right_is_named(self, account: AccountDouble, monkeypatch: pytest.MonkeyPatch) -> None:
        def denied(**_: Any) -> None:
            raise refused("AccessDeniedException", "SetAlarmState")

        monkeypatch.setattr(account, "set_alarm_state", denied)
        with pytest.raises(
            AccessDeniedError, match=r"set the alarm dev-opx-knowledge-dead-letters-expire off.*operator"
        ):
            a_deployment(account).fire_alarm()

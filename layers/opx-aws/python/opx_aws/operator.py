"""An operator's access to a deployed system: invokes its functions, uploads into its bucket, and tries an alarm."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from opx.adapters.connections import Connections
from opx.domain.record import Json, prepared
from opx.domain.scopes import Identity
from opx.errors import NotApplicableError, OpxError
from opx.ingestion.indexing.measuring import MEASURE, EmbeddingSpeed
from opx.operations.registry import KNOWLEDGE, Function
from opx.settings import listed
from opx_aws.deployed_api import AwsAccount
from opx_aws.vendor_errors import error_code, raised_as, translated_errors

INGEST, IDENTIFY = "ingest_documents", "identify_callers"
_STACKS = {Function.RETRIEVE: "retrieval", Function.MANAGE: "api", INGEST: "ingestion", IDENTIFY: "agent"}
_OPERATOR = "the rights of an operator (docs/deploy.md, Permissions)"
_INVOKED_SECONDS = 320.0
"""Longer than the longest function runs that is invoked."""

_TOKEN_SECONDS = 300.0
_READY_ATTEMPTS, _READY_PAUSE = 60, 2.0
_NOT_READY = (
    "ResourceConflictException",
    "ResourceNotReadyException",
    "SnapStartNotReadyException",
    "TooManyRequestsException",
)
"""Errors of a function that is being created or updated, or of which too many instances run."""

_ALARM = "dead-letters-expire"
_HISTORY_SECONDS = 30.0
_GATEWAY = "bedrock-agentcore"
_PROTOCOL = "2025-06-18"


@dataclass(eq=False)
class DeployedSystem:
    """The system that was deployed under the name of an environment, for `opx doctor`. `connect` makes a client of its HTTP
    API.

    Functions are invoked as AWS invokes them, so that a caller's identity can be stated: that is an operator's right
    (`lambda:InvokeFunction`). Methods raise `OpxError`, and `NotApplicableError` for a part that isn't deployed.
    """

    account: AwsAccount
    environment: str
    connect: Callable[[], Any]
    _: KW_ONLY
    sleep: Callable[[float], None] = time.sleep

    @property
    def title(self) -> str:
        return f"environment {self.environment} in {self.account.region}"

    @property
    def remedies(self) -> Mapping[str, str]:
        return {}

    @cached_property
    def identity(self) -> Identity:
        return Identity(self._settings.get("OPX_CLIENT_ID", ""), self._settings.get("OPX_PROJECT_ID", ""))

    # -- functions

    def invoke(self, function: Function, event: Mapping[str, Any]) -> Json:
        return self._invoke(function, event)

    def measure(self) -> EmbeddingSpeed:
        return msgspec.convert(self._invoke(INGEST, MEASURE), prepared(EmbeddingSpeed))

    def _invoke(self, use_case: str, event: Mapping[str, Any], context: Mapping[str, Any] | None = None) -> Json:
        """The answer of a function; `context` is what an agent's gateway sends beside the event."""
        name = self._function(use_case)
        given = {"ClientContext": base64.b64encode(json.dumps(context).encode()).decode()} if context else {}
        with self._translated(f"invoke {name}"):
            reply = self._invoked(FunctionName=name, Payload=json.dumps(event), **given)
            answer = json.loads(reply["Payload"].read())
        if "FunctionError" in reply:
            raise OpxError(f"{name} failed: {answer.get('errorType', '')}: {answer.get('errorMessage', '')}")
        return dict(answer)

    def _invoked(self, **call: str) -> Any:
        """The reply of a function, which isn't ready at once after a deployment."""
        functions = self._client("lambda", read_seconds=_INVOKED_SECONDS)
        for _ in range(_READY_ATTEMPTS):
            try:
                return functions.invoke(**call)
            except ClientError as exc:
                code = error_code(exc)
                if code not in _NOT_READY:
                    raise
                self.sleep(_READY_PAUSE)
        name = call["FunctionName"]
        raise OpxError(f"{name} is not ready after {_READY_ATTEMPTS * _READY_PAUSE:.0f} s: {code}")

    def _function(self, use_case: str) -> str:
        """The alias of a function, or its name where it has none."""
        resources = self._resources(_STACKS[use_case])
        name = use_case.replace("_", "-")
        for kind in ("AWS::Lambda::Alias", "AWS::Lambda::Function"):
            for resource in resources:
                if resource["ResourceType"] == kind and name in resource["PhysicalResourceId"]:
                    return str(resource["PhysicalResourceId"])
        raise NotApplicableError(f"the stack {self._stack(_STACKS[use_case])} has no function {name}")

    @cached_property
    def _settings(self) -> Mapping[str, str]:
        """The variables of the function that searches."""
        return self._settings_of(Function.RETRIEVE)

    def _settings_of(self, use_case: str) -> Mapping[str, str]:
        name = self._function(use_case)
        with self._translated(f"read the configuration of {name}"):
            found = self._client("lambda").get_function_configuration(FunctionName=name)
        return dict(found["Environment"]["Variables"])

    # -- the corpus

    def put(self, object_key: str, text: str) -> None:
        with self._translated(f"put {object_key}"):
            self._client("s3").put_object(
                Bucket=self._settings["OPX_CORPUS_BUCKET"], Key=object_key, Body=text.encode()
            )

    def delete(self, object_key: str) -> None:
        with self._translated(f"delete {object_key}"):
            self._client("s3").delete_object(Bucket=self._settings["OPX_CORPUS_BUCKET"], Key=object_key)

    # -- interfaces

    def api(self) -> Any:
        if not self._has("api"):
            raise NotApplicableError("there is no HTTP API in this environment")
        return self.connect()

    def ask_gateway(self, tool: str, arguments: Mapping[str, Any]) -> str:
        outputs = self._outputs("agent")
        url = outputs.get("GatewayUrl")
        if not url:
            tokens = "the gateway takes tokens alone, of which none is here"
            raise NotApplicableError(
                tokens if "TokenGatewayUrl" in outputs else "there is no gateway in this environment"
            )
        listed = self._gateway_call(url, "tools/list", {})
        names = [str(one["name"]) for one in listed.get("tools", ())]
        name = next((one for one in names if one.rpartition("___")[2] == tool), None)
        if name is None:
            raise OpxError(f"the gateway offers no tool {tool}; it offers: {', '.join(names) or 'none'}")
        found = self._gateway_call(url, "tools/call", {"name": name, "arguments": dict(arguments)})
        text = "\n".join(str(part.get("text", "")) for part in found.get("content", ()))
        if found.get("isError"):
            raise OpxError(f"{name} answered with an error: {text[:300]}")
        return text

    def ask_as_token_holder(self, identity: Identity, tool: str, arguments: Mapping[str, Any]) -> str:
        """Plays the gateway between its deployed interceptor, which reads the caller from a token, and the function: the
        gateway's part is to verify the token's signature."""
        settings = self._settings_of(IDENTIFY)
        name = f"{KNOWLEDGE.name}___{tool}"
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": name, "arguments": dict(arguments)},
        }
        request = {"headers": {"Authorization": f"Bearer {_token(identity, settings)}"}, "body": body}
        answer = self._invoke(IDENTIFY, {"interceptorInputVersion": "1.0", "mcp": {"gatewayRequest": request}})["mcp"]
        passed = answer.get("transformedGatewayRequest")
        if passed is None:
            raise OpxError(f"the interceptor refused the call: {answer['transformedGatewayResponse']['body']}")
        custom = {"bedrockAgentCoreToolName": name, "bedrockAgentCorePropagatedHeaders": passed["headers"]}
        return json.dumps(self._invoke(Function.RETRIEVE, arguments, {"custom": custom}), ensure_ascii=False)

    def _gateway_call(self, url: str, method: str, params: Mapping[str, Any]) -> Json:
        """The result of a request of the Model Context Protocol, whose answer is JSON or one event of a stream."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": _PROTOCOL,
        }
        signed = self.account.signed("POST", url, headers, body, service=_GATEWAY)
        connections = Connections(certificates=self.account.certificates)
        try:
            response = connections.request("POST", url, signed, body)
        finally:
            connections.close()
        text = response.data.decode("utf-8", "replace")
        if response.status != 200:
            raise OpxError(f"the gateway answered {method} with status {response.status}: {text[:300]}")
        try:
            answer = json.loads(next(_data(text), text))
        except ValueError:
            raise OpxError(f"the gateway answered {method} with something other than JSON: {text[:300]}") from None
        if "error" in answer:
            raise OpxError(f"the gateway answered {method} with {answer['error'].get('message', answer['error'])}")
        return dict(answer["result"])

    # -- alarms

    def fire_alarm(self) -> str:
        """Sets an alarm off and back, and reads in its history whether its actions were executed."""
        alarms = self._client("cloudwatch")
        alarm = self._alarm(alarms)
        name, topics = alarm["AlarmName"], alarm["AlarmActions"]
        begun = datetime.now(UTC)
        with self._translated(f"set the alarm {name} off"):
            alarms.set_alarm_state(
                AlarmName=name, StateValue="ALARM", StateReason="A test by opx doctor; nothing is wrong."
            )
            try:
                executed = self._executed(alarms, name, begun)
            finally:
                alarms.set_alarm_state(AlarmName=name, StateValue="OK", StateReason="The test by opx doctor is over.")
        if not executed:
            raise OpxError(f"{name} went off, and none of its actions was executed within {_HISTORY_SECONDS:.0f} s")
        failed = [summary for summary in executed if "Failed" in summary]
        if failed:
            raise OpxError(f"{name}: {failed[0]}")
        return f"{name} went off, notified {self._subscribed(topics)}, and is back"

    def _alarm(self, alarms: Any) -> dict[str, Any]:
        """The alarm on old dead letters, or another one with an action that isn't going off now."""
        prefix = "" if self.environment == "prod" else f"{self.environment}-"
        with self._translated("list alarms"):
            pages = alarms.get_paginator("describe_alarms").paginate(AlarmNamePrefix=f"{prefix}opx-knowledge-")
            found = [one for page in pages for one in page.get("MetricAlarms", ())]
        usable = [one for one in found if one.get("AlarmActions") and one.get("StateValue") != "ALARM"]
        if not usable:
            raise NotApplicableError("no alarm with an action that isn't going off anyway")
        return dict(next((one for one in usable if one["AlarmName"].endswith(_ALARM)), usable[0]))

    def _executed(self, alarms: Any, name: str, begun: datetime) -> list[str]:
        for _ in range(int(_HISTORY_SECONDS)):
            self.sleep(1.0)
            found = alarms.describe_alarm_history(AlarmName=name, HistoryItemType="Action", StartDate=begun)
            if summaries := [str(one["HistorySummary"]) for one in found.get("AlarmHistoryItems", ())]:
                return summaries
        return []

    def _subscribed(self, topics: list[str]) -> str:
        """The topic of an alarm, with the number of its confirmed subscriptions."""
        (topic, *_) = [one for one in topics if ":sns:" in one] or topics
        try:
            found = self._client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
        except (ClientError, BotoCoreError):
            return topic
        confirmed = [one for one in found if one["SubscriptionArn"].startswith("arn:")]
        if not confirmed:
            return f"{topic}, which has no confirmed subscription (-c alarm_email=...)"
        return f"{topic} with {len(confirmed)} confirmed subscription{'s' * (len(confirmed) != 1)}"

    # -- stacks

    def _stack(self, kind: str) -> str:
        return f"opx-knowledge-{self.environment}-{kind}"

    def _has(self, kind: str) -> bool:
        try:
            return bool(self._resources(kind))
        except NotApplicableError:
            return False

    def _resources(self, kind: str) -> list[dict[str, Any]]:
        if kind not in self._listed:
            stack = self._stack(kind)
            with self._translated(f"list the resources of the stack {stack}", missing=f"there is no stack {stack}"):
                pages = self._client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
                self._listed[kind] = [dict(one) for page in pages for one in page["StackResourceSummaries"]]
        return self._listed[kind]

    @cached_property
    def _listed(self) -> dict[str, list[dict[str, Any]]]:
        return {}

    def _outputs(self, kind: str) -> Mapping[str, str]:
        stack = self._stack(kind)
        with self._translated(f"look up the stack {stack}", missing=f"there is no stack {stack}"):
            (found,) = self._client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", ())}

    def _client(self, service: str, **options: Any) -> Any:
        return self.account.client(service, **options)

    @contextmanager
    def _translated(self, action: str, *, missing: str = "") -> Iterator[None]:
        codes = ("ValidationError",) if missing else ()
        refused = raised_as(NotApplicableError(missing), *codes)
        with translated_errors(action), self.account.credential_errors(action, _OPERATOR), refused:
            yield


def _token(identity: Identity, settings: Mapping[str, str]) -> str:
    """A token that the interceptor accepts, without a valid signature: the gateway itself would refuse it."""
    claims = {
        "iss": settings.get("OPX_TOKEN_ISSUER", ""),
        "sub": "opx-doctor",
        "exp": time.time() + _TOKEN_SECONDS,
        "opx_client_id": identity.client_id,
    }
    for claim, name in (("aud", "OPX_TOKEN_AUDIENCE"), ("client_id", "OPX_TOKEN_CLIENTS")):
        if accepted := listed(settings.get(name, "")):
            claims[claim] = accepted[0]
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), "unsigned"])


def _data(text: str) -> Iterator[str]:
    """The data of server-sent events."""
    return (line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:"))

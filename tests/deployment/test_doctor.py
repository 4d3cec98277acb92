"""`opx doctor` at the end of `make deploy`, and by itself."""

from __future__ import annotations

import json
import re

import pytest

from opx.errors import OpxError
from opx_aws.deployed_api import AwsAccount
from opx_aws.operator import DeployedSystem
from tests.deployment.cdk import Made
from tests.deployment.emulator import REGION
from tests.deployment.environments import ENVIRONMENT
from tests.deployment.system import SystemUnderTest, eventually

_CHECKS = "index|embedding|ingestion|words|meaning|action group|gateway|tokens|HTTP API|alarm|deletion"
_LINE = re.compile(rf"^(ok|failed|skipped) +({_CHECKS}) +(.+)", re.MULTILINE)


def test_a_deployment_ends_with_an_examination_of_every_part(deployment: Made) -> None:
    found = {name: (outcome, detail) for outcome, name, detail in _LINE.findall(deployment.output)}
    print(deployment.output[deployment.output.find("examining") :])
    skipped = {name: detail for name, (outcome, detail) in found.items() if outcome == "skipped"}
    assert {name for name, (outcome, _) in found.items() if outcome == "ok"} == {
        "index",
        "embedding",
        "ingestion",
        "words",
        "meaning",
        "action group",
        "HTTP API",
        "deletion",
    }
    assert skipped.keys() == {"gateway", "tokens", "alarm"}


def test_what_was_examined_is_gone(deployment: Made, system: SystemUnderTest) -> None:
    assert deployment.status == 0
    listed = system.s3.list_objects_v2(Bucket=system.bucket).get("Contents", [])
    assert [
        entry["Key"] for entry in listed if "selftest" in entry["Key"] and "/chunks/" not in f"/{entry['Key']}"
    ] == []


def test_an_alarm_notifies_its_topic_and_is_cleared(system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator executes actions of alarms, and has no record of that in their history."""
    for name, value in system.emulator.environment.items():
        monkeypatch.setenv(name, value)
    alarms = system.emulator.client("cloudwatch")
    found = alarms.describe_alarms(AlarmNamePrefix=f"{ENVIRONMENT}-opx-knowledge-")["MetricAlarms"]
    (topic,) = {action for alarm in found for action in alarm["AlarmActions"]}
    url = system.sqs.create_queue(QueueName="subscriber")["QueueUrl"]
    arn = system.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    statement = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
    policy = {"Version": "2012-10-17", "Statement": [{**statement, "Resource": arn}]}
    system.sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
    system.emulator.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    operator = DeployedSystem(AwsAccount(region=REGION), ENVIRONMENT, lambda: None, sleep=lambda _: None)
    with pytest.raises(OpxError, match="none of its actions was executed"):
        operator.fire_alarm()
    message = eventually(lambda: system.sqs.receive_message(QueueUrl=url).get("Messages"))[0]
    sent = json.loads(json.loads(message["Body"])["Message"])
    assert sent["NewStateValue"] == "ALARM"
    (cleared,) = alarms.describe_alarms(AlarmNames=[sent["AlarmName"]])["MetricAlarms"]
    assert cleared["StateValue"] == "OK"

"""Nothing that waits may vanish: retention of queues, failure destinations of asynchronous calls, and their alarms."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from io import BytesIO

import boto3
import pytest
import requests

from opx.domain.scopes import Scope
from opx.ingestion.events import parse_event
from opx.ports.tables import ANNOUNCEMENTS, FAILURES, KEYS, PROJECTS
from opx.settings import Settings, env_name
from opx_aws.queue import SqsQueue
from tests.aws.cloud import BUCKET, a_cloud
from tests.infra.templates import Assembly, Resource, listed
from tests.infra.test_ingestion import BUCKET as CORPUS
from tests.infra.test_ingestion import pairs, queue_arn, table_arns
from tests.infra.test_lifecycle import rights
from tests.support.fakes import function_logs

DAY = 86400
LONGEST = 14 * DAY
"""The longest that SQS keeps a message."""

SENDING = "arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:"


@pytest.fixture(scope="module")
def everything(make: Callable[..., Assembly]) -> Assembly:
    """Every choice that adds queues and functions."""
    streams = "arn:aws:kinesis:eu-central-1:111122223333:stream/pages"
    return make(knowledge_base="bedrock", webhooks="true", stream_arns=streams)


@pytest.fixture(params=["default", "without_snapstart", "everything"])
def assembly(request: pytest.FixtureRequest) -> Assembly:
    found: Assembly = request.getfixturevalue(request.param)
    return found


def queues(assembly: Assembly) -> dict[str, tuple[str, Resource]]:
    """Stack and properties of each queue by its name."""
    kind = "AWS::SQS::Queue"
    found = ((stack, r["Properties"]) for stack, _, r in assembly.all_resources() if r["Type"] == kind)
    return {queue["QueueName"]: (stack, queue) for stack, queue in found}


def test_every_queue_keeps_messages_as_long_as_sqs_does(assembly: Assembly) -> None:
    kept = {name: queue["MessageRetentionPeriod"] for name, (_, queue) in queues(assembly).items()}
    assert len(kept) > 10
    assert {name: seconds for name, seconds in kept.items() if seconds < LONGEST} == {}


def test_dead_letters_are_kept_no_shorter_than_the_messages_of_their_queue(assembly: Assembly) -> None:
    checked = 0
    for name, (stack, queue) in queues(assembly).items():
        if "RedrivePolicy" in queue:
            target = queue["RedrivePolicy"]["deadLetterTargetArn"].strip("<>").removesuffix(".Arn")
            kept = assembly.resources(stack, "SQS::Queue")[target]["MessageRetentionPeriod"]
            assert kept >= queue["MessageRetentionPeriod"], name
            checked += 1
    assert checked > 5


# -- asynchronous calls of functions


def called_asynchronously(assembly: Assembly) -> Iterator[tuple[str, str]]:
    """Name and qualifier of each function that a schedule or a rule calls: Lambda puts such calls into a queue of its
    own, and drops those that fail three times."""
    for stack, _, resource in assembly.all_resources():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Scheduler::Schedule":
            yield from called(assembly, stack, properties["Target"]["Arn"])
        if resource["Type"] == "AWS::Events::Rule":
            for target in properties["Targets"]:
                yield from called(assembly, stack, target["Arn"])


def called(assembly: Assembly, stack: str, arn: str) -> Iterator[tuple[str, str]]:
    """Resolves `arn:...:function:name[:alias]`, or a reference within the stack."""
    if ":function:" in arn:
        name, _, qualifier = arn.partition(":function:")[2].partition(":")
        yield name, qualifier or "$LATEST"
    else:
        logical = arn.strip("<>").removesuffix(".Arn")
        functions = assembly.resources(stack, "Lambda::Function")
        if logical in functions:
            yield functions[logical]["FunctionName"], "$LATEST"


def destinations(assembly: Assembly) -> dict[tuple[str, str], str]:
    """Name of the queue for failed calls, by function and qualifier."""
    found = {}
    for stack, _, resource in assembly.all_resources():
        if resource["Type"] == "AWS::Lambda::EventInvokeConfig":
            config = resource["Properties"]
            function = assembly.resources(stack, "Lambda::Function").get(config["FunctionName"].strip("<>"))
            name = function["FunctionName"] if function else config["FunctionName"]
            failed = config["DestinationConfig"]["OnFailure"]["Destination"].strip("<>").removesuffix(".Arn")
            found[name, config["Qualifier"]] = assembly.resources(stack, "SQS::Queue")[failed]["QueueName"]
    return found


def sendable(assembly: Assembly, function: str) -> set[str]:
    """Queues that the function's role may send to: ARNs, and references."""
    roles = {
        (stack, resource["Properties"]["Role"].strip("<>").removesuffix(".Arn"))
        for stack, _, resource in assembly.all_resources()
        if resource["Type"] == "AWS::Lambda::Function" and resource["Properties"].get("FunctionName") == function
    }
    ((stack, role),) = roles
    return {
        queue
        for policy in assembly.resources(stack, "IAM::Policy").values()
        if f"<{role}>" in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
        if "sqs:SendMessage" in listed(statement["Action"])
        for queue in listed(statement["Resource"])
    }


def test_asynchronous_calls_that_fail_for_good_are_kept(assembly: Assembly) -> None:
    targets, kept = set(called_asynchronously(assembly)), destinations(assembly)
    assert len(targets) >= 5
    assert {target for target in targets if target not in kept} == set()


def test_functions_may_send_their_failed_calls(assembly: Assembly) -> None:
    for (function, _), queue in destinations(assembly).items():
        assert SENDING + queue in sendable(assembly, function), function


def test_queues_for_failed_calls_have_an_alarm(assembly: Assembly) -> None:
    alarms = {alarm["AlarmName"] for alarm in assembly.resources("observability", "CloudWatch::Alarm").values()}
    for queue in destinations(assembly).values():
        assert queue.replace("opx-knowledge-", "opx-knowledge-dead-letters-") in alarms


# -- alarms before anything expires


def test_every_work_queue_has_an_alarm_at_half_of_its_retention(assembly: Assembly) -> None:
    working = {name: queue for name, (_, queue) in queues(assembly).items() if "RedrivePolicy" in queue}
    alarms = assembly.resources("observability", "CloudWatch::Alarm").values()
    ages = {
        alarm["Dimensions"][0]["Value"]: alarm["Threshold"]
        for alarm in alarms
        if alarm.get("MetricName") == "ApproximateAgeOfOldestMessage" and "messages-old" in alarm["AlarmName"]
    }
    assert ages == {name: queue["MessageRetentionPeriod"] / 2 for name, queue in working.items()}


def test_announcements_that_are_never_ingested_have_an_alarm_after_two_days(assembly: Assembly) -> None:
    alarms = assembly.resources("observability", "CloudWatch::Alarm").values()
    (alarm,) = (alarm for alarm in alarms if alarm["AlarmName"].endswith("announced-not-ingested"))
    assert (alarm["MetricName"], alarm["Statistic"]) == ("OldestAnnouncement", "Maximum")
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (2 * DAY, "GreaterThanThreshold")


def test_streams_have_an_alarm_before_their_shortest_retention_ends(everything: Assembly, default: Assembly) -> None:
    """Kinesis keeps records for a day unless its owner chose more."""
    alarms = everything.resources("observability", "CloudWatch::Alarm").values()
    (alarm,) = (alarm for alarm in alarms if alarm["AlarmName"].endswith("stream-behind"))
    assert (alarm["MetricName"], alarm["Threshold"]) == ("IteratorAge", DAY / 2 * 1000)
    assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": "dev-opx-consume-stream"}]
    without = default.resources("observability", "CloudWatch::Alarm").values()
    assert not [alarm for alarm in without if alarm["AlarmName"].endswith("stream-behind")]


# -- the ledger of announced changes


def test_every_entry_has_the_bucket_announce_what_it_stores_to_both_queues(
    default: Assembly, aws: boto3.Session
) -> None:
    """Documents of the API, files of the command, presigned uploads, large files and restored versions."""
    text = "# Disk full\n\nDelete rotated logs."
    with function_logs(), a_cloud(aws) as cloud:
        queues = {stack: targeted(default, stack, aws) for stack in ("ingestion", "lifecycle")}
        cloud.s3.put_bucket_notification_configuration(
            Bucket=BUCKET, NotificationConfiguration={"EventBridgeConfiguration": {}}
        )
        manager = cloud.services.ingestion.manager_of(Scope("acme"))
        put = [manager.put_document("runbooks/procedures", text, {"source": "one"})]
        put += map(str, manager.put_batch("runbooks/procedures", [text]))
        large = "documents/runbooks/large.md"
        cloud.services.store.put(large, BytesIO(text.encode() * 500_000))  # more than a part
        copied = "documents/runbooks/copied.md"
        cloud.s3.copy_object(Bucket=BUCKET, Key=copied, CopySource={"Bucket": BUCKET, "Key": large})
        uploaded = "documents/runbooks/uploaded.md"
        signer = cloud.services.corpus.upload_signer
        assert signer
        signed = signer.sign_put(uploaded, size=len(text), sha256=hashlib.sha256(text.encode()).hexdigest())
        assert requests.put(signed.url, data=text.encode(), headers=signed.headers, timeout=5).ok
        cloud.services.store.delete(copied)
        cloud.services.store.put("chunks/runbooks/one.jsonl", b"{}")  # nothing that is ingested
        expected = {(copied, True), *((key, False) for key in (*put, large, copied, uploaded))}
        for stack, url in queues.items():
            assert announced_in(aws, url) == expected, stack


def targeted(assembly: Assembly, stack: str, session: boto3.Session) -> str:
    """The stack's rule with a queue as its target; returns the queue's URL."""
    sqs, events = session.client("sqs"), session.client("events")
    url: str = sqs.create_queue(QueueName=f"of-{stack}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    pattern = assembly.only(stack, "Events::Rule")["EventPattern"]
    pattern = {**pattern, "detail": {**pattern["detail"], "bucket": {"name": [BUCKET]}}}
    events.put_rule(Name=stack, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=stack, Targets=[{"Id": "queue", "Arn": arn}])
    return url


def announced_in(session: boto3.Session, url: str) -> set[tuple[str, bool]]:
    """Object keys of the events in a queue, and whether the object was deleted. Some events are there twice."""
    queue = SqsQueue(session.client("sqs"), url, wait_seconds=0)
    found = set()
    while messages := queue.receive():
        found |= {(event.key, event.deleted) for event in (parse_event(message.body) for message in messages)}
    return found


def recorder(assembly: Assembly) -> Resource:
    functions = assembly.resources("lifecycle", "Lambda::Function").values()
    (found,) = (function for function in functions if function["FunctionName"] == "dev-opx-record-announcements")
    return found


def test_the_ledger_hears_of_every_change_that_is_ingested(default: Assembly) -> None:
    rule = default.only("lifecycle", "Events::Rule")
    assert rule["EventPattern"] == default.only("ingestion", "Events::Rule")["EventPattern"]
    (target,) = rule["Targets"]
    queues = default.resources("lifecycle", "SQS::Queue")
    assert queues[target["Arn"].strip("<>").removesuffix(".Arn")]["QueueName"] == "dev-opx-knowledge-announcements"


def test_announcements_come_after_most_changes_are_ingested(default: Assembly) -> None:
    queues = default.resources("lifecycle", "SQS::Queue").values()
    (queue,) = (queue for queue in queues if queue["QueueName"] == "dev-opx-knowledge-announcements")
    assert queue["DelaySeconds"] == 900
    assert queue["VisibilityTimeout"] == 6 * recorder(default)["Timeout"]


def test_announcements_are_recorded_in_large_batches(default: Assembly) -> None:
    mappings = default.resources("lifecycle", "Lambda::EventSourceMapping").values()
    (mapping,) = (mapping for mapping in mappings if "Ledger" in mapping["FunctionName"])
    assert (mapping["BatchSize"], mapping["MaximumBatchingWindowInSeconds"]) == (1000, 60)


def test_lost_changes_are_looked_for_four_times_a_day(default: Assembly) -> None:
    schedules = default.resources("lifecycle", "Scheduler::Schedule").values()
    (found,) = (schedule for schedule in schedules if schedule["Name"] == "announce-again")
    assert (found["ScheduleExpression"], found["State"]) == ("cron(50 0/6 * * ? *)", "ENABLED")
    assert json.loads(found["Target"]["Input"]) == {"task": "announce_again"}


def test_the_function_may_do_exactly_this(default: Assembly) -> None:
    logs = recorder(default)["LoggingConfig"]["LogGroup"].strip("<>")
    found = rights(default, "LedgerRecordAnnouncementsRole")
    (queue,) = {resource for action, resource in found if action == "sqs:DeleteMessage"}
    tables = {arn for arn in table_arns(FAILURES, KEYS) if "/index/" not in arn}
    assert found == (
        pairs("logs:CreateLogStream PutLogEvents", {f"<{logs}.Arn>"})
        | pairs("xray:PutTelemetryRecords PutTraceSegments", {"*"})
        | pairs("s3:ListBucket", {CORPUS})
        | pairs("s3:GetObject", {f"{CORPUS}/documents/*", f"{CORPUS}/clients/*/documents/*"})
        | pairs("dynamodb:BatchWriteItem DeleteItem GetItem PutItem Query", table_arns(ANNOUNCEMENTS))
        | pairs("dynamodb:BatchGetItem", tables)
        | pairs("dynamodb:GetItem", {arn for arn in table_arns(PROJECTS) if "/index/" not in arn})
        | pairs("sqs:GetQueueAttributes SendMessage", {queue_arn("ingest")})
        | pairs("sqs:SendMessage", {queue_arn("announcements-failed")})
        | pairs("sqs:ChangeMessageVisibility DeleteMessage GetQueueAttributes GetQueueUrl ReceiveMessage", {queue})
    )


def test_its_environment_makes_valid_settings_and_nothing_else(default: Assembly) -> None:
    variables = recorder(default)["Environment"]["Variables"]
    assert set(variables) <= {env_name(name) for name in Settings.__struct_fields__}
    settings = Settings.from_environ(variables)
    assert settings.backend == "aws"
    assert settings.ingest_queue_url.endswith("/dev-opx-knowledge-ingest")
    assert settings.corpus_bucket.startswith("dev-opx-knowledge-corpus")

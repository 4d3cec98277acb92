"""The way from a changed object to the function that takes it in."""

from __future__ import annotations

import pytest

from opx.ingestion.worker import RetryRules
from opx.ports.tables import (
    ALIASES,
    ANNOUNCEMENTS,
    CALENDAR,
    DOCUMENTS,
    EMBEDDINGS,
    ENTRIES,
    FAILURES,
    GRAPH,
    IDEMPOTENCY,
    KEYS,
    LIFECYCLE,
    PROJECTS,
    TableSpec,
)
from opx.settings import Settings
from tests.infra.templates import Assembly, Resource, listed
from tests.infra.test_storage import CORPUS

QUEUE = "dev-opx-knowledge-ingest"
BUCKET = "arn:<AWS::Partition>:s3:::dev-opx-knowledge-corpus-<AWS::AccountId>-<AWS::Region>"
WRITTEN = (ALIASES, CALENDAR, DOCUMENTS, KEYS, ENTRIES, FAILURES, EMBEDDINGS, GRAPH, LIFECYCLE)


def queue(assembly: Assembly, name: str) -> tuple[str, Resource]:
    """Logical id and properties."""
    queues = assembly.resources("ingestion", "SQS::Queue").items()
    (found,) = ((logical, q) for logical, q in queues if q["QueueName"] == name)
    return found


def function(assembly: Assembly) -> Resource:
    return assembly.only("ingestion", "Lambda::Function")


def rights(assembly: Assembly, stack: str) -> set[tuple[str, str]]:
    """Every pair of action and resource that the stack's only role may use."""
    policy = assembly.only(stack, "IAM::Policy")["PolicyDocument"]
    assert {statement["Effect"] for statement in policy["Statement"]} == {"Allow"}
    return {
        (action, resource)
        for statement in policy["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def table_arns(*specs: TableSpec) -> set[str]:
    start = "arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/dev-"
    tables = {start + spec.name for spec in specs}
    return tables | {f"{start}{spec.name}/index/{index.name}" for spec in specs for index in spec.indexes}


def queue_arn(kind: str) -> str:
    """A queue by its name, as stacks refer to those of others."""
    return f"arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:dev-opx-knowledge-{kind}"


def clients_arn() -> set[str]:
    """The table that says which clients were removed, without its index."""
    return {arn for arn in table_arns(PROJECTS) if "/index/" not in arn}


def pairs(actions: str, resources: set[str]) -> set[tuple[str, str]]:
    service, names = actions.split(":")
    return {(f"{service}:{name}", resource) for name in names.split() for resource in resources}


def test_changed_documents_of_everyone_and_of_clients_are_reported(default: Assembly) -> None:
    pattern = default.only("ingestion", "Events::Rule")["EventPattern"]
    assert pattern["source"] == ["aws.s3"]
    assert pattern["detail-type"] == ["Object Created", "Object Deleted"]
    corpus = default.resources("storage", "S3::Bucket")[CORPUS]["BucketName"]
    assert pattern["detail"]["bucket"] == {"name": [corpus]}
    keys = pattern["detail"]["object"]["key"]
    assert keys == [{"prefix": "documents/"}, {"wildcard": "clients/*/documents/*"}]


def test_events_go_into_the_queue_and_what_cannot_be_delivered_is_kept(default: Assembly) -> None:
    (target,) = default.only("ingestion", "Events::Rule")["Targets"]
    assert target["Arn"] == f"<{queue(default, QUEUE)[0]}.Arn>"
    assert target["DeadLetterConfig"] == {"Arn": f"<{queue(default, QUEUE + '-undelivered')[0]}.Arn>"}


@pytest.mark.parametrize("name", [QUEUE, QUEUE + "-failed", QUEUE + "-undelivered"])
def test_queues_are_encrypted_and_refuse_connections_without_tls(default: Assembly, name: str) -> None:
    logical, found = queue(default, name)
    assert found["SqsManagedSseEnabled"] is True
    policies = default.resources("ingestion", "SQS::QueuePolicy").values()
    (policy,) = (p["PolicyDocument"] for p in policies if p["Queues"] == [f"<{logical}>"])
    (denied,) = (s for s in policy["Statement"] if s["Effect"] == "Deny")
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert (denied["Action"], denied["Principal"]) == ("sqs:*", {"AWS": "*"})


@pytest.mark.parametrize("name", [QUEUE, QUEUE + "-undelivered"])
def test_only_the_rule_may_send(default: Assembly, name: str) -> None:
    logical, _ = queue(default, name)
    (rule,) = default.resources("ingestion", "Events::Rule")
    policies = default.resources("ingestion", "SQS::QueuePolicy").values()
    (policy,) = (p["PolicyDocument"] for p in policies if p["Queues"] == [f"<{logical}>"])
    (allowed,) = (s for s in policy["Statement"] if s["Effect"] == "Allow")
    assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
    assert allowed["Condition"] == {"ArnEquals": {"aws:SourceArn": f"<{rule}.Arn>"}}


def test_a_message_that_keeps_failing_is_set_aside_after_the_library_gave_up(default: Assembly) -> None:
    _, found = queue(default, QUEUE)
    failed, _ = queue(default, QUEUE + "-failed")
    assert found["RedrivePolicy"]["deadLetterTargetArn"] == f"<{failed}.Arn>"
    assert found["RedrivePolicy"]["maxReceiveCount"] == 8 > _deployed(default).max_attempts


def test_a_document_waits_ten_minutes_for_a_store_that_is_away_before_it_counts_as_failed(default: Assembly) -> None:
    chosen = _deployed(default)
    rules = RetryRules(chosen.max_attempts, chosen.retry_base_seconds)
    assert 600 <= sum(rules.delay(attempt) for attempt in range(1, chosen.max_attempts)) <= 900


def _deployed(assembly: Assembly) -> Settings:
    """The settings of the deployed function."""
    return Settings.from_environ(assembly.only("ingestion", "Lambda::Function")["Environment"]["Variables"])


@pytest.mark.parametrize("name", [QUEUE + "-failed", QUEUE + "-undelivered"])
def test_dead_letters_are_kept_for_two_weeks(default: Assembly, name: str) -> None:
    _, found = queue(default, name)
    assert found["MessageRetentionPeriod"] == 14 * 86400


def test_a_message_is_hidden_for_six_times_the_functions_timeout(default: Assembly) -> None:
    _, found = queue(default, QUEUE)
    assert found["VisibilityTimeout"] == 6 * function(default)["Timeout"]


def test_a_claim_on_a_document_outlives_the_function(default: Assembly) -> None:
    assert function(default)["Timeout"] < Settings().lease_seconds


def test_a_failed_message_does_not_bring_back_its_whole_batch(default: Assembly) -> None:
    mapping = default.only("ingestion", "Lambda::EventSourceMapping")
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BatchSize"] == 10


def test_the_queue_uses_no_more_functions_than_are_reserved(default: Assembly) -> None:
    mapping = default.only("ingestion", "Lambda::EventSourceMapping")
    assert mapping["ScalingConfig"]["MaximumConcurrency"] <= function(default)["ReservedConcurrentExecutions"]


def test_the_function_runs_the_handler_of_its_folder(default: Assembly) -> None:
    found = function(default)
    assert (found["Runtime"], found["Architectures"]) == ("python3.13", ["arm64"])
    assert found["Handler"] == "handler.handler"
    assert len(found["Layers"]) == 2


def test_the_function_may_do_exactly_this(default: Assembly) -> None:
    logs = f"<{next(iter(default.resources('ingestion', 'Logs::LogGroup')))}.Arn>"
    collection = next(resource for action, resource in rights(default, "ingestion") if action.startswith("aoss:"))
    chunks = {f"{BUCKET}/chunks/*", f"{BUCKET}/clients/*/chunks/*"}
    documents = {f"{BUCKET}/documents/*", f"{BUCKET}/clients/*/documents/*"}
    model = "arn:<AWS::Partition>:bedrock:<AWS::Region>::foundation-model/amazon.titan-embed-text-v2:0"
    assert rights(default, "ingestion") == (
        pairs("logs:CreateLogStream PutLogEvents", {logs})
        | pairs("s3:ListBucket", {BUCKET})
        | pairs("s3:GetObject", chunks | documents)
        | pairs("s3:GetObjectTagging GetObjectVersionTagging", documents)
        | pairs("s3:AbortMultipartUpload PutObject", chunks)
        | pairs("dynamodb:BatchGetItem GetItem Query BatchWriteItem DeleteItem PutItem", table_arns(*WRITTEN))
        | pairs("dynamodb:GetItem UpdateItem", table_arns(IDEMPOTENCY))
        | pairs("dynamodb:BatchGetItem PutItem", clients_arn())
        | pairs("dynamodb:BatchGetItem GetItem Query", table_arns(PROJECTS))
        | pairs("dynamodb:DeleteItem", {arn for arn in table_arns(ANNOUNCEMENTS) if "/index/" not in arn})
        | pairs("sqs:SendMessage", {queue_arn("ingest"), queue_arn("relink-failed")})
        | pairs("aoss:APIAccessAll", {collection})
        | pairs("bedrock:InvokeModel", {model})
        | pairs("xray:PutTelemetryRecords PutTraceSegments", {"*"})
        | pairs("textract:DetectDocumentText", {"*"})
        | pairs(
            "sqs:ChangeMessageVisibility DeleteMessage GetQueueAttributes GetQueueUrl ReceiveMessage",
            {f"<{queue(default, QUEUE)[0]}.Arn>"},
        )
    )


def test_the_collection_right_is_on_the_search_stacks_collection(default: Assembly) -> None:
    (collection,) = default.resources("search", "OpenSearchServerless::Collection")
    published = {one["Name"]: one["Value"] for one in default.resources("search", "SSM::Parameter").values()}
    for stack in ("ingestion", "retrieval"):
        (resource,) = (resource for action, resource in rights(default, stack) if action == "aoss:APIAccessAll")
        parameter = default.templates[stack]["Parameters"][resource.strip("<>")]
        assert published[parameter["Default"]] == f"<{collection}.Arn>"


def test_a_model_behind_an_inference_profile_may_be_called_through_it_alone(ephemeral: Assembly) -> None:
    called = {resource for action, resource in rights(ephemeral, "ingestion") if action == "bedrock:InvokeModel"}
    bedrock = "arn:<AWS::Partition>:bedrock"
    assert called == {
        f"{bedrock}:<AWS::Region>:<AWS::AccountId>:inference-profile/eu.cohere.embed-v4:0",
        f"{bedrock}:*::foundation-model/cohere.embed-v4:0",
    }

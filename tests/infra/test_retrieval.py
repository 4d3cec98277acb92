"""The function that agents ask."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opx.ports.tables import (
    ALIASES,
    ANNOUNCEMENTS,
    AUDIT,
    BASELINES,
    CALENDAR,
    DOCUMENTS,
    EMBEDDINGS,
    FAILURES,
    GAPS,
    GRAPH,
    KEYS,
    LIFECYCLE,
    OUTCOMES,
    PATTERNS,
    PROJECTS,
    STAGING,
    USES,
)
from tests.infra.templates import Assembly, listed
from tests.infra.test_ingestion import BUCKET, pairs, queue_arn, rights, table_arns

READ = (
    *(ALIASES, BASELINES, CALENDAR, DOCUMENTS, EMBEDDINGS, FAILURES, GRAPH, KEYS),
    *(LIFECYCLE, OUTCOMES, PATTERNS, PROJECTS, STAGING),
)
FOLDERS = ("documents", "clients/*/documents", "chunks", "clients/*/chunks", "words")


def test_the_function_may_only_read_and_record_questions(default: Assembly) -> None:
    logs = f"<{next(iter(default.resources('retrieval', 'Logs::LogGroup')))}.Arn>"
    collection = next(resource for action, resource in rights(default, "retrieval") if action.startswith("aoss:"))
    model = "arn:<AWS::Partition>:bedrock:<AWS::Region>::foundation-model/amazon.titan-embed-text-v2:0"
    assert rights(default, "retrieval") == (
        pairs("logs:CreateLogStream PutLogEvents", {logs})
        | pairs("dynamodb:BatchGetItem GetItem Query", table_arns(*READ))
        | pairs("dynamodb:GetItem PutItem Query", table_arns(AUDIT))
        | pairs("dynamodb:BatchWriteItem DeleteItem GetItem PutItem Query", table_arns(GAPS))
        | pairs("dynamodb:PutItem", table_arns(EMBEDDINGS))
        | pairs("dynamodb:BatchGetItem BatchWriteItem", table_arns(USES))
        | pairs("aoss:APIAccessAll", {collection})
        | pairs("bedrock:InvokeModel", {model})
        | pairs("s3:ListBucket", {BUCKET})
        | pairs("s3:GetObject", {f"{BUCKET}/{folder}/*" for folder in FOLDERS})
        | pairs("dynamodb:Query", table_arns(ANNOUNCEMENTS))
        | pairs("sqs:GetQueueAttributes", {queue_arn("ingest")})
        | pairs("sqs:SendMessage", {queue_arn("gaps-failed")})
        | pairs("xray:PutTelemetryRecords PutTraceSegments", {"*"})
    )


def test_of_the_cached_vectors_it_may_use_those_of_queries_and_the_speed_limit(default: Assembly) -> None:
    statements = [
        statement
        for policy in default.resources("retrieval", "IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if "dynamodb:PutItem" in listed(statement["Action"])
        and set(listed(statement["Resource"])) & table_arns(EMBEDDINGS)
    ]
    (statement,) = statements
    assert statement["Condition"] == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["query#*", "limit#*"]}}


def test_the_function_runs_the_handler_of_its_folder_on_the_lean_layer(default: Assembly) -> None:
    found = default.only("retrieval", "Lambda::Function")
    assert found["Handler"] == "handler.handler"
    assert len(found["Layers"]) == 2
    descriptions = {layer["Description"] for layer in default.resources("retrieval", "Lambda::LayerVersion").values()}
    assert descriptions == {"The opx library", "Packages of search.txt"}


def test_the_function_starts_from_a_snapshot_of_its_newest_version(default: Assembly) -> None:
    ((name, function),) = default.resources("retrieval", "Lambda::Function").items()
    assert function["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    ((version, published),) = default.resources("retrieval", "Lambda::Version").items()
    assert published["FunctionName"] == f"<{name}>"
    alias = default.only("retrieval", "Lambda::Alias")
    assert (alias["Name"], alias["FunctionVersion"]) == ("live", f"<{version}.Version>")


def test_function_is_exported_by_its_alias(default: Assembly) -> None:
    (alias,) = default.resources("retrieval", "Lambda::Alias")
    assert default.templates["retrieval"]["Outputs"]["FunctionArn"]["Value"] == f"<{alias}>"


def test_without_snapstart_the_function_itself_is_called(without_snapstart: Assembly) -> None:
    plain = without_snapstart
    ((name, function),) = plain.resources("retrieval", "Lambda::Function").items()
    assert "SnapStart" not in function
    assert plain.templates["retrieval"]["Outputs"]["FunctionArn"]["Value"] == f"<{name}.Arn>"
    assert not plain.resources("retrieval", "Lambda::Alias")


def test_as_many_questions_are_answered_at_once_as_the_index_should_bear(
    default: Assembly, without_snapstart: Assembly
) -> None:
    assert default.only("retrieval", "Lambda::Function")["ReservedConcurrentExecutions"] == 50
    for stack in ("retrieval", "ingestion"):
        assert "ReservedConcurrentExecutions" not in without_snapstart.only(stack, "Lambda::Function")


def test_the_internet_is_searched_only_where_the_knowledge_file_names_an_engine(
    default: Assembly, make: Callable[..., Assembly], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.retrieval.read_section", lambda name: {"search_provider": "brave"})
    searching = make(agent="none", api_auth="none")
    added = rights(searching, "retrieval") - rights(default, "retrieval")
    secrets = "arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:dev-opx-knowledge/*"
    cache = "arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/dev-opx-knowledge-web-cache"
    assert added == (pairs("secretsmanager:GetSecretValue", {secrets}) | pairs("dynamodb:GetItem PutItem", {cache}))

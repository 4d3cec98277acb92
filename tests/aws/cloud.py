"""The whole system on AWS doubles: bucket, tables and queue in moto, search and embeddings on the loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import boto3

from lambdas.ingest_documents.handler import make_handler as make_ingest_handler
from lambdas.retrieve_knowledge.handler import make_handler as make_retrieve_handler
from opx.operations.system import System
from opx.ports import Embedder, SearchIndex
from opx.ports.tables import ALL_TABLES
from opx.settings import Settings
from opx.system import bootstrap
from opx_aws.bedrock_embedder import BedrockEmbedder
from opx_aws.handled_events import DynamoHandledEvents
from opx_aws.opensearch import OpenSearchIndex, ensure_index, opensearch_client
from tests.doubles.bedrock import BedrockDouble
from tests.doubles.opensearch import OpenSearchDouble
from tests.support.agent_calls import ask
from tests.support.dynamo_tables import create_tables
from tests.support.fakes import FakeContext

BUCKET = "opx-knowledge-corpus"
INDEX = "opx-knowledge"
PREFIX = "test-"


@dataclass
class Cloud:
    """An account with the system in it, and its functions."""

    services: System
    search: OpenSearchDouble
    bedrock: BedrockDouble
    s3: Any
    sqs: Any
    dynamodb: Any
    queue_url: str

    def __post_init__(self) -> None:
        handled = DynamoHandledEvents(self.dynamodb, table_prefix=PREFIX)
        self.ingest = make_ingest_handler(lambda: (self.services, handled))
        self.retrieve = make_retrieve_handler(lambda: self.services)
        self._numbers = count(1)

    # -- the bucket and its events

    def put(self, key: str, text: str) -> str:
        """Store an object and send its event; returns the event."""
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=text.encode())
        return self.send(self.event(key))

    def delete(self, key: str) -> str:
        self.s3.delete_object(Bucket=BUCKET, Key=key)
        return self.send(self.event(key, "Object Deleted"))

    def event(self, key: str, kind: str = "Object Created") -> str:
        """EventBridge's event of a change; later events have greater sequencers."""
        detail = {
            "version": "0",
            "bucket": {"name": BUCKET},
            "object": {"key": key, "size": 10, "etag": "0" * 32, "sequencer": f"0065F1{next(self._numbers):012X}"},
            "reason": "PutObject",
        }
        return json.dumps({"version": "0", "source": "aws.s3", "detail-type": kind, "detail": detail})

    def send(self, body: str) -> str:
        self.sqs.send_message(QueueUrl=self.queue_url, MessageBody=body)
        return body

    # -- Lambda's part

    def deliver(self) -> list[str]:
        """Call the ingestion function with the messages that are visible, delete what it doesn't report, and return
        the bodies of what it does."""
        records = self.receive()
        if not records:
            return []
        answer: Any = self.ingest({"Records": records}, FakeContext())
        reported = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for record in records:
            if record["messageId"] not in reported:
                self.sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=record["receiptHandle"])
        return [record["body"] for record in records if record["messageId"] in reported]

    def receive(self) -> list[dict[str, Any]]:
        answer = self.sqs.receive_message(
            QueueUrl=self.queue_url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        )
        return [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message["Attributes"],
                "eventSource": "aws:sqs",
            }
            for message in answer.get("Messages", [])
        ]

    # -- results

    def ask(self, query: str, client: str = "") -> str:
        """Answer of the runbook search to an agent of this client."""
        return ask(self.retrieve, "search_runbooks", {"opxClientId": client}, query=query)

    def items(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.dynamodb.scan(TableName=PREFIX + table)["Items"]
        return found


@contextmanager
def a_cloud(
    session: boto3.Session,
    make_index: Callable[[Embedder], SearchIndex] | None = None,
    *,
    clock: Callable[[], float] = time.time,
    **chosen: Any,
) -> Iterator[Cloud]:
    """Everything deployed and empty. The session must be of a mocked account.

    `make_index` gives another index than the one on the double; `chosen` are further settings.
    """
    clients: dict[str, Any] = {"s3": session.client("s3"), "sqs": session.client("sqs")}
    clients["dynamodb"] = session.client("dynamodb")
    clients["s3"].create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    url = clients["sqs"].create_queue(QueueName="ingest", Attributes={"VisibilityTimeout": "5400"})["QueueUrl"]
    create_tables(session, ALL_TABLES, PREFIX)
    settings = Settings(
        backend="aws",
        corpus_bucket=BUCKET,
        table_prefix=PREFIX,
        ingest_queue_url=url,
        embedding_requests_per_minute=600_000,
        query_cache_days=0,
        **chosen,
    )
    with ExitStack() as stack:
        search, bedrock = stack.enter_context(OpenSearchDouble()), stack.enter_context(BedrockDouble())
        runtime = session.client("bedrock-runtime", endpoint_url=bedrock.endpoint)
        clients["bedrock-runtime"] = runtime
        embedder = BedrockEmbedder(runtime, "amazon.titan-embed-text-v2:0")
        client = opensearch_client(search.endpoint, session.get_credentials(), "eu-central-1")
        stack.callback(client.close)
        ensure_index(client, INDEX, model_id=embedder.model_id, dimension=embedder.dimension)
        services = bootstrap(
            settings,
            clock=clock,
            index=make_index(embedder) if make_index else OpenSearchIndex(client, INDEX),
            aws=lambda service, **_: clients[service] if service in clients else session.client(service),
        )
        accounts = {name: clients[name] for name in ("s3", "sqs", "dynamodb")}
        yield Cloud(services, search, bedrock, **accounts, queue_url=url)

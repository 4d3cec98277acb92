"""The deployed system, as its users and operators see it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from infra.configuration import Deployment
from infra.constructs.use_case_function import LIVE
from infra.names import Names
from opx.domain.documents import DocumentKey
from opx.domain.scopes import scope_of_object
from opx.errors import IndexUnavailableError
from opx.ingestion.corpus.chunk_files import read_chunks
from opx.operations.system import System
from opx.ports.tables import ALL_TABLES, TableSpec
from opx.settings import Settings, env_name
from opx.system import bootstrap
from opx_aws.opensearch import OpenSearchIndex
from tests.deployment.clients import engine_client
from tests.deployment.emulator import ACCOUNT, REGION, Emulator
from tests.deployment.engines import INDEX, Engine
from tests.doubles.bedrock import BedrockDouble
from tests.support.agent_calls import a_function_event, text_of

Found = TypeVar("Found")
WAIT_SECONDS = 540.0
LOOK_SECONDS = 0.3
COLD_START_SECONDS = 60
"""Within which a function has started and answered, also on a busy machine."""

MANY = 100
"""Receives of a message that is not to become a dead letter."""

INGEST, RETRIEVE = "ingest_documents", "retrieve_knowledge"


def eventually(look: Callable[[], Found | None], *, seconds: float = WAIT_SECONDS) -> Found:
    """The first true result of `look`. Its errors are raised only when the time is up."""
    until = time.monotonic() + seconds
    while True:
        try:
            found = look()
            if found:
                return found
            problem = f"still {found!r} after {seconds} s"
            cause = None
        except (AssertionError, IndexUnavailableError) as exc:
            problem, cause = f"still failing after {seconds} s: {exc}", exc
        if time.monotonic() > until:
            raise AssertionError(problem) from cause
        time.sleep(LOOK_SECONDS)


@dataclass
class SystemUnderTest:
    """One environment in the emulator."""

    emulator: Emulator
    engine: Engine
    bedrock: BedrockDouble
    environment: str

    @cached_property
    def names(self) -> Names:
        return Names(Deployment(environment=self.environment))

    @property
    def bucket(self) -> str:
        return f"{self.environment}-{Settings().corpus_bucket}-{ACCOUNT}-{REGION}"

    @cached_property
    def s3(self) -> Any:
        return self.emulator.client("s3")

    @cached_property
    def sqs(self) -> Any:
        return self.emulator.client("sqs")

    @cached_property
    def functions(self) -> Any:
        return self.emulator.client("lambda")

    @cached_property
    def _logs(self) -> Any:
        return self.emulator.client("logs")

    @cached_property
    def _dynamodb(self) -> Any:
        return self.emulator.client("dynamodb")

    def queue(self, kind: str) -> str:
        url: str = self.sqs.get_queue_url(QueueName=self.names.queue(kind))["QueueUrl"]
        return url

    # -- the corpus

    def put(self, key: str, text: str) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=text.encode())

    def delete(self, key: str) -> None:
        self.s3.delete_object(Bucket=self.bucket, Key=key)

    @contextmanager
    def library(self) -> Iterator[System]:
        """The library on the deployed stores, with the rights of the account's owner."""
        settings = Settings(backend="aws", corpus_bucket=self.bucket, table_prefix=self.names.prefix)
        with engine_client(self.engine.endpoint) as client:
            index = OpenSearchIndex(client, INDEX)
            clients = {"dynamodb": self._dynamodb, "s3": self.s3}
            yield bootstrap(settings, index=index, aws=lambda service: clients[service])

    def state(self, object_key: str) -> Document:
        """The state of a document in all stores."""
        key = DocumentKey(*scope_of_object(object_key))
        with self.library() as services:
            head = services.corpus.catalog.head(key) or {}
            document_id = str(head.get("documentId") or "")
            chunks = [chunk.content for chunk in read_chunks(services.store, key, document_id)] if document_id else []
            states = {version.version: version.state.value for version in services.corpus.catalog.versions(key)}
            return Document(document_id, states, chunks, sorted(services.index.references(key.id)))

    def ingested(self, object_key: str, words: str) -> Document:
        """Wait until the document is there with these words, as a whole: in catalog, chunk file and index alike."""

        def look() -> Document | None:
            found = self.state(object_key)
            return found if found.whole and any(words in chunk for chunk in found.chunks) else None

        return eventually(look)

    def items(self, spec: TableSpec) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._dynamodb.scan(TableName=self.names.table(spec))["Items"]
        return found

    def counts(self) -> dict[str, int]:
        """Items by table, and objects in the bucket."""
        objects = self.s3.list_object_versions(Bucket=self.bucket).get("Versions", [])
        return {spec.name: len(self.items(spec)) for spec in ALL_TABLES} | {"objects": len(objects)}

    # -- questions

    def ask(self, query: str, session: Mapping[str, str] | None = None) -> str:
        """The answer to an agent's search of runbooks."""
        return text_of(self.invoke(a_function_event("search_runbooks", session, query=query)))

    def invoke(self, event: Mapping[str, Any]) -> dict[str, Any]:
        answer = self.functions.invoke(
            FunctionName=f"{self.names.function(RETRIEVE)}:{LIVE}", Payload=json.dumps(event).encode()
        )
        payload: dict[str, Any] = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, payload
        return payload

    # -- operations

    def metrics(self, use_case: str) -> dict[str, float]:
        """The sums of all that a function ever reported, from the lines of its log that CloudWatch reads."""
        sums: dict[str, float] = {}
        for line in self.log(self.names.function(use_case)):
            for name, value in _reported(line):
                sums[name] = sums.get(name, 0.0) + value
        return sums

    def log(self, function: str) -> list[str]:
        """Log lines of a function so far."""
        pages = self._logs.get_paginator("filter_log_events").paginate(logGroupName=f"/aws/lambda/{function}")
        return [event["message"] for page in pages for event in page["events"]]

    def waiting(self, kind: str) -> int:
        """Number of messages in a queue, those in flight included."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.sqs.get_queue_attributes(QueueUrl=self.queue(kind), AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)

    @contextmanager
    def settings(self, use_case: str, **values: str) -> Iterator[None]:
        """Run a function with other settings, as an operator might."""
        name = self.names.function(use_case)
        before = self.functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        self._configure(name, before | {env_name(field): value for field, value in values.items()})
        try:
            yield
        finally:
            self._configure(name, before)

    def _configure(self, name: str, variables: Mapping[str, str]) -> None:
        self.functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
        eventually(
            lambda: self.functions.get_function_configuration(FunctionName=name)["LastUpdateStatus"] == "Successful"
        )

    @contextmanager
    def denied(self, use_case: str, action: str) -> Iterator[None]:
        """Take a right away from the role of a function."""
        iam = self.emulator.client("iam")
        role = f"{self.names.function(use_case)}-{REGION}"
        statement = {"Effect": "Deny", "Action": action, "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_role_policy(RoleName=role, PolicyName="denied", PolicyDocument=document)
        try:
            yield
        finally:
            iam.delete_role_policy(RoleName=role, PolicyName="denied")

    def deliveries(self, *, hidden: int, receives: int = MANY) -> AbstractContextManager[None]:
        """Changes that weren't handled come back after `hidden` seconds; after so many receives they are dead letters.

        A function that takes longer to start than `hidden` seconds is started again meanwhile, which slows down both.
        """
        url = self.queue("ingest")
        attributes = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])["Attributes"]
        policy = json.dumps({**json.loads(attributes["RedrivePolicy"]), "maxReceiveCount": receives})
        return self.queue_attributes("ingest", VisibilityTimeout=str(hidden), RedrivePolicy=policy)

    def idle(self) -> None:
        """Wait until all changes are handled, and forget those that could not be."""
        eventually(lambda: self.waiting("ingest") == 0)
        self.sqs.purge_queue(QueueUrl=self.queue("ingest-failed"))

    @contextmanager
    def queue_attributes(self, kind: str, **values: str) -> Iterator[None]:
        url = self.queue(kind)
        before = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(values))["Attributes"]
        self.sqs.set_queue_attributes(QueueUrl=url, Attributes=values)
        try:
            yield
        finally:
            self.sqs.set_queue_attributes(QueueUrl=url, Attributes=before)


@dataclass(frozen=True)
class Document:
    """`versions`: states by number. `entries`: ids in the index."""

    document_id: str
    versions: Mapping[int, str]
    chunks: list[str]
    entries: list[str]

    @property
    def whole(self) -> bool:
        """It has as many entries as chunks, none twice."""
        return bool(self.chunks) and len(self.entries) == len(set(self.entries)) == len(self.chunks)


def _reported(line: str) -> Iterator[tuple[str, float]]:
    """The metrics in a line of CloudWatch's embedded metric format; nothing in others."""
    if '"_aws"' not in line:
        return
    record = json.loads(line)
    for directive in record["_aws"]["CloudWatchMetrics"]:
        for metric in directive["Metrics"]:
            values = record[metric["Name"]]
            yield metric["Name"], float(sum(values) if isinstance(values, list) else values)

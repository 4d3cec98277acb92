"""The ingestion of changed objects into the index: queue and function."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import answering_models, managed_search, rights, secret_originals
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.constructs.code import LayerSource
from infra.constructs.ingest_queue import IngestQueue
from infra.constructs.ingesting import ingesting_settings
from infra.constructs.use_case_function import (
    FindEngine,
    FunctionSpec,
    SearchEngine,
    UseCaseFunction,
    arns_of,
)
from infra.names import RELINK_FAILED, Names
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
)

WRITTEN_TABLES = (ALIASES, CALENDAR, DOCUMENTS, KEYS, ENTRIES, FAILURES, EMBEDDINGS, GRAPH, LIFECYCLE)
BATCH_SIZE = 10
READ_PAGES = "textract:DetectDocumentText"
_READ_FOLDERS = (*rights.DOCUMENT_FOLDERS, *rights.CHUNK_FOLDERS)
ATTEMPTS, FIRST_PAUSE_SECONDS = 6, 20
"""A store may be unavailable for ten minutes (20 s, 40 s, ... 320 s) before a document becomes a failed item, which an
operator has to retry; the library's default pauses are for interactive use. Fewer attempts than the queue's deliveries."""

INGEST_DOCUMENTS = FunctionSpec(
    use_case="ingest_documents",
    dependencies="ingest",
    description="Ingests changed documents into the index",
    memory=1024,
    timeout=300,
)


class IngestionStack(Stack):
    """The queue of changes and the function that consumes it."""

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        engine: FindEngine,
        source: LayerSource,
        env: Environment,
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: ingestion")
        collection = engine(self)
        self.changes = IngestQueue(self, "Changes", names=names, function_timeout=INGEST_DOCUMENTS.timeout)
        self.ingest = UseCaseFunction(
            self,
            INGEST_DOCUMENTS,
            names=names,
            source=source,
            settings={
                **ingesting_settings(names, collection),
                "ingest_queue_url": self.changes.queue.queue_url,
                "max_attempts": str(ATTEMPTS),
                "retry_base_seconds": str(FIRST_PAUSE_SECONDS),
            },
            rights=_rights(names, collection),
            folders=_READ_FOLDERS,
            concurrency=names.deployment.ingest_workers,
        )
        self.ingest.consume(
            self.changes.queue,
            batch_size=BATCH_SIZE,
            max_concurrency=names.deployment.ingest_workers or None,
        )
        acknowledge_reading(self.ingest, names)
        CfnOutput(self, "QueueUrl", value=self.changes.queue.queue_url)
        CfnOutput(self, "FailedQueueUrl", value=self.changes.failed.queue_url)


def _rights(names: Names, collection: SearchEngine) -> list[iam.PolicyStatement]:
    """Listing distinguishes a missing object (404) from a forbidden one (403)."""
    return [
        rights.allow(["s3:ListBucket"], names.corpus_arn),
        rights.on_objects(names, _READ_FOLDERS, ["s3:GetObject"]),
        rights.on_objects(names, rights.DOCUMENT_FOLDERS, rights.READ_ATTESTATIONS),
        rights.on_objects(names, rights.CHUNK_FOLDERS, ["s3:AbortMultipartUpload", "s3:PutObject"]),
        rights.on_tables(names, WRITTEN_TABLES, rights.READ_ITEMS + rights.WRITE_ITEMS),
        rights.on_tables(names, [IDEMPOTENCY], rights.REMEMBER_EVENTS),
        rights.admit_clients(names),
        rights.on_tables(names, (PROJECTS,), rights.READ_ITEMS),  # projects whose documents may mention declared nodes
        rights.allow(["dynamodb:DeleteItem"], names.table_arn(ANNOUNCEMENTS)),
        rights.send_to(names, RELINK_FAILED),
        rights.use_collections(*arns_of(collection)),
        *rights.embed_texts(names),
        rights.allow(["sqs:SendMessage"], names.queue_arn("ingest")),  # again, what has to wait for the quota
        *reading_rights(names),
        *managed_search.copying_rights(names),
        *answering_models.writing_rights(names),
        *secret_originals.encrypting_rights(names),
    ]


def reading_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights to read scanned pages, and to describe pictures if a model is configured for that."""
    deployment = names.deployment
    ocr = [rights.allow([READ_PAGES], "*")] if deployment.ocr == "textract" else []
    return [*ocr, *([rights.embed(deployment.vision_model)] if deployment.vision_model else [])]


def acknowledge_reading(function: UseCaseFunction, names: Names) -> None:
    """Acknowledges the wildcards in rights of functions that ingest documents."""
    managed_search.acknowledge_copies(function.role, names)
    answering_models.acknowledge_writing(function.role, names)
    rights.acknowledge_texts(function.role, names)
    if names.deployment.ocr == "textract":
        acknowledge_wildcard(function.role, "*", "pages are sent with the request; the action takes no resource")
    if names.deployment.vision_model:
        rights.acknowledge_profile(function.role, names.deployment.vision_model)

"""Settings and rights of the retrieval function beyond index and tables: passages that prove relations and, with the HTTP
API, documents and the state of their ingestion."""

from __future__ import annotations

from aws_cdk import aws_iam as iam

from infra.constructs import rights
from infra.names import Names
from opx.ports.tables import ANNOUNCEMENTS, AUDIT, EMBEDDINGS, FAILURES, GAPS, PATTERNS, STAGING


def settings(names: Names) -> dict[str, str]:
    """Settings that name the corpus and, for the API, the queue whose length is part of the status."""
    corpus = {"corpus_bucket": names.corpus_bucket}
    return corpus if _without_api(names) else {**corpus, "ingest_queue_url": names.queue_url("ingest")}


def reading_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights to read chunks and, for the API, all of the corpus, vectors of old versions, failed items, captured entries,
    patterns, the ledger of announced changes, records of answers, and the queue's length; none to change anything but
    evaluation runs, which are beside the gaps. Listing distinguishes a missing object (404) from a forbidden one (403)."""
    corpus = [
        rights.allow(["s3:ListBucket"], names.corpus_arn),
        rights.on_objects(names, folders(names), ["s3:GetObject"]),
    ]
    if _without_api(names):
        return corpus
    return [
        *corpus,
        rights.on_tables(names, (EMBEDDINGS, FAILURES, PATTERNS, STAGING), rights.READ_ITEMS),
        rights.on_tables(names, (ANNOUNCEMENTS,), ["dynamodb:Query"]),
        rights.on_tables(names, (AUDIT,), ["dynamodb:GetItem"]),
        rights.on_tables(names, (GAPS,), ["dynamodb:BatchWriteItem"]),
        rights.allow(["sqs:GetQueueAttributes"], names.queue_arn("ingest")),
    ]


def folders(names: Names) -> tuple[str, ...]:
    """Folders of the corpus in these rights."""
    return rights.CHUNK_FOLDERS if _without_api(names) else (*rights.CHUNK_FOLDERS, *rights.DOCUMENT_FOLDERS)


def _without_api(names: Names) -> bool:
    return names.deployment.api_auth == "none"

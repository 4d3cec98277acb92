"""What the retrieval function reads besides the index and tables: passages that prove relations, and where it also
answers the HTTP API, documents and what became of them."""

from __future__ import annotations

from aws_cdk import aws_iam as iam

from infra.constructs import rights
from infra.names import Names
from opx.ports.tables import EMBEDDINGS, FAILURES, PATTERNS, STAGING


def settings(names: Names) -> dict[str, str]:
    """The corpus, whose texts it shows, and for the API the queue, whose length is part of the status."""
    corpus = {"corpus_bucket": names.corpus_bucket}
    return corpus if _without_api(names) else {**corpus, "ingest_queue_url": names.queue_url("ingest")}


def reading_rights(names: Names) -> list[iam.PolicyStatement]:
    """To read chunks, and for the API all of the corpus, vectors of old versions, what failed, what was learned, and how much
    work waits; still nothing to change. Listing is for telling a missing object (404) from a forbidden one (403)."""
    corpus = [
        rights.allow(["s3:ListBucket"], names.corpus_arn),
        rights.on_objects(names, folders(names), ["s3:GetObject"]),
    ]
    if _without_api(names):
        return corpus
    return [
        *corpus,
        rights.on_tables(names, (EMBEDDINGS, FAILURES, PATTERNS, STAGING), rights.READ_ITEMS),
        rights.allow(["sqs:GetQueueAttributes"], names.queue_arn("ingest")),
    ]


def folders(names: Names) -> tuple[str, ...]:
    """Folders of the corpus in these rights."""
    return rights.CHUNKS if _without_api(names) else (*rights.CHUNKS, *rights.DOCUMENTS)


def _without_api(names: Names) -> bool:
    return names.deployment.api_auth == "none"

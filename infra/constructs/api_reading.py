"""What the retrieval function reads besides the index and tables: passages that prove relations, and where it also
answers the HTTP API, documents and what became of them."""

from __future__ import annotations

from aws_cdk import aws_iam as iam

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.names import Names
from opx.ports.tables import EMBEDDINGS, FAILURES, PATTERNS, STAGING

_CHUNKS = ("chunks/*", "clients/*/chunks/*")
_DOCUMENTS = ("documents/*", "clients/*/documents/*")
_FOLDER_REASON = "objects have no names known at deployment; the folders are those of documents and of their chunks"


def settings(names: Names) -> dict[str, str]:
    """The corpus, whose texts it shows, and for the API the queue, whose length is part of the status."""
    corpus = {"corpus_bucket": names.corpus_bucket}
    return corpus if _without_api(names) else {**corpus, "ingest_queue_url": names.queue_url("ingest")}


def reading_rights(names: Names) -> list[iam.PolicyStatement]:
    """To read chunks, and for the API all of the corpus, vectors of old versions, what failed, what was learned, and how much
    work waits; still nothing to change. Listing is for telling a missing object (404) from a forbidden one (403)."""
    bucket = names.corpus_arn
    corpus = [
        rights.allow(["s3:ListBucket"], bucket),
        rights.allow(["s3:GetObject"], *(f"{bucket}/{folder}" for folder in _folders(names))),
    ]
    if _without_api(names):
        return corpus
    return [
        *corpus,
        rights.on_tables(names, (EMBEDDINGS, FAILURES, PATTERNS, STAGING), rights.READ_ITEMS),
        rights.allow(["sqs:GetQueueAttributes"], names.queue_arn("ingest")),
    ]


def acknowledge(role: iam.Role, names: Names) -> None:
    """Give the reason for the wildcards in these rights."""
    for folder in _folders(names):
        acknowledge_wildcard(role, f"{names.corpus_arn}/{folder}", _FOLDER_REASON)


def _folders(names: Names) -> tuple[str, ...]:
    return _CHUNKS if _without_api(names) else (*_CHUNKS, *_DOCUMENTS)


def _without_api(names: Names) -> bool:
    return names.deployment.api_auth == "none"

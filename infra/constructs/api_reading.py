"""What the retrieval function has in addition where it also answers the HTTP API."""

from __future__ import annotations

from aws_cdk import aws_iam as iam

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.names import Names
from opx.tables import FAILURES

_FOLDERS = ("chunks/*", "clients/*/chunks/*", "documents/*", "clients/*/documents/*")
_FOLDER_REASON = "objects have no names known at deployment; the folders are those of documents and of their chunks"


def settings(names: Names) -> dict[str, str]:
    """The corpus, whose texts it shows, and the queue, whose length is part of the status."""
    if names.deployment.api_auth == "none":
        return {}
    return {"corpus_bucket": names.corpus_bucket, "ingest_queue_url": names.queue_url("ingest")}


def reading_rights(names: Names) -> list[iam.PolicyStatement]:
    """To read the corpus, what failed of it, and how much work waits; still nothing to change."""
    if names.deployment.api_auth == "none":
        return []
    bucket = names.corpus_arn
    return [
        rights.allow(["s3:ListBucket"], bucket),
        rights.allow(["s3:GetObject"], *(f"{bucket}/{folder}" for folder in _FOLDERS)),
        rights.on_tables(names, (FAILURES,), rights.READ_ITEMS),
        rights.allow(["sqs:GetQueueAttributes"], names.queue_arn("ingest")),
    ]


def acknowledge(role: iam.Role, names: Names) -> None:
    """Give the reason for the wildcards in these rights."""
    if names.deployment.api_auth != "none":
        for folder in _FOLDERS:
            acknowledge_wildcard(role, f"{names.corpus_arn}/{folder}", _FOLDER_REASON)

"""Settings and rights of functions for a managed knowledge base beside the library's own index."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_iam as iam

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.names import Names
from opx_aws.knowledge_base_objects import COPIES_FOLDER

SYNC_QUEUE = "sync"
_COPIES_REASON = "objects have no names known at deployment; the folder is that of the copies of chunks"


@dataclass(frozen=True, slots=True)
class ManagedBase:
    """A knowledge base: its id for queries, its ARN for rights."""

    id: str
    arn: str


def is_wanted(names: Names) -> bool:
    return names.deployment.knowledge_base == "bedrock"


def copies_arn(names: Names) -> str:
    return f"{names.corpus_arn}/{COPIES_FOLDER}*"


def copying_settings(names: Names) -> dict[str, str]:
    """Settings of the ingesting function: the queue of ingestion jobs, whose presence makes it write copies."""
    return {"sync_queue_url": names.queue_url(SYNC_QUEUE)} if is_wanted(names) else {}


def copying_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights to write and delete copies, and to request an ingestion job."""
    if not is_wanted(names):
        return []
    return [
        rights.allow(["s3:DeleteObject", "s3:PutObject"], copies_arn(names)),
        rights.allow(["sqs:SendMessage"], names.queue_arn(SYNC_QUEUE)),
    ]


def acknowledge_copies(role: iam.Role, names: Names) -> None:
    """Acknowledges the wildcard in rights on the copies."""
    if is_wanted(names):
        acknowledge_wildcard(role, copies_arn(names), _COPIES_REASON)


def searching_settings(names: Names, base: ManagedBase | None) -> dict[str, str]:
    """Settings of a function that answers from the library's own index, or from the knowledge base."""
    return {"knowledge_base_id": base.id, "search_engine": names.deployment.search_engine} if base else {}


def searching_rights(base: ManagedBase | None) -> list[iam.PolicyStatement]:
    return [rights.allow(["bedrock:Retrieve"], base.arn)] if base else []

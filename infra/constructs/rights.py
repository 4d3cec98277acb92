"""IAM statements for functions, with exactly the calls that the library's adapters make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.names import Names
from opx.ingestion.indexing.query_vectors import PREFIX as QUERIES
from opx.ports.tables import EMBEDDINGS, PROJECTS, USES, TableSpec
from opx.runtime.speed_limit import PREFIX as LIMITS

READ_ITEMS = ("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query")
WRITE_ITEMS = ("dynamodb:BatchWriteItem", "dynamodb:DeleteItem", "dynamodb:PutItem")
ADD_VALUES = (*READ_ITEMS, "dynamodb:BatchWriteItem", "dynamodb:PutItem")
"""Actions for adding to baselines: days and notes of series are read, written in batches, and one by one on conditions."""

REMEMBER_EVENTS = ("dynamodb:GetItem", "dynamodb:UpdateItem")
"""Actions with which Powertools looks up idempotency records, and saves completed ones."""

DOCUMENT_FOLDERS = ("documents/*", "clients/*/documents/*")
CHUNK_FOLDERS = ("chunks/*", "clients/*/chunks/*")
"""Folders of the corpus as patterns of keys: the shared ones, and those of clients."""

PUT_DOCUMENTS = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:PutObject",
    "s3:PutObjectTagging",
)
"""Reading included: each put looks up the metadata beside the document. A tag attests the channel that a function states."""

READ_ATTESTATIONS = ("s3:GetObjectTagging", "s3:GetObjectVersionTagging")

KEEP_GAPS = ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query")
"""Deletion included: the least frequent gap makes room for a new one."""

_PROFILE = re.compile(r"[a-z-]+\.(?P<model>[a-z0-9-]+\.[a-z].*)")
"""A geography before a model's id. The name of a model has dots too, but only before digits: `zai.glm-4.6`."""


def allow(actions: Iterable[str], *resources: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=sorted(actions), resources=list(resources))


def on_tables(names: Names, specs: Sequence[TableSpec], actions: Iterable[str]) -> iam.PolicyStatement:
    """These actions on the tables and on each of their indexes."""
    tables = [names.table_arn(spec) for spec in specs]
    indexes = [f"{names.table_arn(spec)}/index/{index.name}" for spec in specs for index in spec.indexes]
    return allow(actions, *tables, *indexes)


def admit_clients(names: Names) -> iam.PolicyStatement:
    """Right to check whether a client was removed, and to register a new one with its project."""
    return allow(["dynamodb:BatchGetItem", "dynamodb:PutItem"], names.table_arn(PROJECTS))


def look_clients_up(names: Names) -> iam.PolicyStatement:
    """Right to check whether a client was removed, before its documents are put."""
    return allow(["dynamodb:GetItem"], names.table_arn(PROJECTS))


def send_to(names: Names, kind: str) -> iam.PolicyStatement:
    """Right to send messages to this queue of the environment."""
    return allow(["sqs:SendMessage"], names.queue_arn(kind))


def on_objects(names: Names, folders: Iterable[str], actions: Iterable[str]) -> iam.PolicyStatement:
    """These actions on all objects of these folders of the corpus. Who may read objects may read the tags that mark encrypted
    originals, if originals are encrypted."""
    wanted = set(actions)
    if "s3:GetObject" in wanted and names.deployment.encrypts_originals:
        wanted.update(READ_ATTESTATIONS)
    return allow(wanted, *(f"{names.corpus_arn}/{folder}" for folder in folders))


def read_secrets(names: Names) -> iam.PolicyStatement:
    """Right to read the environment's secrets, whose names depend on the configured sources."""
    return allow(["secretsmanager:GetSecretValue"], names.secrets_arn)


def acknowledge_secrets(role: iam.Role, names: Names) -> None:
    acknowledge_wildcard(role, names.secrets_arn, "sources name their secrets; all are below the environment's name")


def use_collections(*arns: str) -> iam.PolicyStatement:
    """Right to reach collections, whose data-access policies decide on single actions."""
    return allow(["aoss:APIAccessAll"], *arns)


def embed(model: str) -> iam.PolicyStatement:
    """Right to call this model. An inference profile calls it in regions of its own choice."""
    return allow(["bedrock:InvokeModel"], *model_arns(model))


def embed_texts(names: Names) -> list[iam.PolicyStatement]:
    """Rights to call the model of the index, and the one that a new index may be built for."""
    return [embed(model) for model in text_models(names)]


def share_vectors(names: Names) -> iam.PolicyStatement:
    """Right to use cached vectors of queries and the speed limit of the model, and no other item of their table."""
    return iam.PolicyStatement(
        actions=["dynamodb:GetItem", "dynamodb:PutItem"],
        resources=[names.table_arn(EMBEDDINGS)],
        conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{QUERIES}*", f"{LIMITS}*"]}},
    )


def note_uses(names: Names) -> iam.PolicyStatement:
    """Right to record the days on which documents were last used."""
    return allow(["dynamodb:BatchGetItem", "dynamodb:BatchWriteItem"], names.table_arn(USES))


def acknowledge_texts(role: iam.Role, names: Names) -> None:
    for model in text_models(names):
        acknowledge_profile(role, model)


def text_models(names: Names) -> list[str]:
    deployment = names.deployment
    return list(dict.fromkeys(filter(None, (deployment.embedding_model, deployment.next_embedding_model))))


def converse(model: str) -> list[iam.PolicyStatement]:
    """Rights to call this model, with and without streaming, and to look up its inference profile."""
    arns = model_arns(model)
    calls = allow(["bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"], *arns)
    return [calls, allow(["bedrock:GetInferenceProfile"], arns[0])] if len(arns) > 1 else [calls]


def model_arns(model: str) -> list[str]:
    """The model, or its inference profile and then the model wherever the profile calls it."""
    profile_of = _PROFILE.fullmatch(model)
    name = profile_of["model"] if profile_of else model
    bedrock = f"arn:{Aws.PARTITION}:bedrock"
    if model == name:
        return [f"{bedrock}:{Aws.REGION}::foundation-model/{name}"]
    profile = f"{bedrock}:{Aws.REGION}:{Aws.ACCOUNT_ID}:inference-profile/{model}"
    return [profile, f"{bedrock}:*::foundation-model/{name}"]


def acknowledge_profile(role: iam.Role, model: str) -> None:
    """Acknowledges the wildcard in the rights on an inference profile, if the model is called through one."""
    for arn in model_arns(model)[1:]:
        acknowledge_wildcard(role, arn, "the inference profile chooses the region in which it calls this one model")

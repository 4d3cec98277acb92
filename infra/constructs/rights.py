"""What functions may do, as statements of exactly the calls that the library's adapters make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.names import Names
from opx.ports.tables import PROJECTS, TableSpec

READ_ITEMS = ("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query")
WRITE_ITEMS = ("dynamodb:BatchWriteItem", "dynamodb:DeleteItem", "dynamodb:PutItem")
ADD_VALUES = (*READ_ITEMS, "dynamodb:BatchWriteItem", "dynamodb:PutItem")
"""What adding to baselines takes: days and notes of series are read, written together, and one by one on conditions."""

REMEMBER_EVENTS = ("dynamodb:GetItem", "dynamodb:UpdateItem")
"""How Powertools looks up a record, and saves that one is done."""

DOCUMENTS = ("documents/*", "clients/*/documents/*")
CHUNKS = ("chunks/*", "clients/*/chunks/*")
"""Folders of the corpus as patterns of keys: the shared ones, and those of clients."""

PUT_DOCUMENTS = ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject")
"""Reading included: each put looks up the metadata beside the document."""

KEEP_GAPS = ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query")
"""Deleting included: the least asked question makes room for a new one."""

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
    """See whether a client was removed, and note one that is new with its project."""
    return allow(["dynamodb:BatchGetItem", "dynamodb:PutItem"], names.table_arn(PROJECTS))


def look_clients_up(names: Names) -> iam.PolicyStatement:
    """See whether a client was removed, before something of it is put."""
    return allow(["dynamodb:GetItem"], names.table_arn(PROJECTS))


def on_objects(names: Names, folders: Iterable[str], actions: Iterable[str]) -> iam.PolicyStatement:
    """These actions on all objects of these folders of the corpus."""
    return allow(actions, *(f"{names.corpus_arn}/{folder}" for folder in folders))


def read_secrets(names: Names) -> iam.PolicyStatement:
    """Read the environment's secrets: which there are is up to who sets sources up."""
    return allow(["secretsmanager:GetSecretValue"], names.secrets_arn)


def acknowledge_secrets(role: iam.Role, names: Names) -> None:
    acknowledge_wildcard(role, names.secrets_arn, "sources name their secrets; all are below the environment's name")


def use_collection(arn: str) -> iam.PolicyStatement:
    """Reach the collection; what may be done there is up to its data-access policies."""
    return allow(["aoss:APIAccessAll"], arn)


def embed(model: str) -> iam.PolicyStatement:
    """Call this model, of embeddings or of pictures. An inference profile calls it in regions of its own choice."""
    return allow(["bedrock:InvokeModel"], *model_arns(model))


def embed_texts(names: Names) -> list[iam.PolicyStatement]:
    """Call the model of the index, and the one that a new index may be made for."""
    return [embed(model) for model in _text_models(names)]


def acknowledge_texts(role: iam.Role, names: Names) -> None:
    for model in _text_models(names):
        acknowledge_profile(role, model)


def _text_models(names: Names) -> list[str]:
    deployment = names.deployment
    return list(dict.fromkeys(filter(None, (deployment.embedding_model, deployment.next_embedding_model))))


def converse(model: str) -> list[iam.PolicyStatement]:
    """Call this model at once and in a stream. Whoever does it through an inference profile may look that up."""
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
    """Give the reason for the wildcard in the rights on an inference profile, if the model is called through one."""
    for arn in model_arns(model)[1:]:
        acknowledge_wildcard(role, arn, "the inference profile chooses the region in which it calls this one model")

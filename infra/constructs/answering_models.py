"""Settings and rights of functions for models that rerank candidates, plan searches, or write contexts of chunks."""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import aws_iam as iam

from infra.configuration import Deployment
from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.names import Names

RERANK = "bedrock:Rerank"
_RERANK_REASON = "the action takes no resource; the rights on InvokeModel limit the models"


def answering_settings(names: Names) -> dict[str, str]:
    """Settings of the answering function: the configured options that differ from the defaults."""
    deployment = names.deployment
    chosen = {"rerank_model": deployment.rerank_model, "chat_model": deployment.chat_model}
    usual = Deployment()
    for switch in ("reranker", "rewording", "learned_words"):
        if getattr(deployment, switch) != getattr(usual, switch):
            chosen[switch] = getattr(deployment, switch)
    return {field: value for field, value in chosen.items() if value}


def answering_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights to call these models, and to rerank with one."""
    ranking = [rights.allow([RERANK], "*")] if names.deployment.rerank_model else []
    return [*ranking, *(rights.embed(model) for model in _answering(names))]


def acknowledge_answering(role: iam.Role, names: Names) -> None:
    """Acknowledges the wildcards in these rights."""
    if names.deployment.rerank_model:
        acknowledge_wildcard(role, "*", _RERANK_REASON)
    for model in _answering(names):
        rights.acknowledge_profile(role, model)


def writing_settings(names: Names) -> dict[str, str]:
    """Settings of functions that ingest documents, or check how they were ingested."""
    chosen = {"context_model": names.deployment.context_model, "graph_model": names.deployment.graph_model}
    return {name: model for name, model in chosen.items() if model}


def writing_rights(names: Names) -> list[iam.PolicyStatement]:
    return [rights.embed(model) for model in _writing(names)]


def acknowledge_writing(role: iam.Role, names: Names) -> None:
    for model in _writing(names):
        rights.acknowledge_profile(role, model)


def _writing(names: Names) -> Iterator[str]:
    deployment = names.deployment
    return filter(None, dict.fromkeys((deployment.context_model, deployment.graph_model)))


def _answering(names: Names) -> Iterator[str]:
    deployment = names.deployment
    return filter(None, dict.fromkeys((deployment.rerank_model, deployment.chat_model)))

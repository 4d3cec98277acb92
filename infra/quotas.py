"""Reads the account's quotas of an embedding model, and of batch inference with it, from Service Quotas.

Quotas are found by their names, since their codes differ by model. Names: AWS General Reference, "Amazon Bedrock endpoints
and quotas"; newer ones have `InvokeModel` instead of `model inference`. Bedrock lists no requests a minute for models
that are limited by tokens alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from opx_aws.bedrock_embedder import embedding_model

_NAMES = {
    "amazon.titan-embed-text-v2:0": "Amazon Titan Text Embeddings V2",
    "amazon.titan-embed-text-v1": "Amazon Titan Text Embeddings",
    "cohere.embed-v4:0": "Cohere Embed V4",
    "cohere.embed-multilingual-v3": "Cohere Embed Multilingual",
}
_SCOPES = {"": "On-demand", "global": "Global cross-region"}
_QUOTA = re.compile(
    r"(?P<scope>[a-z -]+) (?:model inference|InvokeModel) (?P<unit>requests|tokens) per minute for (?P<name>.+)",
    re.IGNORECASE,
)


def quota_of(model: str, client: Any) -> Mapping[str, float]:
    """The quota in `requests` and `tokens` a minute, each if Service Quotas lists it; the default where none is applied."""
    name = embedding_model(model).name
    wanted = (_SCOPES.get(model.removesuffix(name).rstrip("."), "Cross-region").casefold(), _NAMES[name].casefold())
    found: dict[str, float] = {}
    for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
        for quota in _listed(client, operation):
            match = _QUOTA.fullmatch(quota["QuotaName"])
            if match and (match["scope"].casefold(), match["name"].casefold()) == wanted:
                found.setdefault(match["unit"].casefold(), float(quota["Value"]))
        if found:
            break
    return found


_BATCH_NAMES = {"amazon.titan-embed-text-v2:0": "Titan Text Embeddings V2"}
"""Embedding models that batch inference supports, as its quotas name them: Amazon Bedrock user guide, "Supported Regions and
models for batch inference"."""

_BATCH_QUOTAS = {
    "batch_fewest_records": "Minimum number of records per batch inference job for {}",
    "batch_most_records": "Records per batch inference job for {}",
    "batch_jobs": "Sum of in-progress and submitted batch inference jobs using a base model for {}",
}


def batch_quotas_of(model: str, client: Any) -> Mapping[str, int]:
    """The quotas of batch inference with this model, by the settings' names; the defaults where none is applied. Empty for
    models without batch inference."""
    name = _BATCH_NAMES.get(embedding_model(model).name, "")
    wanted = {quota.format(name).casefold(): setting for setting, quota in _BATCH_QUOTAS.items()} if name else {}
    found: dict[str, int] = {}
    for operation in ("list_service_quotas", "list_aws_default_service_quotas") if wanted else ():
        for quota in _listed(client, operation):
            setting = wanted.get(quota["QuotaName"].casefold())
            if setting and quota["Value"] >= 1:
                found.setdefault(setting, int(quota["Value"]))
        if found:
            break
    return found


def _listed(client: Any, operation: str) -> Iterator[Mapping[str, Any]]:
    for page in client.get_paginator(operation).paginate(ServiceCode="bedrock"):
        yield from page["Quotas"]

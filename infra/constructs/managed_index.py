"""The index that a Bedrock Knowledge Base fills, in the collection that the library's own index is in."""

from __future__ import annotations

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_opensearchserverless as aoss
from constructs import Construct

from infra.constructs.hybrid_index import WRITE
from infra.constructs.search_indexes import SearchIndexes
from infra.names import Names
from opx_aws.knowledge_base_objects import CHUNK_ATTRIBUTE, DAY_ATTRIBUTE, FILTER_ATTRIBUTES, LIST_ATTRIBUTES

INDEX_NAME = "opx-managed"
ROLE = "knowledge_base"
"""The part of the role's name that identifies its owner, as in those of functions."""

VECTOR_FIELD = "vector"
TEXT_FIELD = "AMAZON_BEDROCK_TEXT_CHUNK"
METADATA_FIELD = "AMAZON_BEDROCK_METADATA"
DIMENSION = 1024
"""Dimension of Titan V2, the knowledge base's embedding model."""


class ManagedIndex(Construct):
    """An index with the fields that Bedrock writes. The knowledge base's role may fill it; the principal that creates the
    library's own index creates this one too.

    It is deleted with its stack: it can be rebuilt from the copies in the corpus.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, indexes: SearchIndexes) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        policy = self._access("Fill", names.access_policy("managed"), names.role_arn(ROLE), WRITE)
        index = indexes.add("Managed", INDEX_NAME, managed_schema(names.deployment.search_generation), delete=True)
        index.node.add_dependency(policy)

    def _access(self, kind: str, name: str, principal: str, permissions: tuple[str, ...]) -> aoss.CfnAccessPolicy:
        rule = {
            "ResourceType": "index",
            "Resource": [f"index/{self._names.collection}/{INDEX_NAME}"],
            "Permission": list(permissions),
        }
        policy = Stack.of(self).to_json_string([{"Rules": [rule], "Principal": [principal]}])
        return aoss.CfnAccessPolicy(self, kind, name=name, type="data", policy=policy)


def managed_schema(generation: str) -> dict[str, Any]:
    """The settings and mappings.

    Metadata can be filtered only with the engine Faiss: classic collections have to declare it, next-generation ones
    have no other and reject the declaration. Filtered attributes have a type, so that none is guessed from a value: text
    with a keyword, as Bedrock's filters expect of OpenSearch.
    """
    vector: dict[str, Any] = {"type": "knn_vector", "dimension": DIMENSION}
    if generation == "classic":
        vector["method"] = {"name": "hnsw", "engine": "faiss", "space_type": "l2"}
    else:
        vector["space_type"] = "l2"
    properties: dict[str, Any] = {
        VECTOR_FIELD: vector,
        TEXT_FIELD: {"type": "text"},
        METADATA_FIELD: {"type": "text", "index": False},
        CHUNK_ATTRIBUTE: {"type": "text", "index": False},
    }
    filtered = {"type": "text", "fields": {"keyword": {"type": "keyword"}}}
    properties |= dict.fromkeys((*FILTER_ATTRIBUTES.values(), *LIST_ATTRIBUTES.values()), filtered)
    properties[DAY_ATTRIBUTE] = {"type": "long"}
    return {"settings": {"index": {"knn": True}}, "mappings": {"properties": properties}}

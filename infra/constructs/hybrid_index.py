"""The OpenSearch Serverless collection and index that lexical and vector search share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from aws_cdk import CfnResource, CustomResource, Stack
from aws_cdk import aws_opensearchserverless as aoss
from constructs import Construct

from infra.configuration import Deployment
from infra.constructs.code import LayerSource
from infra.constructs.keeping import removal_policy
from infra.constructs.search_indexes import SearchIndexes
from infra.names import Names
from opx_aws.bedrock_embedder import embedding_model
from opx_aws.opensearch_schema import CLASSIC_ENGINE, index_body

READ = ("aoss:DescribeIndex", "aoss:ReadDocument")
WRITE = (*READ, "aoss:WriteDocument")
MANAGE = ("aoss:CreateIndex", "aoss:DeleteIndex", "aoss:DescribeIndex", "aoss:UpdateIndex")

MAX_OCUS = 8
"""Maximum capacity of searching and of indexing, each: a limit on cost, not a requirement."""


@dataclass(frozen=True, slots=True)
class Access:
    """ARNs of the principals that may read, also write, or create and delete indexes."""

    read: tuple[str, ...]
    write: tuple[str, ...]
    manage: tuple[str, ...]


class HybridIndex(Construct):
    """A vector collection of the chosen generation with one index, reachable over TLS with signed requests only.

    With a `vpc_endpoint` (its id), requests are accepted only through that endpoint. A collection needs its encryption
    policy to be created; rights on indexes take up to a minute to be effective.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        index_name: str,
        access: Access,
        source: LayerSource,
        vpc_endpoint: str = "",
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self.index_name = index_name
        policies = [self._encryption_policy(), self._network_policy(vpc_endpoint), *self._access_policies(access)]
        group = self._group() if names.deployment.search_generation == "nextgen" else None
        self._collection = self._make_collection(group)
        for policy in policies:
            self._collection.add_resource_dependency(policy)
        for resource in (policies[0], policies[1], self._collection, *([group] if group else [])):
            resource.apply_removal_policy(removal_policy(ephemeral=names.deployment.ephemeral))
        self.indexes = SearchIndexes(self, "Indexes", names=names, source=source, endpoint=self.endpoint, arn=self.arn)
        self._index = self._add_index()

    @property
    def endpoint(self) -> str:
        return self._collection.attr_collection_endpoint

    @property
    def arn(self) -> str:
        return self._collection.attr_arn

    @property
    def own_ids(self) -> str:
        return self._index.get_att_string("OwnIds")

    def _add_index(self) -> CustomResource:
        deployment = self._names.deployment
        model, dimension = vectors_of(deployment.embedding_model)
        return self.indexes.add(
            "Index",
            self.index_name,
            index_schema(deployment),
            delete=deployment.ephemeral,
            Model=model,
            Dimension=str(dimension),
            Engine=engine_of(deployment),
        )

    def _make_collection(self, group: aoss.CfnCollectionGroup | None) -> aoss.CfnCollection:
        collection = aoss.CfnCollection(
            self,
            "Collection",
            name=self._names.collection,
            type="VECTORSEARCH",
            standby_replicas="ENABLED" if self._names.deployment.search_standby or group else "DISABLED",
            collection_group_name=group.name if group else None,
            deletion_protection="DISABLED",  # it would hold up the rollback of a first deployment; RETAIN keeps it
        )
        if group:
            collection.add_resource_dependency(group)
        return collection

    def _group(self) -> aoss.CfnCollectionGroup:
        """The collection group that makes a collection next-generation, which costs nothing while idle unless it has a
        minimum."""
        return aoss.CfnCollectionGroup(
            self,
            "Group",
            name=self._names.collection,
            generation="NEXTGEN",
            standby_replicas="ENABLED",
            capacity_limits=aoss.CfnCollectionGroup.CapacityLimitsProperty(
                min_indexing_capacity_in_ocu=0,
                min_search_capacity_in_ocu=self._names.deployment.search_min_ocu,
                max_indexing_capacity_in_ocu=MAX_OCUS,
                max_search_capacity_in_ocu=MAX_OCUS,
            ),
        )

    def _encryption_policy(self) -> CfnResource:
        policy = {"Rules": [self._collection_rule()], "AWSOwnedKey": True}
        name = self._names.collection
        return aoss.CfnSecurityPolicy(self, "Encryption", name=name, type="encryption", policy=_json(policy))

    def _network_policy(self, vpc_endpoint: str) -> CfnResource:
        """Signed requests of the principals below are answered from everywhere, or through the endpoint alone."""
        access: dict[str, Any] = {"AllowFromPublic": True}
        if vpc_endpoint:
            access = {"AllowFromPublic": False, "SourceVPCEs": [vpc_endpoint]}
            if self._names.deployment.knowledge_base == "bedrock":
                access["SourceServices"] = ["bedrock.amazonaws.com"]
        policy = Stack.of(self).to_json_string([{"Rules": [self._collection_rule()], **access}])
        return aoss.CfnSecurityPolicy(self, "Network", name=self._names.collection, type="network", policy=policy)

    def _access_policies(self, access: Access) -> list[CfnResource]:
        return [
            self._access_policy("Read", access.read, READ),
            self._access_policy("Write", access.write, WRITE),
            self._access_policy("Manage", access.manage, MANAGE),
        ]

    def _access_policy(self, kind: str, principals: tuple[str, ...], permissions: tuple[str, ...]) -> CfnResource:
        rule = {
            "ResourceType": "index",
            "Resource": [f"index/{self._names.collection}/*"],  # a new index has its rights before it is there
            "Permission": list(permissions),
        }
        name = self._names.access_policy(kind.lower())
        policy = Stack.of(self).to_json_string([{"Rules": [rule], "Principal": list(principals)}])
        return aoss.CfnAccessPolicy(self, f"{kind}Access", name=name, type="data", policy=policy)

    def _collection_rule(self) -> dict[str, Any]:
        return {"ResourceType": "collection", "Resource": [f"collection/{self._names.collection}"]}


def vectors_of(model: str) -> tuple[str, int]:
    """The id of a model's vectors, and their dimension."""
    known = embedding_model(model)
    dimension = known.checked_dimension(None)
    return f"{known.name}/{dimension}", dimension


def engine_of(deployment: Deployment) -> str:
    """The engine of vectors; empty where the collection has but one."""
    return CLASSIC_ENGINE if deployment.search_generation == "classic" else ""


def index_schema(deployment: Deployment) -> dict[str, Any]:
    """Settings and mappings of the index, as the library describes them."""
    return index_body(*vectors_of(deployment.embedding_model), engine=engine_of(deployment))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)

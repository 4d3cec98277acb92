"""The search collection and its index, which can be rebuilt from the corpus."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack
from constructs import Construct

from infra.constructs import managed_search
from infra.constructs.code import LayerSource
from infra.constructs.collection_addresses import publish
from infra.constructs.hybrid_index import Access, HybridIndex
from infra.constructs.learning_functions import searching_roles
from infra.constructs.managed_index import ManagedIndex
from infra.names import Names


class SearchStack(Stack):
    """One collection with one index, with different principals for reading, writing and creating it. A deployment may have
    two of these stacks, of which one is built to replace the other."""

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        env: Environment,
        source: LayerSource,
        vpc_endpoint: str = "",
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: search index")
        self.collection = HybridIndex(
            self,
            "HybridIndex",
            names=names,
            index_name=names.deployment.search_index,
            access=Access(
                write=(
                    names.of_collection.role_arn("create_index"),
                    *map(names.role_arn, ("ingest_documents", "prune_knowledge", "rebuild_index", *_bulk(names))),
                ),
                read=(names.role_arn("retrieve_knowledge"), *searching_roles(names)),
                manage=(
                    names.of_collection.role_arn("create_index"),
                    *map(names.role_arn, ("rebuild_index", *_bulk(names))),
                ),
            ),
            source=source,
            vpc_endpoint=vpc_endpoint,
        )
        if managed_search.is_wanted(names):
            ManagedIndex(self, "ManagedIndex", names=names, indexes=self.collection.indexes)
        publish(self, names, self.collection)
        CfnOutput(self, "Endpoint", value=self.collection.endpoint)


def _bulk(names: Names) -> tuple[str, ...]:
    """The function of bulk jobs, which also makes and removes editions of the index, if there is one."""
    return ("bulk_stage",) if names.deployment.bulk else ()

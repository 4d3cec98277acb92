"""The search collection and its index, which can be rebuilt from the corpus."""

from __future__ import annotations

from aws_cdk import CfnOutput, DefaultStackSynthesizer, Environment, Fn, Stack
from constructs import Construct

from infra.constructs import managed_search
from infra.constructs.hybrid_index import Access, HybridIndex
from infra.constructs.learning_functions import searching_roles
from infra.constructs.managed_index import ManagedIndex
from infra.names import Names


class SearchStack(Stack):
    """One collection with one index, with different principals for reading, writing and creating it."""

    def __init__(
        self, scope: Construct, stack_id: str, *, names: Names, env: Environment, vpc_endpoint: str = ""
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: search index")
        manager = names.deployment.deploy_role or self._execution_role()
        self.collection = HybridIndex(
            self,
            "HybridIndex",
            names=names,
            index_name=names.deployment.search_index,
            access=Access(
                write=tuple(
                    names.role_arn(use_case) for use_case in ("ingest_documents", "prune_knowledge", "rebuild_index")
                ),
                read=(names.role_arn("retrieve_knowledge"), *searching_roles(names)),
                manage=(manager, names.role_arn("rebuild_index")),
            ),
            vpc_endpoint=vpc_endpoint,
        )
        if managed_search.is_wanted(names):
            arn = self.collection.arn
            ManagedIndex(self, "ManagedIndex", names=names, collection_arn=arn)
        CfnOutput(self, "Endpoint", value=self.collection.endpoint)

    def _execution_role(self) -> str:
        """The role with which CloudFormation acts, from `cdk bootstrap`; it creates the index."""
        assert isinstance(self.synthesizer, DefaultStackSynthesizer)
        return Fn.sub(self.synthesizer.cloud_formation_execution_role_arn)

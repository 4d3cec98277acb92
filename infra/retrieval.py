"""From a question to its answer, for agents."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import rights
from infra.constructs.code import LayerSource
from infra.constructs.hybrid_index import HybridIndex
from infra.constructs.use_case_function import FunctionSpec, UseCaseFunction, common_settings
from infra.names import Names
from opx.tables import DOCUMENTS, PROJECTS

READ_TABLES = (DOCUMENTS, PROJECTS)

RETRIEVE_KNOWLEDGE = FunctionSpec(
    use_case="retrieve_knowledge",
    dependencies="api",
    description="Answers questions from the index, with sources",
    memory=1024,
    timeout=30,
)


class RetrievalStack(Stack):
    """The function that searches. It can change nothing."""

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        collection: HybridIndex,
        source: LayerSource,
        env: Environment,
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: retrieval")
        self.retrieve = UseCaseFunction(
            self,
            "RetrieveKnowledge",
            spec=RETRIEVE_KNOWLEDGE,
            names=names,
            source=source,
            settings=common_settings(names, collection.endpoint),
            rights=[
                rights.on_tables(names, READ_TABLES, rights.READ_ITEMS),
                rights.use_collection(collection.arn),
                rights.embed(names.deployment.embedding_model),
            ],
        )
        rights.acknowledge_profile(self.retrieve.role, names.deployment.embedding_model)
        self._allow_agents()
        CfnOutput(self, "FunctionName", value=self.retrieve.function.function_name)
        CfnOutput(self, "FunctionArn", value=self.retrieve.function.function_arn)

    def _allow_agents(self) -> None:
        """Bedrock agents of this account and region may call the function; nobody else's, whoever names it."""
        self.retrieve.function.add_permission(
            "BedrockAgents",
            principal=iam.ServicePrincipal("bedrock.amazonaws.com"),
            source_account=self.account,
            source_arn=self.format_arn(service="bedrock", resource="agent", resource_name="*"),
        )

"""From a question to its answer, for agents."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.constructs import answering_models, api_reading, managed_search, rights
from infra.constructs.code import LayerSource
from infra.constructs.hybrid_index import SearchEngine
from infra.constructs.managed_search import ManagedBase
from infra.constructs.use_case_function import LIVE, FunctionSpec, UseCaseFunction, common_settings, configured_identity
from infra.names import Names
from opx.ports.tables import (
    ALIASES,
    AUDIT,
    BASELINES,
    CALENDAR,
    DOCUMENTS,
    GAPS,
    GRAPH,
    LIFECYCLE,
    OUTCOMES,
    PROJECTS,
    WEB_CACHE,
)
from opx.runtime.knowledge_file import read_section

READ_TABLES = (ALIASES, BASELINES, CALENDAR, DOCUMENTS, GRAPH, LIFECYCLE, OUTCOMES, PROJECTS)
KEEP_GAPS = ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query")
"""What was asked least makes room for what is new."""

RETRIEVE_KNOWLEDGE = FunctionSpec(
    use_case="retrieve_knowledge",
    dependencies="api",
    description="Answers questions from the index, with sources",
    memory=1024,
    timeout=30,
    answers_people=True,
)


class RetrievalStack(Stack):
    """The function that searches. It can change no knowledge: what it writes is who asked what was returned, which it
    can't read back one by one, nor remove, and what had no answer."""

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        collection: SearchEngine,
        source: LayerSource,
        env: Environment,
        managed: ManagedBase | None = None,
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: retrieval")
        self.retrieve = UseCaseFunction(
            self,
            "RetrieveKnowledge",
            spec=RETRIEVE_KNOWLEDGE,
            names=names,
            source=source,
            settings={
                **common_settings(names, collection.endpoint),
                **configured_identity(names),
                **api_reading.settings(names),
                **managed_search.searching_settings(names, managed),
                **answering_models.answering_settings(names),
            },
            rights=[
                rights.on_tables(names, READ_TABLES, rights.READ_ITEMS),
                rights.use_collection(collection.arn),
                *rights.embed_texts(names),
                *api_reading.reading_rights(names),
                *managed_search.searching_rights(managed),
                *answering_models.answering_rights(names),
                *_internet_rights(names),
                rights.on_tables(names, (AUDIT,), ["dynamodb:PutItem", "dynamodb:Query"]),
                rights.on_tables(names, (GAPS,), KEEP_GAPS),
            ],
            concurrency=names.deployment.query_concurrency,
        )
        rights.acknowledge_texts(self.retrieve.role, names)
        api_reading.acknowledge(self.retrieve.role, names)
        answering_models.acknowledge_answering(self.retrieve.role, names)
        if _searches_the_internet():
            rights.acknowledge_secrets(self.retrieve.role, names)
        alias = f":{LIVE}" if isinstance(self.retrieve.target, lambda_.Alias) else ""
        self.target_arn = names.function_arn(RETRIEVE_KNOWLEDGE.use_case) + alias
        """What is to be called, by its name: stacks that call it import nothing from this one."""
        if names.deployment.agent == "none":
            self._allow_agents()
        CfnOutput(self, "FunctionName", value=self.retrieve.function.function_name)
        CfnOutput(self, "FunctionArn", value=self.retrieve.target.function_arn)

    def _allow_agents(self) -> None:
        """Bedrock agents of this account and region may call the function; nobody else's, whoever names it.

        For agents made elsewhere. One that is made here has a permission, or a role, of its own.
        """
        self.retrieve.target.add_permission(
            "BedrockAgents",
            principal=iam.ServicePrincipal("bedrock.amazonaws.com"),
            source_account=self.account,
            source_arn=self.format_arn(service="bedrock", resource="agent", resource_name="*"),
        )


def _searches_the_internet() -> bool:
    return read_section("internet") is not None


def _internet_rights(names: Names) -> list[iam.PolicyStatement]:
    """Only where knowledge.yaml names a search engine: its key, and answers that are kept for an hour."""
    if not _searches_the_internet():
        return []
    answers = rights.on_tables(names, (WEB_CACHE,), ["dynamodb:GetItem", "dynamodb:PutItem"])
    return [answers, rights.read_secrets(names)]

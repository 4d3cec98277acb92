"""Retrieval: the function that answers queries of agents and of the HTTP API."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.console_choices import role_settings
from infra.constructs import answering_models, api_reading, gateway_callers, managed_search, rights, warm_words
from infra.constructs.code import LayerSource
from infra.constructs.managed_search import ManagedBase
from infra.constructs.use_case_function import (
    FindEngine,
    FunctionSpec,
    UseCaseFunction,
    arns_of,
    common_settings,
    configured_identity,
)
from infra.names import GAPS_FAILED, Names
from opx.ports.tables import (
    ALIASES,
    AUDIT,
    BASELINES,
    CALENDAR,
    DOCUMENTS,
    GAPS,
    GRAPH,
    KEYS,
    LIFECYCLE,
    OUTCOMES,
    PROJECTS,
    WEB_CACHE,
)
from opx.runtime.knowledge_file import read_section

READ_TABLES = (ALIASES, BASELINES, CALENDAR, DOCUMENTS, GRAPH, KEYS, LIFECYCLE, OUTCOMES, PROJECTS)

RETRIEVE_KNOWLEDGE = FunctionSpec(
    use_case="retrieve_knowledge",
    dependencies="search",
    description="Answers questions from the index, with sources",
    memory=1024,
    timeout=30,
    answers_people=True,
)


class RetrievalStack(Stack):
    """The function that searches. It can't change any knowledge: it writes audit records, which it can't delete, and without
    the HTTP API can't read one by one, gaps, evaluation runs, and the days on which documents were last used."""

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        engine: FindEngine,
        source: LayerSource,
        env: Environment,
        managed: ManagedBase | None = None,
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: retrieval")
        collection = engine(self)
        self.retrieve = UseCaseFunction(
            self,
            RETRIEVE_KNOWLEDGE,
            names=names,
            source=source,
            settings={
                **common_settings(names, collection),
                **configured_identity(names),
                **role_settings(names),
                **api_reading.settings(names),
                **managed_search.searching_settings(names, managed),
                **answering_models.answering_settings(names),
                **gateway_callers.verifying_settings(names),
                **warm_words.settings(names),
            },
            rights=[
                rights.on_tables(names, READ_TABLES, rights.READ_ITEMS),
                rights.use_collections(*arns_of(collection)),
                *rights.embed_texts(names),
                rights.share_vectors(names),
                rights.note_uses(names),
                *api_reading.reading_rights(names),
                *managed_search.searching_rights(managed),
                *answering_models.answering_rights(names),
                *_internet_rights(names),
                rights.on_tables(names, (AUDIT,), ["dynamodb:PutItem", "dynamodb:Query"]),
                rights.on_tables(names, (GAPS,), rights.KEEP_GAPS),
                rights.send_to(names, GAPS_FAILED),
                *gateway_callers.verifying_rights(names),
                *warm_words.reading_rights(names),
            ],
            folders=(*api_reading.folders(names), *warm_words.folders(names)),
            concurrency=names.deployment.query_concurrency,
        )
        rights.acknowledge_texts(self.retrieve.role, names)
        answering_models.acknowledge_answering(self.retrieve.role, names)
        if _searches_the_internet():
            rights.acknowledge_secrets(self.retrieve.role, names)
        self.target_arn = self.retrieve.target_arn
        if names.deployment.agent == "none":
            self.retrieve.allow_bedrock_agents()
        CfnOutput(self, "FunctionName", value=self.retrieve.function.function_name)
        CfnOutput(self, "FunctionArn", value=self.retrieve.target.function_arn)


def _searches_the_internet() -> bool:
    return read_section("internet") is not None


def _internet_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights on the key of a web search engine and on its cached answers, if knowledge.yaml configures one."""
    if not _searches_the_internet():
        return []
    answers = rights.on_tables(names, (WEB_CACHE,), ["dynamodb:GetItem", "dynamodb:PutItem"])
    return [answers, rights.read_secrets(names)]

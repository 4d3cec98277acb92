"""The functions of learning: they handle events, process checkpoints, and serve the tools of agents."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import gateway_callers, managed_search, rights
from infra.constructs.agent_tools import tool_grants
from infra.constructs.code import LayerSource
from infra.constructs.managed_search import ManagedBase
from infra.constructs.use_case_function import (
    FunctionSpec,
    SearchEngine,
    UseCaseFunction,
    arns_of,
    common_settings,
    corpus_settings,
)
from infra.names import Names
from opx.domain.knowledge import PATTERNS_CATEGORY, WARNINGS_CATEGORY
from opx.operations.registry import LEARNING
from opx.ports.tables import (
    ALIASES,
    AUDIT,
    BASELINES,
    CALENDAR,
    DOCUMENTS,
    EMBEDDINGS,
    GAPS,
    GRAPH,
    KEYS,
    LIFECYCLE,
    OUTCOMES,
    PATTERNS,
    PROJECTS,
    STAGING,
)

LEARNED_TABLES = (OUTCOMES, PATTERNS, STAGING)
"""Tables that capturing and reporting outcomes read and write."""

LEARNING_FAILED, CHECKPOINTS = "learning-failed", "checkpoints"
EVENT_SECONDS, CHECKPOINT_SECONDS = 60, 900

LEARN_FROM_EVENTS = FunctionSpec(
    use_case="learn_from_events",
    dependencies="ingest",  # putting a warning reads documents
    description="Captures entries of learning from events",
    memory=512,
    timeout=EVENT_SECONDS,
)
PROCESS_CHECKPOINT = FunctionSpec(
    use_case="process_checkpoint",
    dependencies="ingest",
    description="Turns captured entries into patterns and warnings",
    memory=1024,
    timeout=CHECKPOINT_SECONDS,
)
LEARN_FROM_WORK = FunctionSpec(
    use_case="learn_from_work",
    dependencies="api",
    description="Captures entries of agents, and answers orchestrators' queries for patterns",
    memory=1024,
    timeout=30,
)

_LEARNED = tuple(
    f"{place}documents/{category}/*"
    for category in (PATTERNS_CATEGORY, WARNINGS_CATEGORY)
    for place in ("", "clients/*/")
)
_READ_TABLES = (ALIASES, BASELINES, CALENDAR, DOCUMENTS, GRAPH, LIFECYCLE, PROJECTS)


@dataclass(frozen=True, slots=True)
class Parts:
    """Common inputs of the functions: names, code, collection and managed knowledge base."""

    names: Names
    source: LayerSource
    collection: SearchEngine
    managed: ManagedBase | None = None


def tools_are_wanted() -> bool:
    """True if knowledge.yaml grants a learning tool to some agent."""
    return tool_grants().anyone_may_use(LEARNING)


def searching_roles(names: Names) -> tuple[str, ...]:
    """Roles of the functions that search for patterns in the index."""
    tools = (names.role_arn(LEARN_FROM_WORK.use_case),) if tools_are_wanted() else ()
    return (names.role_arn(PROCESS_CHECKPOINT.use_case), *tools)


def learn_from_events(scope: Construct, parts: Parts, failed_url: str) -> UseCaseFunction:
    """The function for learning events. It neither searches nor puts documents: captured entries wait for a checkpoint."""
    names = parts.names
    return UseCaseFunction(
        scope,
        LEARN_FROM_EVENTS,
        names=names,
        source=parts.source,
        settings={**corpus_settings(names), "learning_failed_url": failed_url},
        rights=[
            *capturing_rights(names),
            rights.on_tables(names, (ALIASES, GRAPH), rights.READ_ITEMS),  # nodes of incidents
            rights.allow(["sqs:SendMessage"], names.queue_arn(LEARNING_FAILED)),
        ],
        folders=rights.CHUNK_FOLDERS,
    )


def process_checkpoint(scope: Construct, parts: Parts, failed_url: str) -> UseCaseFunction:
    """The function for checkpoints. It puts documents only into the folders of patterns and of warnings."""
    names, collection, managed = parts.names, parts.collection, parts.managed
    made = UseCaseFunction(
        scope,
        PROCESS_CHECKPOINT,
        names=names,
        source=parts.source,
        settings={
            **common_settings(names, collection),
            **corpus_settings(names),
            **managed_search.searching_settings(names, managed),
            "learning_failed_url": failed_url,
        },
        rights=[
            rights.allow(["s3:ListBucket"], names.corpus_arn),
            rights.on_objects(names, _LEARNED, rights.PUT_DOCUMENTS),
            rights.on_tables(names, LEARNED_TABLES, rights.READ_ITEMS + rights.WRITE_ITEMS),
            rights.on_tables(names, (DOCUMENTS, KEYS, LIFECYCLE), rights.READ_ITEMS),
            rights.on_tables(names, (EMBEDDINGS,), ["dynamodb:BatchGetItem", "dynamodb:BatchWriteItem"]),
            rights.on_tables(names, (PROJECTS,), (*rights.READ_ITEMS, "dynamodb:PutItem")),
            rights.use_collections(*arns_of(collection)),
            *rights.embed_texts(names),
            rights.share_vectors(names),
            *managed_search.searching_rights(managed),
            rights.allow(["sqs:SendMessage"], names.queue_arn(LEARNING_FAILED)),
        ],
        folders=_LEARNED,
    )
    rights.acknowledge_texts(made.role, names)
    return made


class LearningTools(Construct):
    """The function of the learning tools, with the permission of agents to invoke it."""

    def __init__(self, scope: Construct, construct_id: str, parts: Parts) -> None:
        super().__init__(scope, construct_id)
        names, collection, managed = parts.names, parts.collection, parts.managed
        self.tools = UseCaseFunction(
            self,
            LEARN_FROM_WORK,
            names=names,
            source=parts.source,
            settings={
                **common_settings(names, collection),
                **corpus_settings(names),
                **managed_search.searching_settings(names, managed),
                **gateway_callers.verifying_settings(names),
            },
            rights=[
                *capturing_rights(names),
                rights.on_tables(names, _READ_TABLES, rights.READ_ITEMS),
                rights.on_tables(names, (AUDIT,), ["dynamodb:PutItem", "dynamodb:Query"]),
                rights.on_tables(names, (GAPS,), rights.KEEP_GAPS),
                rights.use_collections(*arns_of(collection)),
                *rights.embed_texts(names),
                rights.share_vectors(names),
                *managed_search.searching_rights(managed),
                *gateway_callers.verifying_rights(names),
            ],
            folders=rights.CHUNK_FOLDERS,
        )
        rights.acknowledge_texts(self.tools.role, names)
        self.target_arn = self.tools.target_arn
        if names.deployment.agent == "none":
            self.tools.allow_bedrock_agents()


def capturing_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights to capture entries and record outcomes. An outcome is checked against the audit record of its answer, and
    against the document's chunks, which contain its steps; new clients are registered."""
    return [
        rights.allow(["s3:ListBucket"], names.corpus_arn),
        rights.on_objects(names, rights.CHUNK_FOLDERS, ["s3:GetObject"]),
        rights.on_tables(names, LEARNED_TABLES, rights.READ_ITEMS + rights.WRITE_ITEMS),
        rights.on_tables(names, (DOCUMENTS, KEYS), rights.READ_ITEMS),
        rights.on_tables(names, (AUDIT,), ["dynamodb:GetItem"]),
        rights.on_tables(names, (PROJECTS,), (*rights.READ_ITEMS, "dynamodb:PutItem")),
        rights.note_uses(names),
    ]

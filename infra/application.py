"""Composes the stacks of one environment with their dependencies, and adds keys, network, tags and checks to all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from infra.agent import AgentStack
from infra.api import ApiStack
from infra.bulk import BulkStack
from infra.configuration import OWN_KEY, ContextError, Deployment
from infra.console import FILES, ConsoleStack
from infra.constructs.code import LayerSource, Platform
from infra.constructs.collection_addresses import ExistingCollection, PublishedCollection
from infra.constructs.customer_key import EncryptWith
from infra.constructs.managed_search import ManagedBase, is_wanted
from infra.constructs.private_network import RunInside
from infra.ingestion import IngestionStack
from infra.key import KeyStack
from infra.knowledge_base import KnowledgeBaseStack
from infra.learning import LearningStack
from infra.lifecycle import LifecycleStack
from infra.names import APPLICATION, Names
from infra.network import NetworkStack, refuse_unreachable
from infra.observability import ObservabilityStack
from infra.operations import OperationsStack
from infra.retrieval import RetrievalStack
from infra.search import SearchStack
from infra.sources import SourcesStack
from infra.storage import StorageStack
from infra.streams import StreamsStack, streams_to_read
from infra.webhooks import WebhooksStack

S = TypeVar("S", bound=cdk.Stack)

FEATURE_FLAGS = {
    "@aws-cdk/aws-iam:minimizePolicies": True,
    "@aws-cdk/aws-s3:createDefaultLoggingPolicy": True,
    "@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy": True,
    "@aws-cdk/core:checkSecretUsage": True,
    "@aws-cdk/core:defaultCrossStackReferences": "strong",  # the collection can't go while functions use it
    "@aws-cdk/core:enablePartitionLiterals": True,
    "@aws-cdk/core:target-partitions": ["aws", "aws-cn", "aws-us-gov"],
}
"""Here and not in cdk.json, so that `python app.py` and `cdk synth` synthesise the same templates."""


@dataclass(frozen=True, slots=True)
class Stacks:
    storage: StorageStack
    search: SearchStack | None
    """None if an existing collection is used."""
    following_search: SearchStack | None
    """None without a second collection."""
    ingestion: IngestionStack
    retrieval: RetrievalStack
    sources: SourcesStack
    learning: LearningStack
    agent: AgentStack | None
    """None if agents are created elsewhere."""
    api: ApiStack | None
    """None without an HTTP API."""
    key: KeyStack | None
    """None without a key of its own."""
    network: NetworkStack | None
    """None if functions run outside a network."""
    observability: ObservabilityStack
    operations: OperationsStack
    lifecycle: LifecycleStack
    webhooks: WebhooksStack | None = None
    """None without webhooks."""
    streams: StreamsStack | None = None
    """None without streams."""
    console: ConsoleStack | None = None
    """None without a console."""
    bulk: BulkStack | None = None
    """None without bulk jobs."""


def new_app(context: Mapping[str, Any] | None = None, outdir: str | None = None) -> cdk.App:
    """An app with our feature flags. Context from the command line and cdk.json wins over `context`."""
    return cdk.App(context={**FEATURE_FLAGS, **(context or {})}, outdir=outdir, analytics_reporting=False)


class _Adding:
    """Adds stacks of one environment."""

    def __init__(self, app: cdk.App, names: Names) -> None:
        deployment = names.deployment
        self._app = app
        self._names = names
        self._env = cdk.Environment(account=deployment.account or None, region=deployment.region or None)

    def __call__(self, kind: str, make: Callable[..., S], *after: cdk.Stack | None, **more: object) -> S:
        """Add a stack that is deployed after those others."""
        return self._made(self._names.stack(kind), self._names, make, after, more)

    def search(self, names: Names, **more: object) -> SearchStack:
        """Add the stack of the search collection of these names."""
        return self._made(names.search_stack, names, SearchStack, (), more)

    def _made(
        self,
        stack_id: str,
        names: Names,
        make: Callable[..., S],
        after: Sequence[cdk.Stack | None],
        more: Mapping[str, object],
    ) -> S:
        stack = make(self._app, stack_id, names=names, env=self._env, **more)
        for earlier in filter(None, after):
            stack.add_stack_dependency(earlier)
        return stack


def build(app: cdk.App, *, lambdas: Path | None = None, console_files: Path = FILES) -> Stacks:
    """Adds the stacks that the app's context selects. Raises `ContextError` for context that isn't known, and for a console
    that wasn't built."""
    deployment = Deployment.from_context(app.node.get_all_context())
    names = Names(deployment)
    platform = Platform(deployment.architecture, deployment.python)
    source = LayerSource(bundle=deployment.bundle, platform=platform, **({"lambdas": lambdas} if lambdas else {}))
    refuse_unreachable(deployment)
    add = _Adding(app, names)
    key = add("key", KeyStack) if deployment.kms_key == OWN_KEY else None
    network = add("network", NetworkStack) if deployment.vpc else None
    storage = add("storage", StorageStack)
    search, following = (_search(add, each, network, source) for each in (names, names.following))
    found = partial(PublishedCollection, names) if search else partial(ExistingCollection, deployment)
    code: dict[str, Any] = {"engine": found, "source": source}
    searched = (storage, search, following)
    managed = _managed_base(add, names, searched, code) if is_wanted(names) else None
    ingestion = add("ingestion", IngestionStack, *searched, **code)
    retrieval = add("retrieval", RetrievalStack, *searched, managed=managed, **code)
    sources = add("sources", SourcesStack, storage, source=source)
    learning = add("learning", LearningStack, *searched, managed=managed, **code)
    operations = add("operations", OperationsStack, storage, sources, source=source)
    lifecycle = add("lifecycle", LifecycleStack, *searched, sources, **code)
    bulk = add("bulk", BulkStack, *searched, **code) if deployment.bulk else None
    agent = _agent(add, retrieval, operations, learning, source) if deployment.agent != "none" else None
    api = None
    if deployment.api_auth != "none":
        api = add("api", ApiStack, retrieval, search, following, retrieve_arn=retrieval.target_arn, **code)
    webhooks = add("webhooks", WebhooksStack, storage, source=source) if deployment.webhooks else None
    reading = streams_to_read()
    are_read = reading or deployment.subscribable
    streams = add("streams", StreamsStack, storage, source=source, streams=reading) if are_read else None
    watched = {"source": source, "retrieve_arn": retrieval.target_arn}
    observability = add("observability", ObservabilityStack, storage, sources, retrieval, ingestion, **watched)
    console = None
    if deployment.console:  # after what watches functions: CDK's, which copies files here, has no name
        console = add("console", ConsoleStack, api, retrieval, retrieve_arn=retrieval.target_arn, files=console_files)
    if network:
        network.connect(app)
    _apply_to_all(app, deployment, key, network)
    return Stacks(
        storage,
        search,
        following,
        ingestion,
        retrieval,
        sources,
        learning,
        agent,
        api,
        key,
        network,
        observability,
        operations,
        lifecycle,
        webhooks,
        streams,
        console,
        bulk,
    )


def _managed_base(
    add: _Adding, names: Names, searched: tuple[cdk.Stack | None, ...], code: Mapping[str, Any]
) -> ManagedBase:
    """The knowledge base of Bedrock. Raises `ContextError` without a collection of ours, which has its index."""
    if names.deployment.search_endpoint:
        raise ContextError("context knowledge_base=bedrock needs a collection made here: leave out search_endpoint")
    return add("knowledge-base", KnowledgeBaseStack, *searched, **code).base


def _agent(
    add: _Adding, retrieval: RetrievalStack, operations: OperationsStack, learning: LearningStack, source: LayerSource
) -> AgentStack:
    return add(
        "agent",
        AgentStack,
        retrieval,
        operations,
        source=source,
        function_arn=retrieval.target_arn,
        operations_arn=operations.queries_arn,
        learning_arn=learning.tools_arn,
    )


def _search(add: _Adding, names: Names | None, network: NetworkStack | None, source: LayerSource) -> SearchStack | None:
    """The stack of a collection; None for an existing one, and without names."""
    if names is None or names.deployment.search_endpoint:
        return None
    endpoints = network.network.collection_endpoints if network else {}
    return add.search(names, vpc_endpoint=endpoints.get(names.deployment.search_generation, ""), source=source)


def endpoints_of(deployment: Deployment) -> list[str]:
    """Names of the services whose endpoints the deployment's private network makes, from its stacks, which takes seconds."""
    network = build(new_app(asdict(deployment))).network
    return network.network.endpoints if network else []


def _apply_to_all(app: cdk.App, deployment: Deployment, key: KeyStack | None, network: NetworkStack | None) -> None:
    """Applies keys, network, tags and cdk-nag rules to the resources of every stack."""
    if deployment.kms_key:
        cdk.Aspects.of(app).add(EncryptWith(key.key.key_arn if key else deployment.kms_key))
    if network:
        cdk.Aspects.of(app).add(RunInside(network.network))
    cdk.Tags.of(app).add("application", APPLICATION)
    cdk.Tags.of(app).add("environment", deployment.environment)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))

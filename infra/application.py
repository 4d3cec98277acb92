"""Puts the stacks of one environment together: who depends on whom, and under which rules they are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from infra.agent import AgentStack
from infra.configuration import Deployment
from infra.constructs.code import LayerSource, Platform
from infra.constructs.hybrid_index import ExistingIndex
from infra.ingestion import IngestionStack
from infra.learning import LearningStack
from infra.names import Names
from infra.retrieval import RetrievalStack
from infra.search import SearchStack
from infra.sources import SourcesStack
from infra.storage import StorageStack

FEATURE_FLAGS = {
    "@aws-cdk/aws-iam:minimizePolicies": True,
    "@aws-cdk/aws-s3:createDefaultLoggingPolicy": True,
    "@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy": True,
    "@aws-cdk/core:checkSecretUsage": True,
    "@aws-cdk/core:defaultCrossStackReferences": "strong",  # the collection can't go while functions use it
    "@aws-cdk/core:enablePartitionLiterals": True,
    "@aws-cdk/core:target-partitions": ["aws", "aws-cn", "aws-us-gov"],
}
"""Here and not in cdk.json, so that `python app.py` and `cdk synth` make the same templates."""


@dataclass(frozen=True, slots=True)
class Stacks:
    storage: StorageStack
    search: SearchStack | None
    """None where a collection that exists already is used."""
    ingestion: IngestionStack
    retrieval: RetrievalStack
    sources: SourcesStack
    learning: LearningStack
    agent: AgentStack | None
    """None where agents are made elsewhere."""


def new_app(context: Mapping[str, Any] | None = None, outdir: str | None = None) -> cdk.App:
    """An app with our feature flags. Context from the command line and cdk.json wins over `context`."""
    return cdk.App(context={**FEATURE_FLAGS, **(context or {})}, outdir=outdir, analytics_reporting=False)


def build(app: cdk.App, *, lambdas: Path | None = None) -> Stacks:
    """Add the stacks that the app's context asks for. Raises `ContextError` for context that isn't known."""
    deployment = Deployment.from_context(app.node.get_all_context())
    names = Names(deployment)
    platform = Platform(deployment.architecture, deployment.python)
    layers = LayerSource(bundle=deployment.bundle, platform=platform, **({"lambdas": lambdas} if lambdas else {}))
    env = cdk.Environment(account=deployment.account or None, region=deployment.region or None)
    storage = StorageStack(app, names.stack("storage"), names=names, env=env)
    search = None if deployment.search_endpoint else SearchStack(app, names.stack("search"), names=names, env=env)
    engine = search.collection if search else ExistingIndex(deployment.search_endpoint, deployment.search_arn)
    ingestion = IngestionStack(app, names.stack("ingestion"), names=names, collection=engine, source=layers, env=env)
    retrieval = RetrievalStack(app, names.stack("retrieval"), names=names, collection=engine, source=layers, env=env)
    sources = SourcesStack(app, names.stack("sources"), names=names, env=env)
    learning = LearningStack(app, names.stack("learning"), names=names, env=env)
    agent = _agent(app, names, retrieval, env) if deployment.agent != "none" else None
    ingestion.add_stack_dependency(storage)
    retrieval.add_stack_dependency(storage)
    cdk.Tags.of(app).add("application", "opx-knowledge")
    cdk.Tags.of(app).add("environment", deployment.environment)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return Stacks(storage, search, ingestion, retrieval, sources, learning, agent)


def _agent(app: cdk.App, names: Names, retrieval: RetrievalStack, env: cdk.Environment) -> AgentStack:
    agent = AgentStack(app, names.stack("agent"), names=names, function_arn=retrieval.target_arn, env=env)
    agent.add_stack_dependency(retrieval)
    return agent

"""The Lambda function of one use case, with its layers, role, log group and triggers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.configuration import Deployment
from infra.constructs.acknowledgements import acknowledge, acknowledge_wildcard
from infra.constructs.code import LayerSource
from infra.constructs.keeping import removal_policy
from infra.names import Names
from opx.settings import FIRST_COLLECTION, Settings, env_name

LIVE = "live"
LOG_RETENTION = logs.RetentionDays.THREE_MONTHS
_DEFAULTS = Settings()
_FOLDER_REASON = "objects have no names known at deployment: the rights are limited to folders of the corpus"


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """Static properties of a function. `use_case` is a folder of `lambdas/`, `dependencies` a file of
    `layers/dependencies/`; `memory` is in MB, `timeout` in seconds.

    `answers_people`: a caller waits for the reply, so that it starts from a snapshot (SnapStart) unless the deployment
    disables that.
    """

    use_case: str
    dependencies: str
    description: str
    memory: int
    timeout: int
    answers_people: bool = False

    @property
    def construct_id(self) -> str:
        """`pull_sources` -> `PullSources`."""
        return self.use_case.title().replace("_", "")


class UseCaseFunction(Construct):
    """A function, its layers, its role and its log group.

    `settings` are values by field of `opx.settings.Settings`; nothing else is in the environment. The role may write
    to the log group and traces, and do what `rights` allow, which are for calls of its own code, and `polling`, which are
    for Lambda to read streams in its name; `folders` are the folders of the corpus in those rights, as patterns of keys.
    `concurrency` instances are reserved for the function, which is also the most that run at once; 0 reserves none.
    Callers invoke `target`.
    """

    def __init__(
        self,
        scope: Construct,
        spec: FunctionSpec,
        *,
        names: Names,
        source: LayerSource,
        settings: Mapping[str, str],
        rights: Sequence[iam.PolicyStatement],
        polling: Sequence[iam.PolicyStatement] = (),
        folders: Sequence[str] = (),
        concurrency: int = 0,
    ) -> None:
        super().__init__(scope, spec.construct_id)
        snapstart = spec.answers_people and names.deployment.snapstart
        self.rights = tuple(rights)
        self.role_arn = names.role_arn(spec.use_case)
        """The ARN of `role` made of its name: stacks that use it import nothing from this one."""
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{names.function(spec.use_case)}",
            retention=LOG_RETENTION,
            removal_policy=removal_policy(ephemeral=names.deployment.ephemeral),
        )
        self.role = iam.Role(
            self,
            "Role",
            role_name=names.role(spec.use_case),
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        )
        for right in (_write_logs(self.log_group), *rights, *polling):
            self.role.add_to_policy(right)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=names.function(spec.use_case),
            description=spec.description,
            runtime=source.platform.runtime,
            architecture=source.platform.instructions,
            handler="handler.handler",
            code=source.function_code(spec.use_case),
            layers=[source.library(self, spec.dependencies), source.dependencies(self, spec.dependencies)],
            environment={env_name(field): value for field, value in {**_everywhere(names), **settings}.items()},
            memory_size=spec.memory,
            timeout=Duration.seconds(spec.timeout),
            reserved_concurrent_executions=concurrency or None,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snapstart else None,
            role=self.role,
            log_group=self.log_group,
            tracing=lambda_.Tracing.ACTIVE,
        )
        acknowledge_wildcard(self.role, "*", "traces are no resource: X-Ray's two actions for sending them take none")
        for folder in folders:
            acknowledge_wildcard(self.role, f"{names.corpus_arn}/{folder}", _FOLDER_REASON)
        acknowledge(self.function, "L1", "the layers' wheels are locked for this version of Python")
        self.target: lambda_.IFunction = self._published() if snapstart else self.function
        self.target_arn = names.function_arn(spec.use_case) + (f":{LIVE}" if snapstart else "")
        """The ARN of `target` made of its name: stacks that use it import nothing from this one."""

    def consume(
        self,
        queue: sqs.IQueue,
        *,
        batch_size: int = 1,
        max_concurrency: int | None = None,
        window: Duration | None = None,
        report_failures: bool = True,
    ) -> None:
        """Invokes the function with batches of the queue's messages. With `report_failures`, only the failed messages of
        a batch return to the queue; a full batch is waited for as long as `window`."""
        source = event_sources.SqsEventSource(
            queue,
            batch_size=batch_size,
            max_concurrency=max_concurrency,
            max_batching_window=window,
            report_batch_item_failures=report_failures or None,
        )
        self.function.add_event_source(source)

    def allow_bedrock_agents(self) -> None:
        """Permits Bedrock agents of this account and region, and no others, to invoke the function.

        For agents made elsewhere. One that is made here has a permission, or a role, of its own.
        """
        stack = Stack.of(self)
        self.target.add_permission(
            "BedrockAgents",
            principal=iam.ServicePrincipal("bedrock.amazonaws.com"),
            source_account=stack.account,
            source_arn=stack.format_arn(service="bedrock", resource="agent", resource_name="*"),
        )

    def _published(self) -> lambda_.Alias:
        """The alias of the newest version: snapshots exist for published versions only."""
        return lambda_.Alias(self, "Live", alias_name=LIVE, version=self.function.current_version)


def _everywhere(names: Names) -> dict[str, str]:
    """Settings of every function: those for logs and metrics."""
    return {"environment": names.deployment.environment, "log_level": names.deployment.log_level}


class SearchEngine(Protocol):
    """The search collection: its endpoint, its ARN for rights on it, and `on` or `off` for whether it accepts ids of its
    clients, empty if that follows from its generation. `following` is the one that an index can be built in, if any."""

    @property
    def endpoint(self) -> str: ...

    @property
    def arn(self) -> str: ...

    @property
    def own_ids(self) -> str: ...

    @property
    def following(self) -> SearchEngine | None: ...


def arns_of(collection: SearchEngine) -> list[str]:
    """ARNs of the collection, and of the one that an index can be built in."""
    return [collection.arn, *(arns_of(collection.following) if collection.following else [])]


FindEngine = Callable[[Stack], SearchEngine]
"""Returns the search collection, with values that hold within this stack."""


def common_settings(names: Names, collection: SearchEngine) -> dict[str, str]:
    """Settings of functions that use tables, index and embedding model."""
    deployment = names.deployment
    return {
        **table_settings(names),
        "search_endpoint": collection.endpoint,
        **({"search_own_ids": collection.own_ids} if collection.own_ids else {}),
        "search_index": deployment.search_index,
        "search_generation": deployment.search_generation,
        **(
            {"search_collection": deployment.search_collection}
            if deployment.search_collection != FIRST_COLLECTION
            else {}
        ),
        **_following_settings(deployment, collection.following),
        "embedding_model": deployment.embedding_model,
        **_quota(names),
    }


def _following_settings(deployment: Deployment, following: SearchEngine | None) -> dict[str, str]:
    """Settings of the collection that an index can be built in."""
    if following is None:
        return {}
    return {
        "next_search_endpoint": following.endpoint,
        "next_search_own_ids": following.own_ids,
        "next_search_generation": deployment.next_search_generation,
    }


def _quota(names: Names) -> dict[str, str]:
    """The quota of the embedding model, as far as it is known."""
    deployment = names.deployment
    requests, tokens = deployment.embedding_requests_per_minute, deployment.embedding_tokens_per_minute
    known = {"embedding_requests_per_minute": requests, "embedding_tokens_per_minute": tokens}
    return {field: str(value) for field, value in known.items() if value}


def corpus_settings(names: Names) -> dict[str, str]:
    """Settings of functions that put documents into the corpus, and leave their ingestion to another function."""
    return {**table_settings(names), "corpus_bucket": names.corpus_bucket, **configured_identity(names)}


def table_settings(names: Names) -> dict[str, str]:
    """Settings of functions that use tables, with how long they keep records of questions if that is chosen."""
    kept = {key: getattr(names.deployment, key) for key in ("audit_days", "gap_days")}
    chosen = {key: str(days) for key, days in kept.items() if days != getattr(_DEFAULTS, key)}
    return {"backend": "aws", "table_prefix": names.prefix, **chosen}


def configured_identity(names: Names) -> dict[str, str]:
    """Identity of callers that state none, such as all that come through the gateway."""
    deployment = names.deployment
    chosen = {"client_id": deployment.client_id, "project_id": deployment.project_id}
    return {field: value for field, value in chosen.items() if value}


def reaching_settings(names: Names) -> dict[str, str]:
    """Settings of functions that fetch from sources: what they may and can reach."""
    deployment = names.deployment
    offline = {"internet": "off"} if deployment.vpc and not deployment.vpc_internet else {}
    return {"allowed_hosts": deployment.allowed_hosts, **offline}


def _write_logs(log_group: logs.LogGroup) -> iam.PolicyStatement:
    actions = ["logs:CreateLogStream", "logs:PutLogEvents"]
    return iam.PolicyStatement(actions=actions, resources=[log_group.log_group_arn])

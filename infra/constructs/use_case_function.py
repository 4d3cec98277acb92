"""A Lambda function that does one thing, with rights of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.constructs.acknowledgements import acknowledge, acknowledge_wildcard
from infra.constructs.code import LayerSource
from infra.constructs.keeping import removal_policy
from infra.names import Names
from opx.settings import env_name

LIVE = "live"
LOG_RETENTION = logs.RetentionDays.THREE_MONTHS


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """`use_case` is a folder of `lambdas/`, `dependencies` a file of `layers/dependencies/`; sizes in MB and seconds.

    `answers_people`: somebody waits for it, so that it starts from a snapshot unless the deployment does without.
    """

    use_case: str
    dependencies: str
    description: str
    memory: int
    timeout: int
    answers_people: bool = False


class UseCaseFunction(Construct):
    """A function, its layers, its role and its log group.

    `settings` are values by field of `opx.settings.Settings`; nothing else is in the environment. The role may write
    to the log group and traces, and what `rights` say. `concurrency` instances are reserved for it, which is also the
    most that run at once; 0 reserves none. What calls the function calls `target`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: FunctionSpec,
        names: Names,
        source: LayerSource,
        settings: Mapping[str, str],
        rights: Sequence[iam.PolicyStatement],
        concurrency: int = 0,
    ) -> None:
        super().__init__(scope, construct_id)
        snapstart = spec.answers_people and names.deployment.snapstart
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
        for right in (_write_logs(self.log_group), *rights):
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
            layers=[source.library(self), source.dependencies(self, spec.dependencies)],
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
        acknowledge(self.function, "L1", "the layers' wheels are locked for this version of Python")
        self.target: lambda_.IFunction = self._published() if snapstart else self.function

    def _published(self) -> lambda_.Alias:
        """Snapshots are of published versions: callers use the alias, which follows the newest."""
        return lambda_.Alias(self, "Live", alias_name=LIVE, version=self.function.current_version)


def _everywhere(names: Names) -> dict[str, str]:
    """How to log and measure."""
    return {"environment": names.deployment.environment, "log_level": names.deployment.log_level}


def common_settings(names: Names, endpoint: str) -> dict[str, str]:
    """What every function needs to find tables, index and model."""
    return {
        "backend": "aws",
        "table_prefix": names.prefix,
        "search_endpoint": endpoint,
        "search_index": names.deployment.search_index,
        "search_generation": names.deployment.search_generation,
        "embedding_model": names.deployment.embedding_model,
    }


def corpus_settings(names: Names) -> dict[str, str]:
    """What a function needs that puts documents into the corpus, and leaves taking them in to another."""
    return {
        "backend": "aws",
        "table_prefix": names.prefix,
        "corpus_bucket": names.corpus_bucket,
        **configured_identity(names),
    }


def configured_identity(names: Names) -> dict[str, str]:
    """Who a caller is that names nobody, such as everyone who comes through the gateway."""
    deployment = names.deployment
    chosen = {"client_id": deployment.client_id, "project_id": deployment.project_id}
    return {field: value for field, value in chosen.items() if value}


def _write_logs(log_group: logs.LogGroup) -> iam.PolicyStatement:
    actions = ["logs:CreateLogStream", "logs:PutLogEvents"]
    return iam.PolicyStatement(actions=actions, resources=[log_group.log_group_arn])

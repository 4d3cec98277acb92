"""Physical names: those of the library, prefixed with the environment's name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aws_cdk import Aws

from infra.configuration import Deployment
from opx.ports.tables import TableSpec
from opx.settings import FIRST_COLLECTION, Settings

DEFAULTS = Settings()
APPLICATION = "opx-knowledge"
"""The tag `application` of all resources."""

PULLS, PULLS_FAILED = "pulls", "pulls-failed"
REBUILDS, REBUILDS_FAILED = "rebuilds", "rebuilds-failed"
STREAMS_FAILED = "streams-failed"
GAPS_FAILED, RELINK_FAILED = "gaps-failed", "relink-failed"
PLAIN_ENVIRONMENT = "prod"
"""The environment without a prefix: its tables and bucket have the names that other programs know."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one environment. Stacks refer to each other's resources by name, which needs no exports. Names of
    functions end with `qualifier`."""

    deployment: Deployment
    qualifier: str = ""

    @property
    def prefix(self) -> str:
        environment = self.deployment.environment
        return "" if environment == PLAIN_ENVIRONMENT else f"{environment}-"

    @property
    def corpus_bucket(self) -> str:
        """Bucket names are globally unique, so that only the plain environment can have the plain one."""
        if self.deployment.corpus_bucket:
            return self.deployment.corpus_bucket
        plain = self.prefix + DEFAULTS.corpus_bucket
        return f"{plain}-{Aws.ACCOUNT_ID}-{Aws.REGION}" if self.prefix else plain

    @property
    def system(self) -> str:
        """Name of what exists once in an environment."""
        return f"{self.prefix}opx-knowledge"

    # -- the search collection

    @property
    def is_first(self) -> bool:
        """True for the collection that every deployment begins with, whose names have no suffix."""
        return self.deployment.search_collection == FIRST_COLLECTION

    @property
    def collection(self) -> str:
        return self.system if self.is_first else f"{self.system}-{self.deployment.search_collection}"

    @property
    def following(self) -> Names | None:
        """The names of the other collection, if there is one."""
        other = self.deployment.following
        return replace(self, deployment=other) if other else None

    @property
    def of_collection(self) -> Names:
        """With functions named for the collection: each collection has its own."""
        return self if self.is_first else replace(self, qualifier=f"-{self.deployment.search_collection}")

    @property
    def search_stack(self) -> str:
        return self.stack("search" if self.is_first else f"search-{self.deployment.search_collection}")

    def access_policy(self, kind: str) -> str:
        """At most 32 characters, with the longest name of an environment."""
        first = self.collection if self.is_first else f"{self.prefix}opx-{self.deployment.search_collection}"
        return f"{first}-{kind}"

    def search_parameter(self, kind: str) -> str:
        """Name of the parameter in SSM that has the collection's endpoint, ARN, or what is known of its ids."""
        return f"/{self.system}/search/{self.deployment.search_collection}/{kind}"

    # -- tables, queues, stacks and functions

    def table(self, spec: TableSpec) -> str:
        return self.prefix + spec.name

    def queue(self, kind: str) -> str:
        return f"{self.prefix}opx-knowledge-{kind}"

    def stack(self, kind: str) -> str:
        return f"opx-knowledge-{self.deployment.environment}-{kind}"

    def function(self, use_case: str) -> str:
        """`use_case` is a folder of `lambdas/`."""
        return f"{self.prefix}opx-{use_case.replace('_', '-')}{self.qualifier}"

    def role(self, use_case: str) -> str:
        """Roles are the same in all regions of an account, hence the region in the name."""
        return f"{self.function(use_case)}-{Aws.REGION}"

    def role_arn(self, use_case: str) -> str:
        return f"arn:{Aws.PARTITION}:iam::{Aws.ACCOUNT_ID}:role/{self.role(use_case)}"

    def table_arn(self, spec: TableSpec) -> str:
        return f"arn:{Aws.PARTITION}:dynamodb:{Aws.REGION}:{Aws.ACCOUNT_ID}:table/{self.table(spec)}"

    @property
    def backup_vault(self) -> str:
        return f"{self.prefix}opx-knowledge"

    @property
    def state_machine(self) -> str:
        """Name of the state machine of bulk jobs."""
        return f"{self.system}-bulk"

    @property
    def state_machine_arn(self) -> str:
        return f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:stateMachine:{self.state_machine}"

    @property
    def executions_arn(self) -> str:
        """ARN pattern of the state machine's executions, which are named for their jobs."""
        return f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:execution:{self.state_machine}:*"

    @property
    def learning_bus(self) -> str:
        return f"{self.prefix}opx-knowledge-learning"

    @property
    def schedule_group(self) -> str:
        return f"{self.prefix}opx-knowledge"

    @property
    def schedule_group_arn(self) -> str:
        group = self.schedule_group
        return f"arn:{Aws.PARTITION}:scheduler:{Aws.REGION}:{Aws.ACCOUNT_ID}:schedule-group/{group}"

    @property
    def secrets_arn(self) -> str:
        """ARN pattern of all secrets of the environment: Secrets Manager appends six characters to a name."""
        name = f"{self.prefix}opx-knowledge/*"
        return f"arn:{Aws.PARTITION}:secretsmanager:{Aws.REGION}:{Aws.ACCOUNT_ID}:secret:{name}"

    def secret_arn(self, name: str) -> str:
        """ARN pattern of one secret of the environment, with any six characters appended by Secrets Manager."""
        return self.secrets_arn.removesuffix("*") + f"{name}-??????"

    @property
    def registered_schedules_arn(self) -> str:
        """ARN pattern of schedules of sources that are registered at run time."""
        group = self.schedule_group
        return f"arn:{Aws.PARTITION}:scheduler:{Aws.REGION}:{Aws.ACCOUNT_ID}:schedule/{group}/source-*"

    @property
    def key_alias(self) -> str:
        return f"alias/{self.prefix}opx-knowledge"

    @property
    def agent(self) -> str:
        """Name of the gateway, or of the classic agent."""
        return f"{self.prefix}opx-knowledge"

    @property
    def token_gateway(self) -> str:
        """Name of the gateway whose callers have tokens. Never that of the other one: a gateway that changes its kind of
        callers would be made before the old one is deleted."""
        return f"{self.agent}-tokens"

    @property
    def gateway_secret(self) -> str:
        """Name of the secret that signs callers of the gateway; not below the name of the sources' secrets, which other
        functions may read."""
        return f"{self.prefix}opx-gateway/callers"

    @property
    def gateway_secret_arn(self) -> str:
        """ARN pattern of that secret, as in `secret_arn`."""
        return self._full_secret_arn(self.gateway_secret)

    @property
    def signing_key(self) -> str:
        """Name of the secret with the key of seals; not below that of the sources' secrets either."""
        return f"{self.prefix}opx-seal/signing-key"

    @property
    def signing_key_arn(self) -> str:
        """ARN pattern of that secret, as in `secret_arn`."""
        return self._full_secret_arn(self.signing_key)

    def _full_secret_arn(self, name: str) -> str:
        return f"arn:{Aws.PARTITION}:secretsmanager:{Aws.REGION}:{Aws.ACCOUNT_ID}:secret:{name}-??????"

    @property
    def originals_secret(self) -> str:
        """Name of the key of encrypted originals, likewise not below the name of the sources' secrets."""
        return f"{self.prefix}opx-originals/key"

    @property
    def originals_secret_arn(self) -> str:
        """ARN pattern of that secret, as in `secret_arn`."""
        return f"arn:{Aws.PARTITION}:secretsmanager:{Aws.REGION}:{Aws.ACCOUNT_ID}:secret:{self.originals_secret}-??????"

    @property
    def agent_role(self) -> str:
        """With the prefix that AWS requires for roles of agents, which leaves 28 of 64 characters."""
        return f"AmazonBedrockExecutionRoleForAgents_{self.deployment.environment}-{Aws.REGION}"

    def function_arn(self, use_case: str) -> str:
        function = self.function(use_case)
        return f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function:{function}"

    def queue_arn(self, kind: str) -> str:
        return f"arn:{Aws.PARTITION}:sqs:{Aws.REGION}:{Aws.ACCOUNT_ID}:{self.queue(kind)}"

    def queue_url(self, kind: str) -> str:
        return f"https://sqs.{Aws.REGION}.{Aws.URL_SUFFIX}/{Aws.ACCOUNT_ID}/{self.queue(kind)}"

    @property
    def corpus_arn(self) -> str:
        return f"arn:{Aws.PARTITION}:s3:::{self.corpus_bucket}"

    @property
    def source_bucket_arns(self) -> list[str]:
        """Buckets other than the corpus that may be sources."""
        listed = self.deployment.source_buckets.split(",")
        return [f"arn:{Aws.PARTITION}:s3:::{name.strip()}" for name in listed if name.strip()]

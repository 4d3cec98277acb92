"""Indexes of the search collection, created by a function.

CloudFormation's own type for them is missing in 13 regions, and gives up where the right to create an index isn't effective
yet. The function repeats that, accepts an index that exists, and waits for a collection that wakes up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aws_cdk import CustomResource, Duration, RemovalPolicy, custom_resources
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge, acknowledge_wildcard
from infra.constructs.code import LayerSource
from infra.constructs.use_case_function import FunctionSpec, UseCaseFunction, table_settings
from infra.names import Names

CREATE_INDEX = FunctionSpec(
    use_case="create_index",
    dependencies="api",
    description="Creates the indexes of the search collection for CloudFormation",
    memory=512,
    timeout=600,
)


class SearchIndexes(Construct):
    """The function, and CDK's provider, which calls it and answers CloudFormation whatever happens: outside of a private
    network, as answers go to a bucket of AWS."""

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, source: LayerSource, endpoint: str, arn: str
    ) -> None:
        super().__init__(scope, construct_id)
        names = names.of_collection
        self._endpoint = endpoint
        self._function = UseCaseFunction(
            self,
            CREATE_INDEX,
            names=names,
            source=source,
            settings={**table_settings(names), "search_generation": names.deployment.search_generation},
            rights=[rights.use_collections(arn)],
        )
        self._token = self._provider(names).service_token

    def _provider(self, names: Names) -> custom_resources.Provider:
        group = logs.LogGroup(
            self, "ProviderLogs", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY
        )
        role = iam.Role(self, "ProviderRole", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        role.add_to_policy(rights.allow(["logs:CreateLogStream", "logs:PutLogEvents"], group.log_group_arn))
        called = self._function.function
        acknowledge_wildcard(
            role, f"{called.function_arn}:*", "CDK's provider may call any version of the one function"
        )
        provider = custom_resources.Provider(
            self,
            "Provider",
            on_event_handler=called,
            provider_function_name=names.function("create_index_provider"),
            framework_on_event_role=role,
            log_group=group,
        )
        acknowledge(provider, "L1", "CDK chooses the version of Node.js for its provider")
        return provider

    def add(self, name: str, index_name: str, body: Mapping[str, Any], *, delete: bool, **more: str) -> CustomResource:
        """An index. `delete` it with its resource; `more` are properties of an index of the library."""
        return CustomResource(
            self,
            name,
            resource_type="Custom::SearchIndex",
            service_token=self._token,
            service_timeout=Duration.seconds(CREATE_INDEX.timeout + 60),
            properties={
                "Endpoint": self._endpoint,
                "IndexName": index_name,
                "Body": json.dumps(body, separators=(",", ":"), sort_keys=True),
                "Delete": str(delete).lower(),
                **more,
            },
        )

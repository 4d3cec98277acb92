"""Addresses of search collections: parameters in SSM, which the stacks of functions read when they are deployed.

Exports would tie those stacks to one collection; it is replaced by building another one beside it.
"""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_ssm as ssm

from infra.configuration import Deployment
from infra.constructs.hybrid_index import HybridIndex
from infra.names import Names

ENDPOINT, ARN, OWN_IDS = "endpoint", "arn", "own-ids"


def publish(stack: Stack, names: Names, collection: HybridIndex) -> None:
    """Publishes the addresses of a collection; exports those of the first one, which stacks of earlier releases import."""
    values = {ENDPOINT: collection.endpoint, ARN: collection.arn, OWN_IDS: collection.own_ids}
    for kind, value in values.items():
        ssm.StringParameter(
            stack,
            f"Published{kind.title().replace('-', '')}",
            parameter_name=names.search_parameter(kind),
            string_value=value,
            description=f"The search collection {names.deployment.search_collection}: {kind}",
        )
        if names.is_first:
            stack.export_value(value)


class PublishedCollection:
    """The `SearchEngine` of these names, as published when `stack` is deployed, which gets a parameter for each address that
    it uses."""

    def __init__(self, names: Names, stack: Stack) -> None:
        self._names = names
        self._stack = stack

    @property
    def endpoint(self) -> str:
        return self._read(ENDPOINT)

    @property
    def arn(self) -> str:
        return self._read(ARN)

    @property
    def own_ids(self) -> str:
        return self._read(OWN_IDS)

    @property
    def following(self) -> PublishedCollection | None:
        names = self._names.following
        return PublishedCollection(names, self._stack) if names else None

    def _read(self, kind: str) -> str:
        return ssm.StringParameter.value_for_string_parameter(self._stack, self._names.search_parameter(kind))


class ExistingCollection:
    """A `SearchEngine` created elsewhere. Its owner provides the index and the access of the functions' roles."""

    own_ids = ""
    following = None

    def __init__(self, deployment: Deployment, _: Stack) -> None:
        self.endpoint = deployment.search_endpoint
        self.arn = deployment.search_arn

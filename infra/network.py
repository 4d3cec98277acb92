"""The network of an environment whose functions run in private subnets."""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import App, CfnResource, Environment, Stack
from constructs import Construct

from infra.configuration import ContextError, Deployment, listed
from infra.constructs.private_network import PrivateNetwork
from infra.constructs.use_case_function import UseCaseFunction
from infra.names import Names
from opx.connectors.control import needs_internet
from opx.connectors.repository import declared_sources
from opx.runtime.knowledge_file import load_knowledge, read_section
from opx_streams.webhooks.definitions import TOPIC_FORMAT, load_webhooks


class NetworkStack(Stack):
    """Subnets and endpoints. Of an existing network, only what it lacks: without resources, there is no such stack."""

    def __init__(self, scope: Construct, stack_id: str, *, names: Names, env: Environment) -> None:
        self._zones = listed(names.deployment.vpc_zones)
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: network")
        self.network = PrivateNetwork(self, "Network", names=names)

    @property
    def availability_zones(self) -> list[str]:
        """The chosen zones, which need no look-up in the account."""
        return self._zones or super().availability_zones

    def connect(self, app: App) -> None:
        """Makes the endpoints of the functions in all of the app's stacks, which were added before."""
        functions = [node for node in app.node.find_all() if isinstance(node, UseCaseFunction)]
        self.network.connect(functions)
        if not any(map(CfnResource.is_cfn_resource, self.node.find_all())):
            app.node.try_remove_child(self.node.id)


def refuse_unreachable(deployment: Deployment) -> None:
    """Raises `ContextError` for features of knowledge.yaml that need the internet, in a network that has no way there."""
    if deployment.vpc and not deployment.vpc_internet:
        found = list(_needing_internet(deployment))
        if found:
            raise ContextError(
                f"context vpc=true: {'; '.join(found)}. The network has no way to the internet: remove or disable this in "
                "knowledge.yaml, or use an existing VPC that has one (vpc_id with vpc_internet=true)"
            )


def _needing_internet(deployment: Deployment) -> Iterator[str]:
    knowledge = load_knowledge()
    for source in declared_sources(knowledge).values():
        if source.enabled and needs_internet(source):
            yield f"source {source.source_id} ({source.kind}) fetches from the internet"
    if read_section("internet") is not None:
        yield "section internet searches the web"
    for webhook in load_webhooks(knowledge).values() if deployment.webhooks else ():
        if webhook.format == TOPIC_FORMAT:
            yield f"webhook {webhook.name} ({webhook.format}) fetches the certificates of Amazon SNS"

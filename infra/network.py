"""The network of an environment whose functions have no internet access."""

from __future__ import annotations

from aws_cdk import Environment, Stack
from constructs import Construct

from infra.constructs.private_network import PrivateNetwork
from infra.names import Names


class NetworkStack(Stack):
    """Subnets and endpoints."""

    def __init__(self, scope: Construct, stack_id: str, *, names: Names, env: Environment) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: network")
        self.network = PrivateNetwork(self, "Network", names=names)

"""What the other stacks of an environment stand on, where it is asked for: a key, and a network without a way out."""

from __future__ import annotations

from aws_cdk import Environment, Stack
from constructs import Construct

from infra.configuration import OWN_KEY, Deployment
from infra.constructs.customer_key import customer_key
from infra.constructs.private_network import PrivateNetwork
from infra.names import Names


class FoundationStack(Stack):
    """`key` with context `kms_key=own`, `network` with `vpc=true`; None without."""

    def __init__(self, scope: Construct, stack_id: str, *, names: Names, env: Environment) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: key and network")
        deployment = names.deployment
        self.key = customer_key(self, "Key", names=names) if deployment.kms_key == OWN_KEY else None
        self.network = PrivateNetwork(self, "Network", names=names) if deployment.vpc else None

    @staticmethod
    def needed(deployment: Deployment) -> bool:
        """A stack without resources can't be deployed."""
        return deployment.vpc or deployment.kms_key == OWN_KEY

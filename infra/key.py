"""The customer's key, where an environment has one of its own."""

from __future__ import annotations

from aws_cdk import Environment, Stack
from constructs import Construct

from infra.constructs.customer_key import customer_key
from infra.names import Names


class KeyStack(Stack):
    """A stack of its own, so that no other resource shares the key's lifetime."""

    def __init__(self, scope: Construct, stack_id: str, *, names: Names, env: Environment) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: key")
        self.key = customer_key(self, "Key", names=names)

"""What happens to state when its stack goes."""

from __future__ import annotations

from aws_cdk import RemovalPolicy


def removal_policy(*, ephemeral: bool) -> RemovalPolicy:
    """State stays when its stack is deleted or replaces it, unless the whole environment is for trying things out."""
    return RemovalPolicy.DESTROY if ephemeral else RemovalPolicy.RETAIN

"""What happens to state when its stack goes."""

from __future__ import annotations

from aws_cdk import RemovalPolicy


def removal_policy(*, ephemeral: bool) -> RemovalPolicy:
    """State stays when its stack is deleted or replaces it, unless the whole environment is for trying things out.

    It goes when the deployment that makes it fails, since its name would be taken for the next one.
    """
    return RemovalPolicy.DESTROY if ephemeral else RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE

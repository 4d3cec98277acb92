"""Removal policy of stateful resources."""

from __future__ import annotations

from aws_cdk import RemovalPolicy


def removal_policy(*, ephemeral: bool) -> RemovalPolicy:
    """State is retained when its stack is deleted or replaces it, unless the whole environment is ephemeral.

    It is deleted when the deployment that creates it fails, since its name would be taken for the next one.
    """
    return RemovalPolicy.DESTROY if ephemeral else RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE

"""Accepted findings of cdk-nag, each with its reason and at its resource."""

from __future__ import annotations

from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accepts a finding of the AwsSolutions pack, such as `S1`, below this construct and nowhere else."""
    finding = f"AwsSolutions::AwsSolutions-{rule}"
    Validations.of(construct).acknowledge(Acknowledgment(id=finding, reason=reason))


def acknowledge_wildcard(construct: IConstruct, resource: str, reason: str) -> None:
    """Accepts this resource with a wildcard in policies below the construct."""
    shown = _as_shown(Stack.of(construct).resolve(resource))
    acknowledge(construct, f"IAM5[Resource::{shown}]", reason)


def _as_shown(value: Any) -> str:
    """A resolved value as findings show it, with `<AWS::Region>` for a reference."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return f"<{value['Ref']}>"
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    separator, parts = value["Fn::Join"]
    return str(separator).join(map(_as_shown, parts))

"""Context as the `cdk` command reads it, for programs that run without that command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.constructs.layer_contents import ROOT

CDK = "aws-cdk@2.1148.1"
"""The package of the `cdk` command that deployments are made with."""

_OPTIONS = ("-c", "--context")


def context_of(arguments: Sequence[str], cdk_json: Path = ROOT / "cdk.json") -> dict[str, Any]:
    """Context of `cdk.json`, overridden by `-c key=value`, `--context key=value` or `--context=key=value`.

    Other arguments are ignored.
    """
    context: dict[str, Any] = dict(json.loads(cdk_json.read_text()).get("context", {})) if cdk_json.exists() else {}
    following = iter(arguments)
    for argument in following:
        option, _, given = argument.partition("=")
        if option in _OPTIONS:
            key, _, value = (given or next(following, "")).partition("=")
            context[key] = value
    return context

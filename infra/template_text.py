"""A template's values as text that people, tests and drawings can read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_FUNCTIONS: dict[str, Callable[[Any], str]] = {
    "Ref": lambda argument: f"<{argument}>",
    "Fn::GetAtt": lambda argument: f"<{'.'.join(argument)}>",
    "Fn::ImportValue": lambda argument: f"<import {argument}>",
    "Fn::Sub": lambda argument: re.sub(r"\$\{(.*?)\}", r"<\1>", argument),
    "Fn::Join": lambda argument: argument[0].join(str(plain(part)) for part in argument[1]),
}


def plain(value: Any) -> Any:
    """A value with intrinsic functions written out: `{"Ref": "X"}` is `<X>`, joined texts are one text."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, argument),) = value.items()
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](argument)
    return {name: plain(item) for name, item in value.items()}


def listed(value: Any) -> list[Any]:
    """CloudFormation takes one value for a list of one."""
    return value if isinstance(value, list) else [value]

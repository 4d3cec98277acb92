"""Adapts a synthesised application to an emulator: templates without the types that it doesn't support.

CloudFormation refuses a template with an unknown type as a whole, so that one such resource would keep all others of its
stack from being tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Assembly:
    """A folder that CDK can deploy. `stacks`: those with anything left, in no order. `left_out`: types by stack."""

    folder: Path
    stacks: tuple[str, ...]
    left_out: Mapping[str, tuple[str, ...]]


def restrict(folder: Path, supported: AbstractSet[str]) -> Assembly:
    """Take out of the templates in the folder what isn't supported, and what refers to it."""
    stacks, left_out = [], {}
    for path in sorted(folder.glob("*.template.json")):
        stack = path.name.removesuffix(".template.json")
        template = json.loads(path.read_text())
        removed = _restrict_template(template, supported)
        if removed:
            left_out[stack] = tuple(sorted(set(removed)))
            path.write_text(json.dumps(template))
        if template["Resources"]:
            stacks.append(stack)
    return Assembly(folder, tuple(stacks), left_out)


def _restrict_template(template: dict[str, Any], supported: AbstractSet[str]) -> list[str]:
    """The types of what was removed, in place."""
    resources = template["Resources"]
    gone = {name for name, r in resources.items() if r["Type"] not in supported or _uses_what_is_missing(r)}
    while True:
        more = {name for name, r in resources.items() if name not in gone and gone & set(_referred(r))}
        if not more:
            break
        gone |= more
    types = [resources.pop(name)["Type"] for name in sorted(gone)]
    for resource in resources.values():
        needed = resource.get("DependsOn", [])
        kept = [name for name in ([needed] if isinstance(needed, str) else needed) if name not in gone]
        resource.pop("DependsOn", None)
        if kept:
            resource["DependsOn"] = kept
    outputs = template.get("Outputs", {})
    for name in [name for name, output in outputs.items() if gone & set(_referred(output))]:
        del outputs[name]
    return types


def _uses_what_is_missing(resource: dict[str, Any]) -> bool:
    """Of a known type, but with properties that are refused: alarms on several metrics."""
    return resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"]


def _referred(value: Any) -> Iterator[str]:
    """The logical ids in a part of a template."""
    if isinstance(value, list):
        for item in value:
            yield from _referred(item)
    elif isinstance(value, dict):
        for name, argument in value.items():
            if name == "Ref":
                yield argument
            elif name == "Fn::GetAtt":
                yield argument.split(".")[0] if isinstance(argument, str) else argument[0]
            elif name == "Fn::Sub":
                text = argument if isinstance(argument, str) else argument[0]
                yield from (part.split("}")[0].split(".")[0] for part in text.split("${")[1:])
            else:
                yield from _referred(argument)

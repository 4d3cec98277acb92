"""Validates request bodies by botocore's model of a service: members, types, bounds, enumerations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ListShape, ServiceModel, StringShape, StructureShape


@cache
def service_model(service: str) -> ServiceModel:
    """The model of a service, as the installed botocore has it."""
    return botocore.session.get_session().get_service_model(service)


def request_problem(service: str, operation: str, body: Mapping[str, Any]) -> str:
    """Returns the first error of a body, "" if it is valid. Members that are sent in the path are not required."""
    shape = service_model(service).operation_model(operation).input_shape
    assert isinstance(shape, StructureShape)
    return next(_problems(shape, body, operation), "")


def answer_problem(service: str, operation: str, body: Mapping[str, Any]) -> str:
    """Returns the first error of an answer: a double should return nothing that the service wouldn't."""
    shape = service_model(service).operation_model(operation).output_shape
    assert isinstance(shape, StructureShape)
    return next(_problems(shape, body, operation), "")


def _problems(shape: Any, value: Any, where: str) -> Iterator[str]:
    if getattr(shape, "is_document_type", False):
        return
    kinds: dict[str, tuple[type, ...]] = {
        "structure": (dict,),
        "list": (list,),
        "map": (dict,),
        "string": (str,),
        "boolean": (bool,),
        "integer": (int,),
        "long": (int,),
        "float": (int, float),
        "double": (int, float),
        "timestamp": (datetime,),
    }
    fits = isinstance(value, kinds[shape.type_name])
    if not fits:
        yield f"{where} is not a {shape.type_name}"
    elif isinstance(shape, StructureShape):
        yield from _problems_of_structure(shape, value, where)
    elif isinstance(shape, ListShape):
        yield from _outside(shape, len(value), where)
        for index, item in enumerate(value):
            yield from _problems(shape.member, item, f"{where}[{index}]")
    elif isinstance(shape, StringShape):
        yield from _outside(shape, len(value), where)
        if shape.enum and value not in shape.enum:
            yield f"{where} must be one of {shape.enum}"
        pattern = str(shape.metadata.get("pattern", ""))
        if pattern and not re.search(f"^(?:{pattern})$", value):
            yield f"{where} does not match {pattern}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _outside(shape, value, where)


def _problems_of_structure(shape: StructureShape, value: Mapping[str, Any], where: str) -> Iterator[str]:
    for name in sorted(value.keys() - shape.members.keys()):
        yield f"{where} has no member {name}"
    for name in shape.required_members:
        if name not in value and "location" not in shape.members[name].serialization:
            yield f"{where} lacks {name}"
    if getattr(shape, "is_tagged_union", False) and len(value) != 1:
        yield f"{where} must have exactly one member"
    for name in value.keys() & shape.members.keys():
        yield from _problems(shape.members[name], value[name], f"{where}.{name}")


def _outside(shape: Any, size: float, where: str) -> Iterator[str]:
    metadata: Mapping[str, Any] = shape.metadata
    low, high = metadata.get("min"), metadata.get("max")
    if (low is not None and size < low) or (high is not None and size > high):
        yield f"{where} must be {low} to {high}, not {size}"

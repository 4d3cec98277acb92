"""Takes a seventh off the time of tests on moto, which looks for each member of an answer under every name it might have, and
for the methods of a service's class at each request."""

from __future__ import annotations

from functools import cache
from typing import Any

from moto.core import responses
from moto.core.serialize import AttributePicker, AttributePickerContext
from moto.core.utils import method_names_from_class

_names: dict[tuple[object, ...], tuple[str, ...]] = {}
_pick = AttributePicker.__call__
_MISSING = object()


def remember_names() -> None:
    """From now on, the names that a member of a plain dictionary might have are found out once and not for each answer, and
    so are the methods of a class."""
    responses.method_names_from_class = cache(method_names_from_class)  # type: ignore[attr-defined]
    AttributePicker.__call__ = _quickly  # type: ignore[method-assign, assignment]


def _quickly(picker: AttributePicker, context: AttributePickerContext) -> Any:
    if type(context.obj) is not dict or picker.response_transformers:
        return _pick(picker, context)
    known = (type(picker), *picker.alias_providers, context.shape, context.key)
    if known not in _names:
        _names[known] = tuple(picker.get_possible_keys(context))
    names = _names[known]
    if any("." in name for name in names):  # a path
        return _pick(picker, context)
    for name in names:
        value = context.obj.get(name, _MISSING)
        if value is not _MISSING:
            return value
    return None

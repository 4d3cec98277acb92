"""Parses YAML into nodes with their lines. The parser is imported when it is needed."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml


class InvalidYamlError(Exception):
    """YAML that is invalid at a `line`, from 1."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


def composed(data: bytes) -> yaml.Node | None:
    """The top node; None for an empty file. Nodes of an alias are the same. Raises `InvalidYamlError`."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is ten times as fast, but not in every build
    try:
        top: yaml.Node | None = yaml.compose(data, Loader=loader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise InvalidYamlError(mark.line + 1 if mark else 1, str(exc.problem or exc.context)) from exc
    except yaml.YAMLError as exc:
        raise InvalidYamlError(1, " ".join(str(exc).split())) from exc
    if top is not None:
        _refuse_cycles(top, {})
    return top


def as_plain(node: yaml.Node) -> Any:
    """The value as strings, numbers, booleans, lists and mappings. Raises `InvalidYamlError`."""
    import yaml

    try:
        return yaml.SafeLoader("").construct_document(deepcopy(node))  # the constructor merges `<<` in place
    except yaml.YAMLError as exc:
        raise InvalidYamlError(node.start_mark.line + 1, " ".join(str(exc).split())) from exc


def _refuse_cycles(node: yaml.Node, is_done: dict[int, bool]) -> None:
    if not isinstance(node.value, list):
        return
    if id(node) in is_done:
        if not is_done[id(node)]:
            raise InvalidYamlError(node.start_mark.line + 1, "an anchor contains itself")
        return
    is_done[id(node)] = False
    for entry in node.value:
        for inner in entry if isinstance(entry, tuple) else (entry,):
            _refuse_cycles(inner, is_done)
    is_done[id(node)] = True

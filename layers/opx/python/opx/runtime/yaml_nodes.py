"""Parses YAML into plain tuples, which can be kept in a file. The parser is imported when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Node = tuple[str, Any, int]
"""Tag, value and line, from 0. The value of a scalar is text, that of a sequence a list of nodes, and that of a mapping a
tuple of pairs of nodes."""

_RECURSIVE = "an anchor contains itself"


class InvalidYamlError(Exception):
    """YAML that is invalid at a `line`, from 1."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


def composed(data: bytes) -> Node | None:
    """The top node; None for an empty file. Nodes of an alias are the same. Raises `InvalidYamlError`."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is ten times as fast, but not in every build
    try:
        top = yaml.compose(data, Loader=loader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise InvalidYamlError(mark.line + 1 if mark else 1, str(exc.problem or exc.context)) from exc
    except yaml.YAMLError as exc:
        raise InvalidYamlError(1, " ".join(str(exc).split())) from exc

    def simple(node: Any, convert: Callable[[Any], Any]) -> Node:
        value = node.value
        if isinstance(node, yaml.SequenceNode):
            value = [convert(each) for each in value]
        elif isinstance(node, yaml.MappingNode):
            value = tuple((convert(key), convert(each)) for key, each in value)
        return node.tag, value, node.start_mark.line

    return None if top is None else _converted(top, simple)


def as_plain(node: Node) -> Any:
    """The value as strings, numbers, booleans, lists and mappings. Raises `InvalidYamlError`."""
    import yaml

    def full(node: Node, convert: Callable[[Any], Any]) -> Any:
        tag, value, _ = node
        if isinstance(value, list):
            return yaml.SequenceNode(tag, [convert(each) for each in value])
        if isinstance(value, tuple):
            return yaml.MappingNode(tag, [(convert(key), convert(each)) for key, each in value])
        return yaml.ScalarNode(tag, value)

    try:
        return yaml.SafeLoader("").construct_document(_converted(node, full))
    except yaml.YAMLError as exc:
        raise InvalidYamlError(node[2] + 1, " ".join(str(exc).split())) from exc


def _converted(top: Any, one: Callable[[Any, Callable[[Any], Any]], Any]) -> Any:
    """The tree with each node converted, once also where several aliases have it."""
    done: dict[int, Any] = {}

    def convert(node: Any) -> Any:
        if id(node) not in done:
            done[id(node)] = None
            done[id(node)] = one(node, convert)
        if done[id(node)] is None:
            raise InvalidYamlError(1, _RECURSIVE)
        return done[id(node)]

    return convert(top)

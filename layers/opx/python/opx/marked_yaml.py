"""YAML whose values know the line they stand on, so that every complaint about a file can name it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from opx.errors import KnowledgeConfigError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is ten times as fast, but not in every build
_TEXT = "tag:yaml.org,2002:str"
_NUMBERS = ("tag:yaml.org,2002:float", "tag:yaml.org,2002:int")


@dataclass(frozen=True, slots=True)
class Marked:
    """A value of a YAML file. `path` leads to it from the top (`tiers.internal`).

    Reading it as something that it isn't raises `KnowledgeConfigError` with file and line.
    """

    node: yaml.Node
    file: str
    path: str = ""

    def error(self, problem: str) -> KnowledgeConfigError:
        return KnowledgeConfigError(f"{self.file}:{self.node.start_mark.line + 1}: {problem}")

    def entries(self) -> dict[str, Marked]:
        """The values of a mapping by key, in the order of the file. Refuses a key that is given twice."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"{self.path or 'the file'} must be a mapping (key: value)")
        found: dict[str, Marked] = {}
        for key_node, value_node in self.node.value:
            key = Marked(key_node, self.file, "key").text()
            if key in found:
                raise Marked(key_node, self.file).error(f"duplicate key {key!r}; give it once")
            found[key] = Marked(value_node, self.file, f"{self.path}.{key}".lstrip("."))
        return found

    def fields(self, *, required: Sequence[str] = (), optional: Sequence[str] = ()) -> dict[str, Marked]:
        """Like `entries`, refusing keys that are not listed, and a mapping without a required one."""
        found = self.entries()
        allowed = (*required, *optional)
        for key, value in found.items():
            if key not in allowed:
                raise value.error(f"unknown key {key!r}; allowed: {', '.join(allowed)}")
        for key in required:
            if key not in found:
                raise self.error(f"{self.path or 'the file'} needs the key {key!r}")
        return found

    def text(self) -> str:
        """A non-empty text, stripped."""
        if isinstance(self.node, yaml.ScalarNode) and self.node.tag == _TEXT and self.node.value.strip():
            return str(self.node.value).strip()
        raise self.error(f"{self.path} must be a text; put it in quotes if it looks like something else")

    def number(self) -> float:
        if isinstance(self.node, yaml.ScalarNode) and self.node.tag in _NUMBERS:
            try:
                return float(self.node.value)
            except ValueError:
                pass  # notations that only YAML knows, such as .inf
        raise self.error(f"{self.path} must be a number")

    def plain(self) -> Any:
        """The value as YAML's own types: texts, numbers, flags, lists and mappings."""
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_document(self.node)
        except yaml.YAMLError as exc:
            raise self.error(f"{self.path} can't be read: {' '.join(str(exc).split())}") from exc

    def items(self) -> list[Marked]:
        """The values of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error(f"{self.path} must be a list, such as [a, b]")
        return [Marked(node, self.file, f"{self.path}[{at}]") for at, node in enumerate(self.node.value)]


@lru_cache(maxsize=2)
def _composed(data: bytes) -> yaml.Node | None:
    """One file is asked for each of its sections, and nobody changes what was read."""
    return yaml.compose(data, Loader=_LOADER)


def read_marked(path: Path, file: str) -> Marked:
    """The top value of a YAML file, called `file` in errors. Raises `KnowledgeConfigError` if it is no YAML."""
    try:
        node = _composed(path.read_bytes())
    except OSError as exc:
        raise KnowledgeConfigError(f"{file}: can't be read: {exc.strerror or exc}") from exc
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = mark.line + 1 if mark else 1
        raise KnowledgeConfigError(f"{file}:{line}: not valid YAML: {exc.problem or exc.context}") from exc
    except yaml.YAMLError as exc:
        raise KnowledgeConfigError(f"{file}:1: not valid YAML: {' '.join(str(exc).split())}") from exc
    if node is None:
        raise KnowledgeConfigError(f"{file}:1: the file is empty")
    return Marked(node, file)

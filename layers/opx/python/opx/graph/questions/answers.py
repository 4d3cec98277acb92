"""What the graph answers: things, each with the relations that lead to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opx.domain.graph import Edge, Value
from opx.graph.views import edge_from_json


@dataclass(frozen=True, slots=True)
class Row:
    """A thing that answers. `path` has the relations from what was asked about to it, `at` is when, where the question is
    about that, and `values` are what else decided."""

    key: str
    path: tuple[Edge, ...] = ()
    at: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "path": [edge.to_json() for edge in self.path],
            **({"at": self.at} if self.at else {}),
            **({"values": dict(self.values)} if self.values else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        path = tuple(map(edge_from_json, data["path"]))
        return cls(data["key"], path, data.get("at", ""), dict(data.get("values", {})))


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """The rows in the order of the question. `explanation` says what was looked for and what came of it; `cut` that there
    may be more, as some things have more relations than are followed."""

    question: str
    explanation: str
    rows: tuple[Row, ...] = ()
    cut: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "explanation": self.explanation,
            "rows": [row.to_json() for row in self.rows],
            "cut": self.cut,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GraphAnswer:
        rows = tuple(map(Row.from_json, data["rows"]))
        return cls(data["question"], data["explanation"], rows, bool(data["cut"]))


def counted(count: int, one: str, several: str = "") -> str:
    """`no change`, `1 change`, `2 changes`."""
    return f"{count or 'no'} {one if count <= 1 else several or one + 's'}"


def name_of(key: str) -> str:
    """A reference as people say it: a service by its name, anything else with what it is, codes in capitals."""
    kind, _, value = key.partition(":")
    if kind == "cve":
        return f"CVE-{value.removeprefix('cve-')}"
    if kind in _CODES:
        return value.upper()
    return value if kind in _PLAIN else f"{kind.replace('_', ' ')} {value}"


_CODES = ("jira", "technique", "mitigation")
_PLAIN = ("service", "user", "email", "file")

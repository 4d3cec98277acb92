"""What the graph answers: things, each with the relations that lead to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, field

from opx.domain.graph import MAX_FAN_OUT, MAX_NODES, Direction, Edge, Properties, Subgraph, Walk, shown
from opx.domain.record import Record, always, replace
from opx.graph.traversal import Traversal
from opx.graph.views import Passage, Passages

if TYPE_CHECKING:
    from opx.graph.knowledge_graph import KnowledgeGraph


class Row(Record, frozen=True, omit_defaults=True):
    """A thing that answers. `path` has the relations from what was asked about to it, `at` is when, where the question is
    about that, and `values` are what else decided."""

    key: str
    path: tuple[Edge, ...] = always(())
    at: str = ""
    values: Properties = field(default_factory=dict)


class GraphAnswer(Record, frozen=True):
    """The rows in the order of the question, and what proves them. `cut`: some things have more relations than are
    followed."""

    question: str
    explanation: Annotated[str, Meta(description="What was looked for, and what came of it.")]
    rows: tuple[Row, ...] = ()
    cut: Annotated[bool, Meta(description="True if there may be more.")] = False
    passages: Passages = ()

    def with_passages(self, passages: tuple[Passage, ...]) -> GraphAnswer:
        """The answer as it goes out."""
        rows = tuple(replace(row, path=shown(row.path)) for row in self.rows)
        return replace(self, rows=rows, passages=passages)


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


def walked(graph: KnowledgeGraph, starts: Iterable[str], walk: Walk) -> Subgraph:
    """From these references, which are canonical ones. Raises `StoreUnavailableError`."""
    found = list(dict.fromkeys(starts))
    return Traversal(graph.store, graph.reader.visible).walk(found, walk) if found else Subgraph()


def along(hops: int, direction: Direction, *edge_types: str, since: str = "", until: str = "") -> Walk:
    """A walk that leaves out as little as one may."""
    return Walk(hops, direction, edge_types, MAX_FAN_OUT, MAX_NODES, since, until)


def is_a(key: str, *namespaces: str) -> bool:
    return key.partition(":")[0] in namespaces


def paths_of(found: Subgraph) -> dict[str, tuple[Edge, ...]]:
    """By which relations each thing was reached; the starts by none."""
    return {one.key: one.path for one in found.reached}

"""What the graph answers: things, each with the relations that lead to it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from opx.domain.graph import Edge, Properties, shown
from opx.domain.record import Record, always, replace
from opx.graph.views import Passage, Passages


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

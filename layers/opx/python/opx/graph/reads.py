"""What walks, questions and answers read of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from opx.domain.graph import Edge, Node, Walk

Adjacent = tuple[list[Edge], bool]
"""Edges of a node, the newest first, and whether there are more."""


class GraphReads(Protocol):
    """Things and relations as these scopes (their keys) know them; nothing of others is read.

    Of what many documents say, the best 50 statements are read of a node, and of its relations the newest: evidence may
    be more than is shown. All may raise `StoreUnavailableError`.
    """

    def nodes(self, scopes: Sequence[str], keys: Sequence[str], /) -> list[Node]:
        """Those of these nodes that exist, in the order of `keys`."""

    def edges(self, scopes: Sequence[str], key: str, walk: Walk, /) -> Adjacent:
        """The newest edges of a node along `walk`, at most `fan_out`; none if there is no such node."""

    def edges_of(self, scopes: Sequence[str], keys: Sequence[str], walk: Walk, /) -> dict[str, Adjacent]:
        """The same of many nodes; those that don't exist are left out."""

    def between(self, scopes: Sequence[str], one: str, other: str, /) -> list[Edge]:
        """All edges from one node to another, and back, the newest first."""

    def references(self, scopes: Sequence[str], chunks: Sequence[tuple[str, str]], /) -> Mapping[str, tuple[str, ...]]:
        """The nodes that chunks (key id of the document, chunk id) are evidence of, by chunk id; a chunk without any, or
        of another scope, is left out."""

    def existing(self, scopes: Sequence[str], keys: Sequence[str], /) -> Mapping[str, str]:
        """Those of these references that there is a node of, each with the one under which it is kept."""

    def of_type(
        self, scopes: Sequence[str], node_type: str, /, *, begins_with: str = "", limit: int = 1_000
    ) -> list[Node]:
        """Nodes of a type in the order of their references, which begin so: key and type alone."""

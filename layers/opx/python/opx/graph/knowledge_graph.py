"""Queries the graph for one reader: resolves references, shows nodes, and suggests similar names for unknown ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches

from opx.domain.graph import NODE_TYPES, Edge, Node, Route, Subgraph, Walk, node_type
from opx.domain.scopes import Reader
from opx.errors import InvalidInputError, InvalidReferenceError, NodeNotFoundError
from opx.graph.alias_rows import AliasView
from opx.graph.aliases import AliasRegistry
from opx.graph.names import normalised
from opx.graph.traversal import MAX_FOUND, MOST_HOPS, Traversal
from opx.graph.views import GraphReads

NAMESPACES = (
    "service", "host", "alert", "incident", "change", "runbook", "document", "cve", "product", "technique", "mitigation",
    "user", "team", "email", "jira", "confluence", "commit", "branch", "file", "module", "class", "function", "method",
    "alert_event",
)  # fmt: skip
"""Namespaces that are searched for a name without one, the likeliest first."""


class KnowledgeGraph:
    """Nodes and edges for people and agents. References may be aliases, and needn't be normalised.

    Only scopes that `reader` may see are read: nodes of others don't exist for it.
    """

    def __init__(self, store: GraphReads, reader: Reader, aliases: AliasRegistry | None = None) -> None:
        self.store = store
        self.reader = reader
        self.aliases = aliases
        self._walks = Traversal(store, reader.visible)

    def resolve(self, reference: str) -> str:
        """The canonical reference, whether there is such a node or not. A name without a namespace must belong to exactly one
        node: `checkout` is `service:checkout` if no other node has the name. Raises `InvalidReferenceError`, also for a name
        of several nodes, and `NodeNotFoundError` for a name of none."""
        if ":" not in reference:
            return self._only(reference)
        key = normalised(reference)
        view = self._view
        return view.one(key) if view else key

    def called(self, name: str) -> list[str]:
        """The canonical references of all nodes with this name, of any namespace."""
        candidates = [normalised(f"{namespace}:{name}") for namespace in NAMESPACES]
        return list(dict.fromkeys(self.existing(candidates).values()))

    def _only(self, name: str) -> str:
        found = self.called(name)
        if not found:
            raise NodeNotFoundError(
                f"no node has the name {name[:100]!r}; write namespace:value, such as service:checkout"
            )
        if len(found) > 1:
            raise InvalidReferenceError(f"{name[:100]!r} may be {', '.join(found)}: write which one")
        return found[0]

    def show(self, reference: str) -> Node:
        """A node with its properties and evidence. Raises `NodeNotFoundError`, which suggests similar references, and
        `InvalidReferenceError`."""
        key = self.resolve(reference)
        found = self.nodes([key])
        if not found:
            raise self._not_found(key)
        return found[0]

    def key_of(self, reference: str) -> str:
        """The canonical reference of an existing node. Raises as `show`."""
        key = self.resolve(reference)
        if key not in self.existing([key]):
            raise self._not_found(key)
        return key

    def nodes(self, keys: Sequence[str]) -> list[Node]:
        """As `GraphReads.nodes`."""
        return self.store.nodes(self.reader.visible, keys)

    def existing(self, keys: Sequence[str]) -> Mapping[str, str]:
        """As `GraphReads.existing`."""
        return self.store.existing(self.reader.visible, keys)

    def other_names(self, key: str) -> tuple[str, ...]:
        """The other references of the node with this canonical reference, sorted."""
        return self.aliases.aliases_of(self.reader.visible, key) if self.aliases else ()

    def neighbours(self, reference: str, walk: Walk | None = None) -> Subgraph:
        """Nodes and edges around a node, with the edges that contradict each other. Raises as `show`, and
        `InvalidInputError` for invalid times."""
        key = self.resolve(reference)
        found = self._walks.walk([key], walk or Walk())
        if not found.reached:
            raise self._not_found(key)
        return found

    def path(self, source: str, target: str, walk: Walk | None = None, *, most_hops: int = MOST_HOPS) -> Route:
        """The shortest path between two nodes. Raises as `show` for either."""
        ends = [self.resolve(source), self.resolve(target)]
        known = self.existing(ends)
        for key in ends:
            if key not in known:
                raise self._not_found(key)
        return self._walks.path(*ends, walk=walk, most_hops=most_hops)

    def between(self, one: str, other: str) -> list[Edge]:
        """All edges between two nodes, the newest first."""
        return self.store.between(self.reader.visible, self.resolve(one), self.resolve(other))

    def find(self, text: str, type: str = "", limit: int = 20) -> list[Node]:  # noqa: A002 - as callers name it
        """Nodes whose reference begins with the text, `service:che` or just `che`; with `type`, only nodes of this type. Keys
        and types alone. Raises `InvalidInputError` for a limit that isn't 1 to 200."""
        if not 1 <= limit <= MAX_FOUND:
            raise InvalidInputError(f"limit must be 1 to {MAX_FOUND}, not {limit}")
        beginning = " ".join(text.split()).casefold()
        namespace, colon, value = beginning.partition(":")
        if not colon:
            value = beginning
            namespaces: Sequence[str] = namespaces_of(type) if type else NAMESPACES
        else:
            namespaces = [namespace]
        found: list[Node] = []
        for name in namespaces:
            kind = node_type(name)
            if not type or kind == type:
                found.extend(self.of_type(kind, begins_with=f"{name}:{value}", limit=limit - len(found)))
            if len(found) >= limit:
                break
        return found

    def of_type(self, node_type: str, *, begins_with: str = "", limit: int = 1_000) -> list[Node]:
        """As `GraphReads.of_type`."""
        return self.store.of_type(self.reader.visible, node_type, begins_with=begins_with, limit=limit)

    def related_to_chunks(self, chunks: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
        """The nodes that chunks (key id of the document, chunk id) are evidence of, by chunk id."""
        return dict(self.store.references(self.reader.visible, chunks))

    @property
    def _view(self) -> AliasView | None:
        return self.aliases.view(self.reader.visible) if self.aliases else None

    def _not_found(self, key: str) -> NodeNotFoundError:
        namespace = key.partition(":")[0]

        def alike(kind: str, beginning: str, limit: int) -> list[str]:
            return [node.key for node in self.of_type(kind, begins_with=f"{namespace}:{beginning}", limit=limit)]

        return NodeNotFoundError(unknown(key, near(alike, key, node_type(key))))


def namespaces_of(type_name: str) -> list[str]:
    """The namespaces of nodes of this type."""
    return [name for name, kind in NODE_TYPES.items() if kind == type_name] or [type_name]


# -- similar references

NAMED = 3
CONSIDERED = 200
_ALIKE = 0.6

OfType = Callable[[str, str, int], Iterable[str]]
"""Returns references that the reader may see, by type, beginning of the value, and limit."""


def near(of_type: OfType, key: str, node_type: str) -> tuple[str, ...]:
    """Up to three similar references of the same type, the most similar first. Compares references with the same beginning,
    and only if none is similar, all others."""
    value = key.partition(":")[2]
    for beginning in dict.fromkeys((value[:2], value[:1], "")):
        by_value = {one.partition(":")[2]: one for one in of_type(node_type, beginning, CONSIDERED)}
        found = get_close_matches(value, by_value, n=NAMED, cutoff=_ALIKE)
        if found:
            return tuple(by_value[one] for one in found)
    return ()


def unknown(key: str, alike: tuple[str, ...]) -> str:
    """The message for an unknown reference: `nothing here is about service:chekout; did you mean service:checkout?`"""
    if not alike:
        return f"nothing here is about {key}"
    names = " or ".join(filter(None, (", ".join(alike[:-1]), alike[-1])))
    return f"nothing here is about {key}; did you mean {names}?"

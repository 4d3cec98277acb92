"""Things and relations of a deployed system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from opx.adapters.remote.http import ApiClient
from opx.domain.graph import Node, Walk
from opx.errors import DocumentNotFoundError, MergeNotFoundError, NodeNotFoundError
from opx.graph import views

if TYPE_CHECKING:
    from opx.domain.aliases import Alias, Merge
    from opx.graph.coverage import GraphCoverage
    from opx.graph.questions.answers import GraphAnswer

T = TypeVar("T")
Query = dict[str, Any]


class RemoteGraph:
    """The part of a remote knowledge base that is about things and relations."""

    _api: ApiClient

    if TYPE_CHECKING:

        def _read(self, read: Callable[[Any], T], data: Any) -> T: ...

    def graph_node(self, reference: str, *, limit: int = 100) -> views.NodeView:
        return self._ask("nodes", {"ref": reference, "limit": limit}, views.NodeView.from_json)

    def graph_neighbours(self, reference: str, walk: Walk) -> views.Neighbourhood:
        query = {"ref": reference, "hops": walk.hops, "limit": walk.most_nodes - 1, **_bounds(walk)}
        return self._ask("neighbours", query, views.Neighbourhood.from_json)

    def graph_path(self, source: str, target: str, walk: Walk) -> views.Connection:
        return self._ask("path", {"from": source, "to": target, **_bounds(walk)}, views.Connection.from_json)

    def graph_find(self, text: str, *, node_type: str = "", limit: int = 20) -> Sequence[Node]:
        query = {"q": text, "limit": limit, **({"type": node_type} if node_type else {})}
        return self._ask("find", query, lambda data: views.NodesFound.from_json(data).nodes)

    def graph_changes(self, reference: str, *, upstream: bool = True, since: str = "", until: str = "") -> GraphAnswer:
        from opx.graph.questions.answers import GraphAnswer

        side = "upstream" if upstream else "downstream"
        times = {name: time for name, time in (("since", since), ("until", until)) if time}
        return self._ask("changes", {"ref": reference, "side": side, **times}, GraphAnswer.from_json)

    def graph_affected(self, cve: str, *, runbooks: bool = False) -> GraphAnswer:
        from opx.graph.questions.answers import GraphAnswer

        query = {"cve": cve, "runbooks": "true" if runbooks else "false"}
        return self._ask("affected", query, GraphAnswer.from_json)

    def graph_coverage(self, *, since: str = "", limit: int = 1000) -> GraphCoverage:
        from opx.graph.coverage import GraphCoverage

        query: Query = {"limit": limit, **({"since": since} if since else {})}
        return self._ask("coverage", query, GraphCoverage.from_json)

    def aliases(self, *, limit: int = 1000) -> Sequence[Alias]:
        from opx.domain.aliases import Alias

        return self._ask("aliases", {"limit": limit}, lambda data: list(map(Alias.from_json, data["aliases"])))

    def merges(self) -> Sequence[Merge]:
        from opx.domain.aliases import Merge

        return self._ask("merges", {}, lambda data: list(map(Merge.from_json, data["merges"])))

    def add_alias(self, alias: str, canonical: str) -> Alias:
        from opx.domain.aliases import Alias

        body = {"alias": alias, "canonical": canonical}
        return self._read(Alias.from_json, self._api.call("POST", "graph", "aliases", body=body))

    def remove_alias(self, alias: str) -> bool:
        found = self._api.call("DELETE", "graph", "aliases", query={"alias": alias})
        return self._read(lambda data: bool(data["removed"]), found)

    def merge_things(self, source: str, into: str) -> Merge:
        from opx.domain.aliases import Merge

        body = {"from": source, "into": into}
        return self._read(Merge.from_json, self._api.call("POST", "graph", "merges", body=body))

    def undo_merge(self, merge_id: str) -> Merge:
        from opx.domain.aliases import Merge

        try:
            found = self._api.call("DELETE", "graph", "merges", merge_id)
        except DocumentNotFoundError as exc:
            raise MergeNotFoundError(str(exc)) from None
        return self._read(Merge.from_json, found)

    def _ask(self, what: str, query: Query, read: Callable[[Any], T]) -> T:
        with _unknown_things():
            found = self._api.call("GET", "graph", what, query=query)
        return self._read(read, found)


@contextmanager
def _unknown_things() -> Iterator[None]:
    """The API has one code for whatever isn't there."""
    try:
        yield
    except DocumentNotFoundError as exc:
        raise NodeNotFoundError(str(exc)) from None


def _bounds(walk: Walk) -> Query:
    given = {"direction": walk.direction.value, "since": walk.since, "until": walk.until, "type": list(walk.edge_types)}
    return {name: value for name, value in given.items() if value}

"""The operations on things and relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opx.api.calls import Call
from opx.api.fields import Json
from opx.api.graph_routes import SIDES
from opx.domain.graph import Node, Walk
from opx.graph.asked import since_when, until_when, walk_of
from opx.ports import Clock

if TYPE_CHECKING:
    from opx.local_knowledge_base import LocalKnowledgeBase


class GraphReading:
    """A method a route of `graph_routes` that reads."""

    _base: LocalKnowledgeBase
    _clock: Clock

    def graph_node(self, call: Call) -> Json:
        return self._base.graph_node(call.query["ref"], limit=call.query["limit"]).to_json()

    def graph_neighbours(self, call: Call) -> Json:
        asked = call.query
        return self._base.graph_neighbours(asked["ref"], self._walk(asked)).to_json()

    def graph_path(self, call: Call) -> Json:
        return self._base.graph_path(call.query["from"], call.query["to"], self._walk(call.query)).to_json()

    def graph_find(self, call: Call) -> Json:
        asked = call.query
        found = self._base.graph_find(asked["q"], node_type=asked.get("type", ""), limit=asked["limit"])
        return {"nodes": [Node.to_json(node) for node in found]}

    def graph_changes(self, call: Call) -> Json:
        asked, now = call.query, self._clock()
        return self._base.graph_changes(
            asked["ref"],
            upstream=asked["side"] == SIDES[0],
            since=since_when(asked.get("since", ""), now),
            until=until_when(asked.get("until", ""), now),
        ).to_json()

    def graph_affected(self, call: Call) -> Json:
        return self._base.graph_affected(call.query["cve"], runbooks=call.query["runbooks"]).to_json()

    def graph_coverage(self, call: Call) -> Json:
        asked = call.query
        when = since_when(asked.get("since", ""), self._clock())
        return self._base.graph_coverage(since=when, limit=asked["limit"]).to_json()

    def aliases(self, call: Call) -> Json:
        return {"aliases": [alias.to_json() for alias in self._base.aliases(limit=call.query["limit"])]}

    def merges(self, call: Call) -> Json:  # noqa: ARG002 - as all operations
        return {"merges": [merge.to_json() for merge in self._base.merges()]}

    def _walk(self, asked: Json) -> Walk:
        names = ("hops", "direction", "since", "until", "limit")
        given = {name: asked[name] for name in names if name in asked}
        return walk_of(now=self._clock(), edge_types=asked.get("type", ()), **given)


class GraphWriting:
    """A method a route of `graph_routes` that writes, to the caller's own scope alone."""

    _base: LocalKnowledgeBase

    def add_alias(self, call: Call) -> Json:
        return self._base.add_alias(call.body["alias"], call.body["canonical"]).to_json()

    def remove_alias(self, call: Call) -> Json:
        return {"removed": self._base.remove_alias(call.query["alias"])}

    def merge_things(self, call: Call) -> Json:
        return self._base.merge_things(call.body["from"], call.body["into"]).to_json()

    def undo_merge(self, call: Call) -> Json:
        return self._base.undo_merge(call.path["mergeId"]).to_json()

"""Schema of the graph's table: converts statements to rows, and rows to nodes and edges.

A partition is a node within one scope; its key is `<scope>|<reference>`. It has

- `node`: the head of the node, by which the nodes of a type are listed. It is deleted with the last statement;
- `node#<rank>#<key id>#<hash>`: the statement of one document about the node. Ranks sort ascending by standing (the
  document is about the node, or declares it), trust and time, so that the best statements are read without all others;
- `edge#<other end>#<type>#<key id>#<hash>`: the statement of one document about an edge that begins at the node. Two
  indexes list these by either end, type and time.

The hash is that of the references as the document states them: two that are merged stay two rows. A row's key depends on
the statement and the canonical references alone. The partitions `refs#<key id>` are described in `opx.graph.manifest`, and
`relink#` in `opx.graph.relink_queue`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from opx.domain.graph import Edge, EdgeStatement, GraphEvidence, Node, NodeStatement, Origin, Value
from opx.domain.ids import first_day, stable_hash
from opx.errors import InvalidInputError
from opx.graph.versions import several
from opx.ports import Item

HEAD = "node"
NODE = "node#"
EDGE = "edge#"
MAX_KEY_BYTES = 512
MAX_EDGE_TYPE_BYTES = 64
MAX_PROPERTIES = 50
MAX_VALUE = 2_000
"""Characters of a property that are kept; longer strings belong into the passages."""

_HASH = 16
Names = Mapping[str, str]
"""Canonical references by stated reference, where the two differ."""


class NodeMark(NamedTuple):
    """Identifies a document's row about a node."""

    key: str
    rank: str


class EdgeMark(NamedTuple):
    """Identifies a document's row about an edge."""

    source: str
    edge_type: str
    target: str


Mark = NodeMark | EdgeMark
Statement = NodeStatement | EdgeStatement


def partition_key(scope_key: str, key: str) -> str:
    return f"{scope_key}|{key}"


def ends(mark: Mark) -> tuple[str, ...]:
    """The references that the mark states: one of a node, two of an edge."""
    return (mark.key,) if isinstance(mark, NodeMark) else (mark.source, mark.target)


def mark_of(statement: Statement, origin: Origin, at: str, own: str = "") -> Mark:
    """The mark of a statement by a document that is about `own`. Raises `InvalidInputError` for an invalid reference or
    edge type."""
    if isinstance(statement, NodeStatement):
        check_key(statement.key)
        trust = round(min(max(origin.trust, 0.0), 1.0) * 100)
        standing = statement.declared + (statement.key == own)
        return NodeMark(statement.key, f"{standing:d}#{trust:03d}#{at}")
    check_key(statement.source)
    check_key(statement.target)
    _check_edge_type(statement.edge_type)
    return EdgeMark(*statement.name)


def row_key(mark: Mark, key_id: str, scope_key: str, names: Names) -> dict[str, str]:
    """Keys of the row in the table and its indexes."""
    stated = stable_hash(*ends(mark))[:_HASH]
    canonical = [names.get(key, key) for key in ends(mark)]
    if isinstance(mark, NodeMark):
        return {"place": partition_key(scope_key, canonical[0]), "entry": f"{NODE}{mark.rank}#{key_id}#{stated}"}
    source, target = canonical
    return {
        "place": partition_key(scope_key, source),
        "entry": f"{EDGE}{target}#{mark.edge_type}#{key_id}#{stated}",
        "outPlace": partition_key(scope_key, source),
        "inPlace": partition_key(scope_key, target),
    }


def row(statement: Statement, mark: Mark, origin: Origin, at: str, names: Names) -> Item:
    """The statement as an item of the table. `at` is the time for which it holds."""
    common: Item = {
        **row_key(mark, origin.key_id, origin.scope.key, names),
        "scope": origin.scope.key,
        "keyId": origin.key_id,
        "documentId": origin.document_id,
        "chunkIds": list(statement.chunk_ids),
        "tier": origin.tier.value,
        "trust": float(origin.trust),
        "at": at,
        "stated": list(ends(mark)),
        "properties": _kept(statement.properties),
    }
    canonical = [names.get(key, key) for key in ends(mark)]
    if isinstance(statement, NodeStatement):
        return {**common, **_of_node(canonical[0], statement, origin.scope.key)}
    return {
        **common,
        "from": canonical[0],
        "to": canonical[1],
        "edgeType": statement.edge_type,
        "typeAt": type_at(statement.edge_type, at),
        "rule": statement.rule,
        "confidence": float(statement.confidence),
    }


def _of_node(key: str, statement: NodeStatement, scope_key: str) -> Item:
    declared = (
        {"typePlace": declared_partition(scope_key, statement.type), "nodeKey": key} if statement.declared else {}
    )
    return {"node": key, "type": statement.type, "declared": statement.declared, **declared}


def declared_partition(scope_key: str, type_name: str) -> str:
    """Partition key in the type index of the nodes of a type that documents declare."""
    return partition_key(scope_key, f"{type_name}|declared")


def head_row(scope_key: str, key: str, node_type: str, token: str) -> Item:
    """The head of a partition. `token` differs with each write."""
    return {
        "place": partition_key(scope_key, key),
        "entry": HEAD,
        "typePlace": partition_key(scope_key, node_type),
        "nodeKey": key,
        "type": node_type,
        "token": token,
    }


def moved(found: Item, names: Names) -> Item:
    """The same statement under the keys that these canonical references give."""
    canonical = [names.get(key, key) for key in found["stated"]]
    new = {**found, **row_key(mark_in(found), str(found["keyId"]), str(found["scope"]), names)}
    if not is_node(found):
        return {**new, "from": canonical[0], "to": canonical[1]}
    listed = {"nodeKey": canonical[0]} if "nodeKey" in found else {}
    return {**new, "node": canonical[0], **listed}


def mark_in(found: Item) -> Mark:
    """The mark of a stored row."""
    stated = found["stated"]
    if is_node(found):
        rank = str(found["entry"]).removeprefix(NODE).rsplit("#", 2)[0]
        return NodeMark(str(stated[0]), rank)
    return EdgeMark(str(stated[0]), str(found["edgeType"]), str(stated[1]))


def is_node(found: Item) -> bool:
    return str(found["entry"]).startswith(NODE)


def key_in_table(found: Mapping[str, Any]) -> dict[str, str]:
    return {"place": str(found["place"]), "entry": str(found["entry"])}


def type_at(edge_type: str, at: str) -> str:
    return f"{edge_type}#{at}"


def evidence_in(found: Item) -> GraphEvidence:
    stated = tuple(found["stated"])
    canonical = (found["node"],) if is_node(found) else (found["from"], found["to"])
    return GraphEvidence.from_json({**found, "stated": stated if stated != canonical else ()})


def check_key(key: str) -> None:
    """Raises `InvalidInputError` unless `key` can be a reference in the graph."""
    namespace, colon, value = key.partition(":")
    if not (namespace and colon and value) or len(key.encode("utf-8", "replace")) > MAX_KEY_BYTES:
        raise InvalidInputError(
            f"{key[:100]!r} is not a reference: write namespace:value, such as service:checkout, in {MAX_KEY_BYTES} bytes"
        )


def _check_edge_type(edge_type: str) -> None:
    if not edge_type or "#" in edge_type or len(edge_type.encode("utf-8", "replace")) > MAX_EDGE_TYPE_BYTES:
        raise InvalidInputError(
            f"{edge_type[:100]!r} is not an edge type: write a word such as depends_on, at most {MAX_EDGE_TYPE_BYTES} bytes"
        )


def _kept(properties: Mapping[str, Value]) -> dict[str, Value]:
    """The properties that fit into a row."""
    found = ((name, _value(value)) for name, value in islice(properties.items(), MAX_PROPERTIES) if name)
    return {name[:100]: value for name, value in found if value is not None}


def _value(value: Value) -> Value | None:
    if isinstance(value, str):
        return value[:MAX_VALUE].encode("utf-8", "replace").decode()
    return value if isinstance(value, bool) or (math.isfinite(value) and abs(value) < 1e30) else None


# -- times

_DAY = re.compile(r"\d{4}(-\d\d(-\d\d)?)?\Z")


def moment(text: str) -> str:
    """An ISO 8601 time in UTC (`2026-11-21T09:00:00Z`; a time without an offset counts as UTC), or the day, month or year
    unchanged; "" for any other string."""
    if _DAY.match(text):
        return text if first_day(text) is not None else ""
    try:
        found = datetime.fromisoformat(text)
        found = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return found.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


# -- nodes and edges from rows

MOST_EVIDENCE = 50


def node_of(key: str, rows: Sequence[Item]) -> Node | None:
    """The node that these rows state, with the best evidence first; None without rows."""
    if not rows:
        return None
    best = sorted(rows, key=lambda row: str(row["entry"]), reverse=True)[:MOST_EVIDENCE]
    return Node(
        key=key,
        type=str(best[0]["type"]),
        properties=of_best(_best_first(best)),
        evidence=tuple(map(evidence_in, best)),
        declared=any(row["declared"] for row in best),
    )


def edges_of(rows: Iterable[Item], most: int = 0) -> list[Edge]:
    """The edges that these rows state, the newest first; with `most`, at most that many."""
    found: dict[tuple[str, str, str], dict[tuple[str, str], Item]] = {}
    for row in rows:
        statements = found.setdefault((row["from"], row["edgeType"], row["to"]), {})
        statements[row["place"], row["entry"]] = (
            row  # read in both directions, an edge from a node to itself comes twice
        )
    last = {name: max(str(row["at"]) for row in statements.values()) for name, statements in found.items()}
    newest = sorted(sorted(found), key=last.__getitem__, reverse=True)
    return [_edge(*name, list(found[name].values())) for name in (newest[:most] if most else newest)]


def _edge(source: str, edge_type: str, target: str, rows: list[Item]) -> Edge:
    rows.sort(key=lambda row: str(row["keyId"]))
    newest = sorted(rows, key=lambda row: str(row["at"]), reverse=True)[:MOST_EVIDENCE]
    properties = of_relation(edge_type, _best_first(newest))
    return Edge(source, edge_type, target, tuple(map(evidence_in, newest)), properties)


def of_relation(edge_type: str, stated: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """The properties of an edge, each from the best statement that has it. Versions of `runs` are joined instead: production
    and staging may have an inventory each."""
    found = of_best(stated)
    if edge_type == "runs" and "version" in found:
        found["version"] = several(*(str(one["version"]) for one in stated if "version" in one))
    return found


def of_best(stated: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """Properties, each with the value of the first statement that has it."""
    found: dict[str, Value] = {}
    for one in stated:
        for name, value in one.items():
            found.setdefault(name, value)
    return found


def _best_first(rows: Sequence[Item]) -> list[Mapping[str, Value]]:
    """Properties of the rows by descending trust, then time."""
    return [row["properties"] for row in sorted(rows, key=lambda row: (row["trust"], str(row["at"])), reverse=True)]

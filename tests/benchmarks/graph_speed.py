"""Speed of the graph: `python -m tests.benchmarks.graph_speed [--nodes 100000 --edges 1000000]`.

Made-up services, hosts and people with edges drawn with a skew (a few have very many), one hub with a tenth of all edges,
and evidence that is a chunk of one of many documents. The rows are those that the store writes, but of a thing one
statement a scope, and no entries of chunks. Then 2-hop walks from 5 seeds, paths and the like are timed on the embedded
store, and counted in calls of DynamoDB on a small copy of it.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.graph import Direction, EdgeStatement, Origin, Statements, Walk
from opx.domain.ids import stable_hash
from opx.domain.knowledge import Tier
from opx.domain.scopes import Scope
from opx.graph.manifest import statements_by_mark
from opx.graph.rows import head_row
from opx.graph.store import GraphStore
from opx.graph.traversal import Traversal
from opx.ports import Item, Table
from opx.ports.tables import GRAPH

TYPES = ("depends_on", "calls", "mentions", "affects", "runs", "hosted_on", "owned_by", "modifies")
NAMESPACES = ("service", "host", "user", "file", "alert")
EDGES_A_DOCUMENT = 20
SCOPES = (Scope(), Scope("acme"), Scope("acme", project_id="shop"))
HUB = "service:hub"


class World:
    """Seeded documents with relations."""

    def __init__(self, nodes: int, edges: int, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._nodes = nodes
        self._edges = edges

    def key(self, number: int) -> str:
        return f"{NAMESPACES[number % len(NAMESPACES)]}:thing-{number:06}"

    def any_key(self) -> str:
        """A few are drawn often: the 10 % most known have about half of all ends."""
        return self.key(int(self._nodes * self._random.random() ** 3))

    def documents(self) -> Iterator[tuple[Origin, Statements]]:
        for number in range(self._edges // EDGES_A_DOCUMENT):
            key = stable_hash("bench", number)
            updated = f"2026-{1 + number % 12:02}-{1 + number % 28:02}T{number % 24:02}:00:00Z"
            origin = Origin(key, key, SCOPES[number % 10 // 8 + number % 2], Tier.INTERNAL, 1.0, updated)
            yield origin, Statements(edges=tuple(self._edge(key, n) for n in range(EDGES_A_DOCUMENT)))

    def _edge(self, document: str, number: int) -> EdgeStatement:
        ends = [self.any_key(), self.any_key() if number else self.key(self._random.randrange(self._nodes))]
        if number % 10 == 9:
            ends[1] = HUB
        return EdgeStatement(ends[0], self._random.choice(TYPES), ends[1], (stable_hash(document, number % 4),))


def rows_of(world: World) -> Iterator[Item]:
    """The heads come at the end."""
    heads: dict[tuple[str, str], str] = {}
    for origin, statements in world.documents():
        for row in statements_by_mark(origin, statements, "").rows({}):
            name = (origin.scope.key, str(row.get("node", "")))
            if name not in heads:
                yield row
            if name[1]:
                heads[name] = row["type"]
    for (scope, key), kind in heads.items():
        yield head_row(scope, key, kind, "0")


def build(table: Table, world: World, unit: Callable[[], AbstractContextManager[Any]] = nullcontext) -> int:
    rows, count = rows_of(world), 0
    while batch := list(islice(rows, 20_000)):
        with unit():
            table.put_many(batch)
        count += len(batch)
    return count


def timed(act: Callable[[], Any], times: int) -> str:
    values = []
    for _ in range(times):
        begin = time.perf_counter()
        act()
        values.append(1000 * (time.perf_counter() - begin))
    return (
        f"p50 {np.percentile(values, 50):8.1f} ms   p95 {np.percentile(values, 95):8.1f} ms   max {max(values):8.1f} ms"
    )


def questions(store: GraphStore, world: World, scopes: Sequence[str]) -> dict[str, Callable[[], Any]]:
    walks = Traversal(store, scopes)
    default, wide = Walk(hops=2), Walk(hops=2, fan_out=20, most_nodes=2_000)
    recent = Walk(hops=2, since="2026-11-01", edge_types=("depends_on", "calls"), direction=Direction.OUT)

    def seeds() -> list[str]:
        return [world.any_key() for _ in range(5)]

    return {
        "2 hops, 5 seeds (at most 500 nodes)": lambda: walks.walk(seeds(), default),
        "2 hops, 5 seeds (at most 2,000, fan-out 20)": lambda: walks.walk(seeds(), wide),
        "2 hops, 4 seeds and the hub": lambda: walks.walk([*seeds()[:4], HUB], default),
        "2 hops out, two types, since a month": lambda: walks.walk(seeds(), recent),
        "1 hop of the hub": lambda: walks.walk([HUB], Walk()),
        "a node": lambda: store.nodes(scopes, [world.any_key()]),
        "the hub as a node": lambda: store.nodes(scopes, [HUB]),
        "path of two": lambda: walks.path(world.any_key(), world.any_key()),
        "path of two, seldom named": lambda: walks.path(world.key(95_000 % world._nodes), world.any_key()),
        "a document written again": lambda: store.write(*next(world.documents())),
    }


def embedded(nodes: int, edges: int, times: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(Path(folder) / "graph.db")
        table, world = SqliteTable(GRAPH, database), World(nodes, edges)
        begin = time.perf_counter()
        count = build(table, world, database.transaction)
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**20
        print(f"{count:,} rows, {size:,.0f} MB, written in {time.perf_counter() - begin:,.0f} s")
        for scopes in (SCOPES[:1], SCOPES):
            print(f"-- a reader of {len(scopes)} scopes")
            store = GraphStore(table, time.time)
            for name, act in questions(store, World(nodes, edges, 11), [scope.key for scope in scopes]).items():
                act()
                print(f"{name:46} {timed(act, times)}")
        print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")
        database.close()


def on_dynamodb(nodes: int, edges: int) -> None:
    """Calls of DynamoDB by name, on the double."""
    import boto3
    from moto import mock_aws

    from opx_aws.table import DynamoTable
    from tests.support.dynamo_tables import create_table

    with mock_aws():
        client: Any = boto3.Session("testing", "testing", region_name="eu-central-1").client("dynamodb")
        create_table(client, GRAPH)
        table, world = DynamoTable(GRAPH, client), World(nodes, edges)
        build(table, world)
        calls: Counter[str] = Counter()
        client.meta.events.register("before-call.dynamodb", lambda model, **_: calls.update([model.name]))
        for scopes in (SCOPES[:1], SCOPES):
            print(f"-- calls of DynamoDB, {nodes:,} nodes, {edges:,} edges, a reader of {len(scopes)} scopes")
            store = GraphStore(table, time.time)
            for name, act in questions(store, World(nodes, edges, 11), [scope.key for scope in scopes]).items():
                calls.clear()
                found = act()
                reached = len(found.reached) if hasattr(found, "reached") else 0
                print(f"{name:46} {sum(calls.values()):5}  {dict(calls)}  {f'{reached} nodes' if reached else ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=60)
    parser.add_argument("--small", type=int, default=2_000, help="edges on the double of DynamoDB; 0 for none")
    given = parser.parse_args()
    if given.edges:
        embedded(given.nodes, given.edges, given.times)
    if given.small:
        on_dynamodb(given.small // 10, given.small)


if __name__ == "__main__":
    main()

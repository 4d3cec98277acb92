"""A small graph without documents: statements are written directly."""

from __future__ import annotations

from collections.abc import Sequence

from opx.domain.graph import EdgeStatement, NodeStatement, Origin, Statements, node_type
from opx.domain.ids import stable_hash
from opx.domain.knowledge import Tier
from opx.domain.scopes import Scope
from opx.operations.system import System

NOW = 1_936_342_800.0
"""2031-05-12T09:00:00Z."""

ACME = Scope("acme")


def an_edge(
    source: str, edge_type: str, target: str, at: str = "2031-05-01", confidence: float = 1.0, **properties: str
) -> EdgeStatement:
    return EdgeStatement(source, edge_type, target, at=at, confidence=confidence, properties=properties)


def write_statements(
    services: System,
    document: str,
    *edges: EdgeStatement,
    nodes: Sequence[str] = (),
    scope: Scope = Scope(),  # noqa: B008 (frozen)
    tier: Tier = Tier.INTERNAL,
    trust: float = 1.0,
) -> None:
    """Write the statements of a document, with its only passage as evidence; `nodes` are those that it declares."""
    proof = (chunk_of(document),)
    services.graph.store.write(
        Origin(stable_hash("key", document), stable_hash("document", document), scope, tier, trust, "2031-05-01"),
        Statements(
            nodes=tuple(NodeStatement(key, node_type(key), chunk_ids=proof, declared=True) for key in nodes),
            edges=tuple(
                EdgeStatement(
                    one.source, one.edge_type, one.target, proof, one.at, "test", one.confidence, one.properties
                )
                for one in edges
            ),
        ),
    )


def chunk_of(document: str) -> str:
    return stable_hash("chunk", document)


def shop(services: System) -> None:
    """A shop: checkout depends on orders and payments, payments on vault; with changes, alerts and products."""
    write_statements(
        services,
        "architecture",
        an_edge("service:checkout", "depends_on", "service:orders"),
        an_edge("service:checkout", "depends_on", "service:payments"),
        an_edge("service:payments", "depends_on", "service:vault"),
        an_edge("service:vault", "depends_on", "service:checkout"),  # a cycle
        an_edge("document:shop", "documents", "service:payments"),
    )
    write_statements(
        services,
        "changes",
        an_edge("change:chg-1", "affects", "service:payments", "2031-05-12T06:00:00Z"),
        an_edge("change:chg-2", "affects", "service:vault", "2031-05-11T10:00:00Z"),
        an_edge("change:chg-3", "affects", "service:vault", "2031-05-01T10:00:00Z"),
        an_edge("change:chg-4", "affects", "service:checkout", "2031-05-12T07:00:00Z"),
        an_edge("commit:9f3c21ab7d01", "modifies", "service:orders", "2031-05-12T08:00:00Z"),
        an_edge("incident:inc-1", "affects", "service:orders", "2031-05-12T08:30:00Z"),
    )
    write_statements(
        services,
        "inventory",
        an_edge("service:orders", "runs", "product:brinedb", version="14.2"),
        an_edge("service:vault", "runs", "product:brinedb", version="13.9"),
        an_edge("service:loyalty", "runs", "product:brinedb"),
        an_edge("alert:backlogagehigh", "fires_on", "service:orders"),
        an_edge("alert:vaultsealed", "fires_on", "service:vault"),
        nodes=["service:orders", "service:vault", "service:payments", "service:checkout"],
    )
    ranges = an_edge("cve:cve-2031-1002", "affects", "product:brinedb", versions=">=14.0 <14.3")
    write_statements(services, "advisory", ranges, tier=Tier.SPECIALIZED, trust=0.95)
    write_statements(
        services,
        "backlog",
        an_edge("runbook:backlog", "documents", "service:orders"),
        an_edge("runbook:backlog", "handles", "alert:backlogagehigh"),
        nodes=["runbook:backlog"],
    )
    write_statements(
        services,
        "seal",
        an_edge("runbook:seal", "documents", "service:vault"),
        an_edge("runbook:seal", "handles", "alert:sealrotten"),
        nodes=["runbook:seal"],
    )
    write_statements(
        services, "howto", an_edge("runbook:howto", "documents", "service:checkout"), nodes=["runbook:howto"]
    )
    firing = [
        an_edge(f"alert_event:{n}", "instance_of", "alert:backlogagehigh", f"2031-05-0{n}T00:00:00Z") for n in (2, 5)
    ]
    write_statements(
        services, "firing", *firing, an_edge("alert_event:9", "instance_of", "alert:vaultsealed", "2031-05-09")
    )

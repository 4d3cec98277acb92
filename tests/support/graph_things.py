"""Builders of statements about made-up services, for tests of the graph's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opx.domain.graph import EdgeStatement, NodeStatement, Origin, Statements
from opx.domain.knowledge import Tier
from opx.domain.scopes import Scope
from opx.ports import Item

GLOBAL = ("global",)
ACME = Scope("acme")


def an_origin(
    key: str = "k1",
    document: str = "d1",
    scope: Scope = Scope(),  # noqa: B008 (frozen)
    *,
    trust: float = 1.0,
    updated: str = "2026-11-01T00:00:00Z",
) -> Origin:
    return Origin(f"{scope.key}/{key}", f"{key}-{document}", scope, Tier.INTERNAL, trust, updated)


def an_edge(
    source: str, edge_type: str, target: str, *chunks: str, at: str = "", properties: Mapping[str, Any] | None = None
) -> EdgeStatement:
    """An edge; ends without a namespace are services."""
    ends = [end if ":" in end else f"service:{end}" for end in (source, target)]
    return EdgeStatement(ends[0], edge_type, ends[1], chunks or ("c1",), at, properties=properties or {})


def a_node(key: str, *chunks: str, declared: bool = False, **properties: Any) -> NodeStatement:
    return NodeStatement(f"service:{key}", "service", properties, chunks or ("c1",), declared)


def stating(*statements: EdgeStatement | NodeStatement) -> Statements:
    return Statements(
        nodes=tuple(one for one in statements if isinstance(one, NodeStatement)),
        edges=tuple(one for one in statements if isinstance(one, EdgeStatement)),
    )


class Renaming:
    """Canonical references that a test sets. Statements may still be filed under earlier ones."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self.names = dict(names or {})
        self._ever: dict[str, dict[str, None]] = {}
        self.stated: list[tuple[str, Any]] = []

    def canonical(self, scope: Scope, keys: Sequence[str]) -> dict[str, str]:
        for key, canonical in self.names.items():
            self._ever.setdefault(key, {key: None})[canonical] = None
        return {key: self.names[key] for key in keys if key in self.names}

    def filed(self, scope: Scope, keys: Sequence[str]) -> dict[str, tuple[str, ...]]:
        self.canonical(scope, keys)
        return {key: tuple(self._ever[key]) for key in keys if key in self._ever}

    def state(self, key_id: str, scope: Scope, aliases: Any) -> None:
        self.stated.append((key_id, tuple(aliases)))

    def note_uses(self, key_id: str, scope: Scope, keys: Sequence[str]) -> None:
        pass


def settled(rows: Sequence[Item]) -> list[Item]:
    """Rows in a stable order, without the tokens that differ with each write."""
    plain = [{name: value for name, value in row.items() if name not in ("token", "moved")} for row in rows]
    return sorted(plain, key=lambda row: (row["place"], row["entry"]))

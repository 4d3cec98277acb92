"""Scopes and names of aliases, and their table with its reads counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opx.adapters.embedded.table import SqliteTable
from opx.domain.scopes import Scope
from opx.ports import Condition, Item

ALL, ACME = Scope(), Scope("acme")
GROUP, SHOP, BLOG = Scope("acme", group_id="web"), Scope("acme", project_id="shop"), Scope("acme", project_id="blog")
OTHER = Scope("other")
READER = [one.key for one in (ALL, ACME, GROUP, SHOP)]

CHECKOUT, SHORT, OLD = "service:checkout", "service:co", "service:checkout-old"


class CountedTable(SqliteTable):
    """Counts reads, and can fail at the n-th write."""

    reads = 0
    writes_left = 10**9

    def get_many(self, keys: Sequence[Mapping[str, Any]]) -> list[Item]:
        self.reads += 1
        return super().get_many(keys)

    def query(self, *arguments: Any, **named: Any) -> Iterator[Item]:
        self.reads += 1
        return super().query(*arguments, **named)

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        self._count()
        super().put(item, condition=condition)

    def delete(self, key: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        self._count()
        super().delete(key, condition=condition)

    def _count(self) -> None:
        if self.writes_left <= 0:
            raise InterruptedError
        self.writes_left -= 1

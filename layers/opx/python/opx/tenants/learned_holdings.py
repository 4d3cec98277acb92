"""What a client's work taught, what came of its documents, when versions of them are due, and holds that were lifted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opx.learning.outcomes.rows import rows_of as outcome_rows
from opx.learning.pattern_rows import rows_of as pattern_rows
from opx.lifecycle.holds import LIFTED
from opx.ports import Item
from opx.tables import CALENDAR, LIFECYCLE, OUTCOMES, PATTERNS, STAGING
from opx.tenants.holdings import Held, Holding, is_of
from opx.tenants.table_holdings import in_table

if TYPE_CHECKING:
    from opx.system import System


def learned_holdings(services: System) -> list[Holding]:
    rows = LearnedRows(services)
    return [
        in_table(services, "captured entries", STAGING, rows.captured),
        in_table(services, "patterns and their occurrences", PATTERNS, rows.patterns),
        in_table(services, "outcomes and warnings", OUTCOMES, rows.outcomes),
        in_table(services, "calendar entries", CALENDAR, rows.calendar),
        in_table(services, "records of lifted holds", LIFECYCLE, rows.lifted_holds),
    ]


class LearnedRows:
    """The items of tables whose partitions name scopes."""

    def __init__(self, services: System) -> None:
        self._services = services

    def captured(self, held: Held) -> Iterator[Item]:
        table = self._services.tables.table(STAGING)
        for scope in held.scopes:
            yield from table.query(scope, index="scope-index")

    def patterns(self, held: Held) -> Iterator[Item]:
        table = self._services.tables.table(PATTERNS)
        for scope in held.scopes:
            yield from pattern_rows(table, scope)

    def outcomes(self, held: Held) -> Iterator[Item]:
        table = self._services.tables.table(OUTCOMES)
        for scope in held.scopes:
            yield from outcome_rows(table, scope)

    def calendar(self, held: Held) -> Iterator[Item]:
        for scope in held.scopes:
            yield from self._services.corpus.calendar.rows_of(scope)

    def lifted_holds(self, held: Held) -> Iterator[Item]:
        """Those on something of the client's own: one that is in force keeps the client from being removed."""
        for item in self._services.tables.table(LIFECYCLE).query(LIFTED):
            if item["within"] and is_of(held.client_id, str(item["within"])):
                yield item

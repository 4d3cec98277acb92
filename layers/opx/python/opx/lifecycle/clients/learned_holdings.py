"""What a client's work taught, what came of its documents, when versions of them are due, and holds that were lifted."""

from __future__ import annotations

from collections.abc import Iterator

from opx.ingestion.corpus.capability import Corpus
from opx.learning.outcome_rows import rows_of as outcome_rows
from opx.learning.pattern_rows import rows_of as pattern_rows
from opx.lifecycle.clients.holdings import Held, Holding, is_of
from opx.lifecycle.clients.table_holdings import in_table
from opx.lifecycle.retention.holds import LIFTED
from opx.ports import Item, Tables
from opx.ports.tables_specs import CALENDAR, LIFECYCLE, OUTCOMES, PATTERNS, STAGING


def learned_holdings(tables: Tables, corpus: Corpus) -> list[Holding]:
    rows = LearnedRows(tables, corpus)
    return [
        in_table(tables, "captured entries", STAGING, rows.captured),
        in_table(tables, "patterns and their occurrences", PATTERNS, rows.patterns),
        in_table(tables, "outcomes and warnings", OUTCOMES, rows.outcomes),
        in_table(tables, "calendar entries", CALENDAR, rows.calendar),
        in_table(tables, "records of lifted holds", LIFECYCLE, rows.lifted_holds),
    ]


class LearnedRows:
    """The items of tables whose partitions name scopes."""

    def __init__(self, tables: Tables, corpus: Corpus) -> None:
        self._tables = tables
        self._corpus = corpus

    def captured(self, held: Held) -> Iterator[Item]:
        table = self._tables.table(STAGING)
        for scope in held.scopes:
            yield from table.query(scope, index="scope-index")

    def patterns(self, held: Held) -> Iterator[Item]:
        table = self._tables.table(PATTERNS)
        for scope in held.scopes:
            yield from pattern_rows(table, scope)

    def outcomes(self, held: Held) -> Iterator[Item]:
        table = self._tables.table(OUTCOMES)
        for scope in held.scopes:
            yield from outcome_rows(table, scope)

    def calendar(self, held: Held) -> Iterator[Item]:
        for scope in held.scopes:
            yield from self._corpus.calendar.rows_of(scope)

    def lifted_holds(self, held: Held) -> Iterator[Item]:
        """Those on something of the client's own: one that is in force keeps the client from being removed."""
        for item in self._tables.table(LIFECYCLE).query(LIFTED):
            if item["within"] and is_of(held.client_id, str(item["within"])):
                yield item

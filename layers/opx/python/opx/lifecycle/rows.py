"""All rows that archives and the removal of clients know: those of the core and those of installed distributions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from opx import plugins
from opx.connectors.rows import ROWS as SOURCE_ROWS
from opx.domain.graph import Merge
from opx.domain.record import from_json as read
from opx.domain.scopes import Scope, scope_of_key
from opx.errors import InvalidInputError, distribution_of
from opx.graph.alias_rows import AliasRow, alias_key, merge_key, statement_key
from opx.ingestion.corpus.clients import CLIENTS, Client, client_key, project_item
from opx.learning.rows import ROWS as LEARNING_ROWS
from opx.lifecycle.retention.holds import HOLDS, LIFTED, Hold
from opx.lifecycle.usage import DayUsage, usage_key
from opx.ports import Item, Table, Tables
from opx.ports.holdings import HeldItems, Holding, in_table, is_of
from opx.ports.rows import RowKind, Rows, by_client, by_scope, require_text, scope_key
from opx.ports.tables import (
    ALIASES,
    ALL_TABLES,
    ANNOUNCEMENTS,
    BASELINES,
    CALENDAR,
    DELIVERIES,
    GAPS,
    LIFECYCLE,
    PROJECTS,
    SOURCES,
    USAGE,
    USES,
    TableSpec,
)
from opx.records.rows import ROWS as RECORD_ROWS

# -- clients and projects


def _client(item: Item) -> Mapping[str, Any]:
    client = read(Client, {**item, "clientId": item["projectId"]})
    if not Scope(client.client_id).client_id:
        raise InvalidInputError("a client without an id")
    return {**client_key(client.client_id), "state": client.state.value}


def _project(item: Item) -> Mapping[str, Any]:
    return project_item(item["clientId"], item["projectId"], item["groupId"])


# -- aliases and merges


def _alias_statement(item: Item) -> Mapping[str, Any]:
    return statement_key(item["area"], item["aliasArea"].removeprefix(f"~document|{item['area']}|"))


def _merge(item: Item) -> Mapping[str, Any]:
    merge = read(Merge, item)
    return merge_key(scope_key(merge.area), merge.merge_id)


def _alias(item: Item) -> Mapping[str, Any]:
    row = read(AliasRow, item)
    found = row.to_item()
    names = ("clientId", "aliasArea", "canonicalKey", "canonicalPlace", "setTo", "revision")
    alias_key(scope_key(row.area), row.alias)
    return {name: found[name] for name in names if name in found}


# -- holds, use, calendar


def _hold(item: Item) -> Mapping[str, Any]:
    hold = read(Hold, item)
    if hold.within:
        scope_of_key(hold.within)
    return {"entry": hold.id if item["subject"] == HOLDS else f"{hold.lifted}#{hold.id}", "within": hold.within}


def _lifted_holds(table: Table, held: HeldItems) -> Iterator[Item]:
    """Records of lifted holds on the client's own documents; a hold in force prevents the removal."""
    return (item for item in table.query(LIFTED) if item["within"] and is_of(held.client_id, str(item["within"])))


def _usage(item: Item) -> Mapping[str, Any]:
    usage = read(DayUsage, item)
    Scope(usage.client_id)
    return usage_key(usage)


def _use(item: Item) -> Mapping[str, Any]:
    return {"scopeKey": scope_key(item["scopeKey"]), "day": require_text(item["day"])}


def _calendar(system: Any) -> Holding:
    rows_of = system.corpus.calendar.rows_of
    return in_table(
        system.tables, "calendar entries", CALENDAR, lambda held: chain.from_iterable(map(rows_of, held.scopes))
    )


CORE = (
    Rows(
        table=PROJECTS,
        kinds=(
            RowKind(lambda item: item["clientId"] == CLIENTS, _client, {"state": str}, times=("since",)),
            RowKind(lambda item: not item["clientId"].startswith("#"), _project, {"groupId": str}),
        ),
    ),
    SOURCE_ROWS,
    *RECORD_ROWS,
    Rows(
        table=ALIASES,
        name="aliases",
        kinds=(
            RowKind(
                lambda item: item["aliasArea"].startswith("~document|"),
                _alias_statement,
                {"area": str, "aliases": list[str]},
            ),
            RowKind(lambda item: item["aliasArea"].startswith("~merge|"), _merge, times=("at", "undoneAt")),
            RowKind(lambda item: not item["aliasArea"].startswith("~"), _alias, times=("lastSeenAt",)),
        ),
        items=by_client,
    ),
    Rows(table=ANNOUNCEMENTS, name="announcements", items=by_client),
    Rows(table=USES, name="uses", kinds=(RowKind(lambda _: True, _use, times=("day",)),), items=by_scope),
    *LEARNING_ROWS,
    Rows(table=CALENDAR, holding=_calendar),
    Rows(
        table=LIFECYCLE,
        name="records of lifted holds",
        kinds=(RowKind(lambda item: item["subject"] in (HOLDS, LIFTED), _hold, times=("since", "lifted")),),
        items=_lifted_holds,
    ),
    Rows(table=USAGE, kinds=(RowKind(lambda _: True, _usage, expires=True, times=("day",)),)),
)


def all_rows() -> tuple[Rows, ...]:
    """Rows of the core, then those of installed distributions. Raises `PluginError` for rows that can't be used."""
    found = (plugins.load(plugins.ROWS, name, Rows) for name in sorted(plugins.names(plugins.ROWS)))
    return (*CORE, *filter(None, found))


def all_tables() -> tuple[TableSpec, ...]:
    """Tables of the core, and those that installed plugins have of their own. Rows that can't be used are logged."""
    known = {spec.name for spec in ALL_TABLES}
    tables = (rows.table for rows in plugins.load_all(plugins.ROWS, Rows).values())
    return (*ALL_TABLES, *{spec.name: spec for spec in tables if spec.name not in known}.values())


def row_holdings(system: Any) -> list[Holding]:
    """Holdings of the rows that clients may have in a `System`."""
    return [holding for rows in all_rows() for holding in rows.holdings(system)]


# -- rows of distributions that aren't installed


class OptionalRows(NamedTuple):
    """Rows of a distribution that may be missing: in this table, in partitions that begin so."""

    name: str
    table: TableSpec
    begins_with: tuple[str, ...]
    of_clients: bool = True

    def has(self, spec: TableSpec, item: Item) -> bool:
        return spec is self.table and str(item[spec.partition]).startswith(self.begins_with)

    @property
    def remedy(self) -> str:
        return f"the distribution for {self.name} isn't installed: `pip install {distribution_of('rows', self.name)}`"


OPTIONAL = (
    OptionalRows("baselines", BASELINES, ("",)),
    OptionalRows("streams", SOURCES, ("#streams",)),
    OptionalRows("webhooks", DELIVERIES, ("document#",)),
    OptionalRows("bulk", LIFECYCLE, ("bulk",)),
    OptionalRows("evaluations", GAPS, ("#evaluation", "#canary "), of_clients=False),
)


def missing_rows() -> tuple[OptionalRows, ...]:
    """Rows of the library's distributions that aren't installed here."""
    installed = plugins.names(plugins.ROWS)
    return tuple(rows for rows in OPTIONAL if rows.name not in installed)


def refuse_missing(tables: Tables) -> None:
    """Raises `InvalidInputError` if there are rows that may be of clients, and their distribution isn't installed."""
    for rows in missing_rows():
        if rows.of_clients and any(rows.has(rows.table, item) for item in tables.every_item(rows.table)):
            raise InvalidInputError(f"there may be {rows.name} of clients, and {rows.remedy}; nothing was changed")

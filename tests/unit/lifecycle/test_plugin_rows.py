"""Rows that distributions state: archives have them, the removal of a client finds them, none is lost without its owner."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from opx import plugins
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError, PluginError
from opx.ingestion.corpus.clients import ClientState
from opx.operations.system import System
from opx.ports.tables import BASELINES, TableSpec
from opx_assurance.capability import assurance
from opx_assurance.consistency.repair import RepairReport
from tests.support.archive_support import (
    an_archive,
    changed_line,
    entries_of,
    put,
    refused,
    resealed,
    services_at,
    write,
)
from tests.support.plugin_folders import on_the_path, uninstalled, write_distribution
from tests.support.whole_archive import a_whole_archive

ENTRY = "tables/example-shifts.jsonl"
SHIFTS = TableSpec(name="example-shifts", partition="clientId", sort="day", archived=True)
SOURCE = """
    from opx.sdk import Record, RowKind, Rows, TableSpec, by_client

    SHIFTS = TableSpec(name="example-shifts", partition="clientId", sort="day", archived=True)

    class Shift(Record, frozen=True):
        client_id: str
        day: str
        on_call: str

    def shift(item):
        Shift.from_json(item)
        return {}

    ROWS = Rows(
        table=SHIFTS, name="shifts", kinds=(RowKind(lambda item: True, shift, times=("day",)),), items=by_client
    )
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "plugin"
    write_distribution(folder, "opx-shifts", "[opx.rows]\nshifts = opx_shifts:ROWS\n", {"opx_shifts": SOURCE})
    return folder


@pytest.fixture
def archive(tmp_path: Path, plugin: Path) -> Path:
    """Of a document of a client, with a row of the plugin."""
    with on_the_path(plugin), services_at(tmp_path / "from") as services:
        put(services, "two", "The egret.", Scope("acme"))
        services.tables.table(SHIFTS).put({"clientId": "acme", "day": "2026-11-29", "onCall": "ann"})
        services.part(assurance).exporter().write(tmp_path / "shifts.opx")
    return tmp_path / "shifts.opx"


def test_rows_of_a_plugin_are_restored_from_an_archive(tmp_path: Path, plugin: Path, archive: Path) -> None:
    with on_the_path(plugin), services_at(tmp_path / "to") as services:
        report = services.part(assurance).importer().run(archive)
        assert report.rows[ENTRY] == 1
        assert [row["onCall"] for row in services.tables.every_item(SHIFTS)] == ["ann"]


def test_an_archive_with_rows_of_a_missing_plugin_is_refused(tmp_path: Path, archive: Path) -> None:
    with services_at(tmp_path / "to") as services:
        assert f"{ENTRY} has rows of a distribution that isn't installed" in refused(services, archive)


def test_a_row_that_the_plugin_would_not_write_is_refused(tmp_path: Path, plugin: Path, archive: Path) -> None:
    entries = entries_of(archive)
    changed = changed_line(entries[ENTRY], lambda row: row.pop("onCall"))
    with on_the_path(plugin), services_at(tmp_path / "to") as services:
        found = refused(services, write(tmp_path / "changed.opx", resealed({**entries, ENTRY: changed})))
    assert f"{ENTRY}, line 1" in found
    assert "onCall" in found


def test_rows_of_a_plugin_are_removed_with_the_client(tmp_path: Path, plugin: Path, archive: Path) -> None:
    with on_the_path(plugin), services_at(tmp_path / "from") as services:
        report = services.tenants.offboarding().remove("acme")
        assert report.left == {}
        assert report.stores["shifts"].removed == 1
        assert list(services.tables.every_item(SHIFTS)) == []


def test_a_repair_keeps_rows_of_a_plugin(tmp_path: Path, plugin: Path, archive: Path) -> None:
    with on_the_path(plugin):
        report = repaired(tmp_path / "from")
        assert (report.rows["example-shifts"], report.lost) == (1, [])
        with services_at(tmp_path / "from") as services:
            assert [row["onCall"] for row in services.tables.table(SHIFTS).query("acme")] == ["ann"]


def test_a_repair_keeps_rows_of_a_plugin_that_was_uninstalled(tmp_path: Path, archive: Path) -> None:
    assert repaired(tmp_path / "from").rows["example-shifts"] == 1
    with services_at(tmp_path / "from") as services:
        assert [row["onCall"] for row in services.tables.table(SHIFTS).query("acme")] == ["ann"]


def test_damaged_rows_of_a_plugin_are_found_and_named(tmp_path: Path, plugin: Path, archive: Path) -> None:
    with on_the_path(plugin):
        report = repaired(tmp_path / "from", table="example-shifts")
    assert report.lost == ["1 rows of example-shifts: acme/2026-11-29"]


def repaired(home: Path, table: str = "opx-knowledge-keys") -> RepairReport:
    """Repairs a home after the rows of a table were altered."""
    with closing(sqlite3.connect(home / "opx.db")) as database, database:
        assert database.execute(f'UPDATE "{table}" SET _item = ?', ("{",)).rowcount
    with services_at(home) as services:
        return services.part(assurance).repair().run()


def test_pruning_purges_expired_rows_of_a_plugin(tmp_path: Path) -> None:
    source = SOURCE.replace("archived=True", 'archived=True, ttl="expiresAt"')
    write_distribution(
        tmp_path / "plugin", "opx-shifts", "[opx.rows]\nshifts = opx_shifts:ROWS\n", {"opx_shifts": source}
    )
    with on_the_path(tmp_path / "plugin"), services_at(tmp_path / "to") as services:
        table = services.tables.table(structs.replace(SHIFTS, ttl="expiresAt"))
        table.put({"clientId": "acme", "day": "2020-01-01", "expiresAt": 1})
        assert services.tables.purge_expired() == 1


def test_a_client_is_not_removed_while_a_plugin_with_rows_is_broken(tmp_path: Path) -> None:
    write_distribution(tmp_path / "plugin", "opx-bad", "[opx.rows]\nbad = opx_bad:ROWS\n", {"opx_bad": "ROWS = 1\n"})
    with on_the_path(tmp_path / "plugin"), services_at(tmp_path / "to") as services:
        put(services, "two", "The egret.", Scope("acme"))
        with pytest.raises(PluginError, match="opx-bad"):
            services.tenants.offboarding().remove("acme")


# -- distributions of the library


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_whole_archive(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[System]:
    with services_at(tmp_path / "empty") as services:
        yield services


@pytest.mark.parametrize(
    ("name", "distribution"),
    [("baselines", "opx-telemetry"), ("streams", "opx-streams"), ("evaluations", "opx-quality")],
)
def test_an_archive_with_rows_of_a_missing_distribution_names_it(
    whole: Path, empty: System, name: str, distribution: str
) -> None:
    with uninstalled(plugins.ROWS, name):
        found = refused(empty, whole)
    assert f"the distribution for {name} isn't installed: `pip install {distribution}`" in found


def test_an_archive_without_rows_of_a_missing_distribution_is_imported(tmp_path: Path, empty: System) -> None:
    archive = an_archive(tmp_path)
    with uninstalled(plugins.ROWS, "streams", "evaluations", "webhooks", "bulk"):
        assert empty.part(assurance).importer().run(archive).rows["tables/opx-knowledge-baselines.jsonl"] > 0


def test_a_client_with_rows_of_a_missing_distribution_is_not_removed(tmp_path: Path) -> None:
    an_archive(tmp_path)
    with services_at(tmp_path / "from") as services:
        with (
            uninstalled(plugins.ROWS, "baselines"),
            pytest.raises(InvalidInputError, match="pip install opx-telemetry"),
        ):
            services.tenants.offboarding().remove("acme")
        client = services.corpus.clients.get("acme")
        assert client is not None
        assert client.state is ClientState.ACTIVE
        assert list(services.tables.every_item(BASELINES))


def test_a_client_is_removed_if_a_missing_distribution_left_no_rows(tmp_path: Path) -> None:
    an_archive(tmp_path)
    with services_at(tmp_path / "from") as services, uninstalled(plugins.ROWS, "streams", "webhooks", "bulk"):
        assert services.tenants.offboarding().remove("acme").left == {}

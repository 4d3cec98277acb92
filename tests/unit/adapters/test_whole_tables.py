"""Operations of one machine on whole tables: purging expired items, and reading all items for a backup."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable, key_names, keys_query
from opx.ports.tables import ALL_TABLES, AUDIT, EMBEDDINGS, TableSpec
from opx_testing.fake_time import FakeTime
from tests.support.archive_support import services_at


def test_expired_items_of_all_tables_are_removed_for_good(tmp_path: Path, time: FakeTime) -> None:
    with services_at(tmp_path, time) as services:
        for key in ("soon", "late"):
            expires = int(time.now) + (10 if key == "soon" else 1000)
            services.tables.table(EMBEDDINGS).put({"cacheKey": key, "expiresAt": expires})
            services.tables.table(AUDIT).put({"receiptId": key, "expiresAt": expires})
        assert services.tables.purge_expired() == 0
        time.sleep(100)
        assert services.tables.purge_expired() == 2
        assert services.tables.purge_expired() == 0
        assert [item["cacheKey"] for item in services.tables.every_item(EMBEDDINGS)] == ["late"]
        assert [item["receiptId"] for item in services.tables.every_item(AUDIT)] == ["late"]


@pytest.mark.parametrize("spec", ALL_TABLES, ids=lambda spec: spec.name)
@pytest.mark.parametrize("count", [1, 3, 100])
def test_items_of_keys_are_looked_up_by_the_primary_key(tmp_path: Path, spec: TableSpec, count: int) -> None:
    database = open_database(tmp_path / "tables.db")
    SqliteTable(spec, database)
    keys = [tuple(f"{name} {number}" for name in key_names(spec)) for number in range(count)]
    statement, parameters = keys_query(spec, keys)
    plan = [row[3] for row in database.connection().execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    database.close()
    looked_up = " AND ".join(f"{name}=?" for name in key_names(spec))
    assert [step.partition("USING INDEX ")[0] for step in plan if step.startswith("SEARCH")] == ["SEARCH items "]
    assert any(step.endswith(f"({looked_up})") for step in plan)

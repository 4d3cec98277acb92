"""Operations of one machine on whole tables: purging expired items, and reading all items for a backup."""

from __future__ import annotations

from pathlib import Path

from opx.ports.tables import AUDIT, EMBEDDINGS
from tests.doubles.fake_time import FakeTime
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

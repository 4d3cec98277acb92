"""Contract suites of ports, connectors and formats: classes of tests, whose fixtures a subclass provides."""

from __future__ import annotations

import pytest

_SUITES = (
    "connector",
    "embedder",
    "format",
    "index_writing",
    "object_store",
    "queue",
    "search_engine",
    "search_index",
    "table",
    "table_conditions",
    "table_page",
    "table_query",
    "table_spread",
)

pytest.register_assert_rewrite(*(f"opx_testing.{suite}" for suite in _SUITES))

"""Operations on baselines of an embedded system."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.requests import RequestError, read_request
from opx.domain.scopes import Identity
from opx.errors import InvalidInputError
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_telemetry import operations as baselines
from opx_telemetry.operations import (
    AddValues,
    GetBaselineStats,
    ListBaselineSeries,
    add_values,
    get_baseline_stats,
    list_baseline_series,
)

NOW = 1_750_000_000.0


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with bootstrap(Settings(home=str(tmp_path)), clock=lambda: NOW) as system:
        yield system


@pytest.fixture
def acme(system: System) -> Context:
    return Context(system, Caller(Identity("acme")))


@pytest.fixture
def other(system: System) -> Context:
    return Context(system, Caller(Identity("other")))


def of_cpu(*values: float, node: str = "web-01") -> AddValues:
    return AddValues(values=tuple({"node": node, "metric": "cpu", "value": value} for value in values))


class TestStats:
    def test_values_are_those_of_the_callers_scope(self, acme: Context, other: Context) -> None:
        assert add_values(acme, of_cpu(1, 2, 3)).to_json() == {"added": 3, "repeated": 0, "refused": []}
        request = GetBaselineStats(node="web-01", metric="cpu")
        assert get_baseline_stats(acme, request).baseline.mean == 2.0
        assert get_baseline_stats(other, request).baseline.count == 0

    def test_json_has_a_verdict_only_where_a_value_was_given(self, acme: Context) -> None:
        add_values(acme, of_cpu(*range(40)))
        plain = get_baseline_stats(acme, GetBaselineStats(node="web-01", metric="cpu")).to_json()
        assert set(plain) == {"baseline"}
        assert plain["baseline"]["byHour"][0] == {
            **{name: plain["baseline"][name] for name in ("count", "mean", "stddev", "minimum", "maximum")},
            **{name: plain["baseline"][name] for name in ("p01", "p10", "p50", "p90", "p95", "p99")},
            "hour": 15,
        }
        judged = get_baseline_stats(acme, GetBaselineStats(node="web-01", metric="cpu", value=1e6, hour=15)).to_json()
        assert judged["verdict"]["anomalous"]
        assert "of 15:00 to 16:00 UTC" in judged["verdict"]["reason"]

    def test_hour_alone_is_refused(self, acme: Context) -> None:
        with pytest.raises(RequestError, match="hour goes with value only"):
            get_baseline_stats(acme, GetBaselineStats(node="web-01", metric="cpu", hour=3))

    @pytest.mark.parametrize("window", ["", "soon", "91d", "0h"])
    def test_window_that_can_not_be_is_refused(self, acme: Context, window: str) -> None:
        with pytest.raises(InvalidInputError, match="1h to 90d"):
            get_baseline_stats(acme, GetBaselineStats(node="web-01", metric="cpu", time_window=window))


class TestSeries:
    def test_pages_follow_each_other(self, acme: Context, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(baselines, "SERIES_A_PAGE", 2)
        for node in ("c", "a", "b"):
            add_values(acme, of_cpu(1, node=node))
        first = list_baseline_series(acme, ListBaselineSeries())
        assert [one.node for one in first.series] == ["a", "b"]
        second = list_baseline_series(acme, ListBaselineSeries(after=first.next))
        assert ([one.node for one in second.series], second.next) == (["c"], "")
        assert set(second.to_json()) == {"series"}

    def test_malformed_page_token_is_refused(self, acme: Context) -> None:
        with pytest.raises(InvalidInputError, match="not a page token"):
            list_baseline_series(acme, ListBaselineSeries(after="x"))


class TestAdding:
    def test_same_batch_again_is_counted_once(self, acme: Context) -> None:
        values = ({"node": "n", "metric": "m", "value": 1, "at": NOW},)
        assert add_values(acme, AddValues(values=values, batch_id="b")).added == 1
        assert add_values(acme, AddValues(values=values, batch_id="b")).to_json() == {
            "added": 0,
            "repeated": 1,
            "refused": [],
        }

    def test_wrong_value_keeps_no_other_back(self, acme: Context) -> None:
        found = add_values(acme, AddValues(values=({"node": "n"}, {"node": "n", "metric": "m", "value": 2})))
        assert (found.added, [one.index for one in found.refused]) == (1, [0])
        assert "metric is missing" in found.refused[0].reason

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([], "values must be a list that is not empty"),
            ([1], "values must be an object"),
            ([{}] * 1001, "values may have at most 1000 entries, not 1,001"),
            ([{"node": json.loads("[" * 200 + "]" * 200)}], "at most 32 objects and lists within each other"),
            ([{"node": "\ud800"}], "not valid Unicode"),
        ],
    )
    def test_request_that_can_not_be_is_refused(self, values: list[Any], message: str) -> None:
        with pytest.raises(RequestError, match=message):
            read_request(AddValues, {"values": values})

"""Baselines of a deployed system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from opx.adapters.remote.http import ApiClient
from opx.domain.baselines import AddedValues, BaselineStats, SeriesView

T = TypeVar("T")


class RemoteBaselines:
    """The part of a remote knowledge base that is about baselines."""

    _api: ApiClient

    if TYPE_CHECKING:

        def _read(self, read: Callable[[Any], T], data: Any) -> T: ...

    def baseline(self, node: str, metric: str, time_window: str = "7d") -> BaselineStats:
        query = {"node": node, "metric": metric, "timeWindow": time_window}
        found = self._api.call("GET", "baselines", query=query)
        return self._read(lambda data: BaselineStats.from_json(data["baseline"]), found)

    def baseline_series(self) -> Sequence[SeriesView]:
        series: list[SeriesView] = []
        after = ""
        while True:
            found = self._api.call("GET", "baselines", "series", query={"after": after} if after else None)
            series += self._read(lambda data: list(map(SeriesView.from_json, data["series"])), found)
            after = found.get("next", "")
            if not after:
                return series

    def add_values(self, values: Sequence[Mapping[str, Any]], *, batch_id: str = "") -> AddedValues:
        body = {"values": [dict(value) for value in values], **({"batchId": batch_id} if batch_id else {})}
        return self._read(AddedValues.from_json, self._api.call("POST", "baselines", body=body))

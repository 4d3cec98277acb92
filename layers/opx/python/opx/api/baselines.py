"""The operations on baselines."""

from __future__ import annotations

from itertools import dropwhile
from typing import TYPE_CHECKING

from opx.api.calls import Call
from opx.api.fields import Json
from opx.api.pages import taken
from opx.domain.baselines import SeriesView
from opx.operations.requests import RequestError
from opx.paging import read_token, token

if TYPE_CHECKING:
    from opx.local_knowledge_base import LocalKnowledgeBase

SERIES_A_PAGE = 5000


class BaselineReading:
    """A method a route of `baseline_routes` that reads."""

    _base: LocalKnowledgeBase

    def baseline(self, call: Call) -> Json:
        asked = call.query
        if "hour" in asked and "value" not in asked:
            raise RequestError("hour goes with value only")
        stats = self._base.baseline(asked["node"], asked["metric"], asked["timeWindow"])
        verdict = {"verdict": stats.judge(asked["value"], asked.get("hour")).to_json()} if "value" in asked else {}
        return {"baseline": stats.to_json(), **verdict}

    def baseline_series(self, call: Call) -> Json:
        after = read_token(call.query.get("after", ""), 2)
        behind = dropwhile(lambda one: _name(one) <= after, self._base.baseline_series())
        found, more = taken(behind, SeriesView.to_json, SERIES_A_PAGE)
        last = (found[-1]["node"], found[-1]["metric"]) if more else ()
        return {"series": found, **({"next": token(*last)} if more else {})}


class BaselineWriting:
    """A method a route of `baseline_routes` that writes."""

    _base: LocalKnowledgeBase

    def add_values(self, call: Call) -> Json:
        values, batch_id = call.body["values"], call.body.get("batchId", "")
        return self._base.add_values(values, batch_id=batch_id).to_json()


def _name(series: SeriesView) -> tuple[str, ...]:
    return series.node, series.metric

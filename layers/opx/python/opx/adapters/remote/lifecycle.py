"""Holds, reviews and what was pruned, of a deployed system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from opx.adapters.remote.http import ApiClient

if TYPE_CHECKING:
    from opx.lifecycle.holds import Hold
    from opx.lifecycle.reviews import ReviewReport

T = TypeVar("T")


class RemoteLifecycle:
    """The part of a remote knowledge base that is about retention."""

    _api: ApiClient

    if TYPE_CHECKING:

        def _read(self, read: Callable[[Any], T], data: Any) -> T: ...

    def reviews(self, *, days: int = 30, owner: str = "", limit: int = 500) -> ReviewReport:
        from opx.lifecycle.reviews import ReviewReport

        query: dict[str, str | int] = {"days": days, "limit": limit}
        if owner:
            query["owner"] = owner
        return self._read(ReviewReport.from_json, self._api.call("GET", "reviews", query=query))

    def holds(self, *, lifted: bool = False) -> Sequence[Hold]:
        from opx.lifecycle.holds import Hold

        found = self._api.call("GET", "holds", query={"lifted": "true"} if lifted else None)
        return self._read(lambda data: list(map(Hold.from_json, data["holds"])), found)

    def add_hold(
        self, reason: str, *, document: str = "", category: str = "", within: str = "", everything: bool = False
    ) -> Hold:
        from opx.lifecycle.holds import Hold

        given = {"document": document, "category": category, "within": within, "everything": everything}
        body = {"reason": reason, **{name: value for name, value in given.items() if value}}
        return self._read(Hold.from_json, self._api.call("POST", "holds", body=body))

    def lift_hold(self, hold_id: str) -> Hold:
        from opx.lifecycle.holds import Hold

        return self._read(Hold.from_json, self._api.call("DELETE", "holds", hold_id))

    def prune_reports(self, *, limit: int = 30) -> Sequence[Mapping[str, Any]]:
        found = self._api.call("GET", "prunings", query={"limit": limit})
        return self._read(lambda data: [dict(one) for one in data["prunings"]], found)

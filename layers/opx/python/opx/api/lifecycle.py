"""The operations about retention."""

from __future__ import annotations

from opx.api.calls import Call
from opx.api.fields import Json
from opx.api.http_events import ForbiddenError
from opx.errors import InvalidScopeError
from opx.local_knowledge_base import LocalKnowledgeBase


class LifecycleReading:
    """A method a route of `lifecycle_routes` that reads."""

    _base: LocalKnowledgeBase

    def reviews(self, call: Call) -> Json:
        asked = call.query
        return self._base.reviews(days=asked["days"], owner=asked["owner"], limit=asked["limit"]).to_json()

    def prunings(self, call: Call) -> Json:
        try:
            return {"prunings": [dict(one) for one in self._base.prune_reports(limit=call.query["limit"])]}
        except InvalidScopeError as exc:
            raise ForbiddenError(str(exc)) from exc


class LifecycleWriting:
    """A method a route of `lifecycle_routes` that is about holds."""

    _base: LocalKnowledgeBase

    def holds(self, call: Call) -> Json:
        return {"holds": [hold.to_json() for hold in self._base.holds(lifted=call.query["lifted"])]}

    def add_hold(self, call: Call) -> Json:
        body = call.body
        try:
            hold = self._base.add_hold(
                body["reason"],
                document=body.get("document", ""),
                category=body.get("category", ""),
                within=body.get("within", ""),
                everything=body.get("everything", False),
            )
        except InvalidScopeError as exc:
            raise ForbiddenError(str(exc)) from exc
        return hold.to_json()

    def lift_hold(self, call: Call) -> Json:
        return self._base.lift_hold(call.path["holdId"]).to_json()

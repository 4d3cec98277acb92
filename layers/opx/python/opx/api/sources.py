"""The operations on sources."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from opx.api.calls import Call
from opx.api.fields import Json
from opx.api.http_events import ForbiddenError
from opx.operations.requests import RequestError

if TYPE_CHECKING:
    from opx.local_knowledge_base import LocalKnowledgeBase
    from opx.services import Services
    from opx.sources.control import SourceControl


class SourceOperations:
    """A method a route of `source_routes`."""

    _services: Services
    _base: LocalKnowledgeBase

    @cached_property
    def _control(self) -> SourceControl:
        """Raises `ForbiddenError` for a caller of another scope than the installation's, where sources' documents go."""
        if self._base.scope != self._services.scope:
            raise ForbiddenError(
                f"sources are those of {self._services.scope.key}, and you are in {self._base.scope.key}"
            )
        from opx.sources.control import SourceControl

        return SourceControl(self._services)

    def sources(self, call: Call) -> Json:  # noqa: ARG002 - as all operations
        return {"sources": [view.to_json() for view in self._control.views()]}

    def register_source(self, call: Call) -> Json:
        return self._control.register(call.path["sourceId"], call.body["definition"]).to_json()

    def remove_source(self, call: Call) -> Json:
        self._control.remove(call.path["sourceId"])
        return {"removed": call.path["sourceId"]}

    def pull_source(self, call: Call) -> Json:
        source_id, body = call.path["sourceId"], call.body
        self._control.pull(
            source_id, everything=body.get("everything", False), accept_missing=body.get("acceptMissing", False)
        )
        return {"sourceId": source_id}

    def source_health(self, call: Call) -> Json:
        return self._control.health(call.path["sourceId"]).to_json()

    def crawl(self, call: Call) -> Json:
        body = call.body
        if not (body.get("urls") or body.get("sitemaps")):
            raise RequestError("a crawl needs an address to begin at: give urls or sitemaps")
        names = {"urls": "start", "sitemaps": "sitemaps", "depth": "depth", "maxPages": "max_pages"}
        names |= {"include": "include", "exclude": "exclude"}
        options = {option: body[name] for name, option in names.items() if name in body}
        return {"sourceId": self._control.crawl(body["category"], options)[0]}

"""Sources of a deployed system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from opx.adapters.remote.http import ApiClient
from opx.sources.states import SourceView

if TYPE_CHECKING:
    from opx.sources.states import PullReport

T = TypeVar("T")


class RemoteSources:
    """The part of a remote knowledge base that is about sources."""

    _api: ApiClient

    if TYPE_CHECKING:

        def _read(self, read: Callable[[Any], T], data: Any) -> T: ...

    def sources(self) -> Sequence[SourceView]:
        return self._read(
            lambda data: [SourceView.from_json(view) for view in data["sources"]], self._api.call("GET", "sources")
        )

    def register_source(self, source_id: str, given: Mapping[str, Any]) -> SourceView:
        return self._read(
            SourceView.from_json, self._api.call("PUT", "sources", source_id, body={"definition": dict(given)})
        )

    def remove_source(self, source_id: str) -> None:
        self._api.delete("sources", source_id)

    def pull_source(
        self, source_id: str, *, everything: bool = False, accept_missing: bool = False
    ) -> PullReport | None:
        """Asks for it: a function of the system pulls."""
        wishes = {"everything": everything, "acceptMissing": accept_missing}
        self._api.call("POST", "sources", source_id, "pull", body=wishes)
        return None

    def source_health(self, source_id: str) -> SourceView:
        return self._read(SourceView.from_json, self._api.call("GET", "sources", source_id, "health"))

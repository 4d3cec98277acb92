"""Versions of documents, of a deployed system."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from opx.adapters.remote.http import ApiClient
from opx.domain.versions import Restored, VersionDiff
from opx.knowledge_base import checked_id

T = TypeVar("T")


class RemoteVersions:
    """The part of a remote knowledge base that is about versions."""

    _api: ApiClient

    if TYPE_CHECKING:

        def _read(self, read: Callable[[Any], T], data: Any) -> T: ...

        def _note_failures(self) -> None: ...

    def version_diff(self, wanted: str, *, before: int = 0, after: int = 0) -> VersionDiff:
        query = {name: number for name, number in (("from", before), ("to", after)) if number}
        return self._read(
            VersionDiff.from_json, self._api.call("GET", "documents", checked_id(wanted), "diff", query=query)
        )

    def restore(self, wanted: str, version: int = 0) -> Restored:
        self._note_failures()
        body = {"version": version} if version else {}
        return self._read(
            Restored.from_json, self._api.call("POST", "documents", checked_id(wanted), "restore", body=body)
        )

"""What is kept of questions, from a deployed system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from opx.adapters.remote.http import ApiClient, Query

if TYPE_CHECKING:
    from opx.records.audit import AuditRecord
    from opx.records.gaps.listing import GapView

T = TypeVar("T")


class RemoteRecords:
    """The part of a knowledge base that is about questions. What of other scopes is shown is up to the system."""

    _api: ApiClient

    if TYPE_CHECKING:

        def _read(self, read: Callable[[Any], T], data: Any) -> T: ...

    def audit_records(
        self,
        *,
        who: str = "",
        since: str = "",
        document: str = "",
        limit: int = 100,
        every_scope: bool = False,  # noqa: ARG002
    ) -> Sequence[AuditRecord]:
        from opx.records.audit import AuditRecord

        query: Query = {"who": who, "since": since, "documentId": document, "limit": limit}
        found = self._api.call("GET", "audit", query=_given(query))
        return self._read(lambda data: list(map(AuditRecord.from_json, data["records"])), found)

    def gaps(
        self,
        *,
        service: str = "",
        owner: str = "",
        settled: bool = False,
        every_scope: bool = False,  # noqa: ARG002
    ) -> Sequence[GapView]:
        from opx.records.gaps.listing import GapView

        query: Query = {"service": service, "owner": owner, "settled": "true" if settled else ""}
        found = self._api.call("GET", "gaps", query=_given(query))
        return self._read(lambda data: list(map(GapView.from_json, data["gaps"])), found)


def _given(query: Query) -> Query:
    return {name: value for name, value in query.items() if value != ""}

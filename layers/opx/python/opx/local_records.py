"""What is kept of questions in the services of this process, as far as one identity may see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opx.domain.scopes import Identity

if TYPE_CHECKING:
    from opx.records.audit import AuditRecord
    from opx.records.gaps.checking import Checked
    from opx.records.gaps.listing import GapView
    from opx.records.gaps.log import GapLog
    from opx.services import Services


class LocalRecords:
    """The part of a knowledge base that is about questions."""

    _services: Services
    _identity: Identity

    def audit_records(
        self, *, who: str = "", since: str = "", document: str = "", limit: int = 100, every_scope: bool = False
    ) -> Sequence[AuditRecord]:
        from opx.records.audit import matching, scope_of

        scope = "" if every_scope else scope_of(self._identity)
        records = self._services.records.audit.records(scope, since=since)
        return matching(records, principal=who, document=document, limit=limit)

    def audit_record(self, receipt_id: str) -> AuditRecord | None:
        """The record of a receipt of the identity's own scope."""
        from opx.records.audit import scope_of

        return self._services.records.audit.get(receipt_id, scope_of(self._identity))

    def gaps(
        self, *, service: str = "", owner: str = "", settled: bool = False, every_scope: bool = False
    ) -> Sequence[GapView]:
        from opx.records.gaps.listing import listed

        found = [gap for scope in self._scopes(every_scope=every_scope) for gap in self._gaps.gaps(scope)]
        return listed(found, self._services.records.owners, service=service, owner=owner, settled=settled)

    def dropped_gaps(self, *, every_scope: bool = False) -> int:
        """How many gaps had to make room for others."""
        return sum(self._gaps.dropped(scope) for scope in self._scopes(every_scope=every_scope))

    def check_gaps(self, *, limit: int, every_scope: bool = False) -> Checked:
        """Ask open gaps again and close those that are answered now, as `opx.records.gaps.checking.check`."""
        return self._services.records.check_gaps(self._scopes(every_scope=every_scope), limit)

    def settle_gap(self, wanted: str, because: str, *, ignore: bool, every_scope: bool = False) -> GapView:
        """Close the gap whose id begins so, or ignore it from now on. Raises `InvalidInputError`."""
        from opx.records.gaps.listing import listed
        from opx.records.gaps.log import the_gap
        from opx.records.gaps.model import GapStatus

        scopes = self._scopes(every_scope=every_scope)
        gap = the_gap((gap for scope in scopes for gap in self._gaps.gaps(scope)), wanted)
        status = GapStatus.IGNORED if ignore else GapStatus.CLOSED
        settled = self._gaps.settle(gap, status, because=because)
        return listed([settled], self._services.records.owners, settled=True)[0]

    @property
    def _gaps(self) -> GapLog:
        return self._services.records.gaps

    def _scopes(self, *, every_scope: bool) -> list[str]:
        from opx.records.audit import scope_of

        return self._gaps.scopes() if every_scope else [scope_of(self._identity)]

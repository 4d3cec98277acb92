"""Holds, reviews and what pruning did, of the services in this process, for one identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opx.domain.ids import ID_LENGTH
from opx.domain.scopes import Identity, Reader, Scope, scope_of_key
from opx.errors import DocumentNotFoundError, HoldNotFoundError, InvalidInputError, InvalidScopeError
from opx.knowledge_base import DocumentVersions, checked_id

if TYPE_CHECKING:
    from opx.domain.documents import DocumentKey
    from opx.lifecycle.holds import Hold
    from opx.lifecycle.reviews import ReviewReport
    from opx.services import Services

OPERATOR = "operator"
"""Who acts where nobody says who it is."""


class LocalLifecycle:
    """The part of a knowledge base over services that is about retention. An identity with a client sees and makes holds
    on what is that client's (or its project's) alone."""

    _services: Services
    _identity: Identity

    if TYPE_CHECKING:

        def _reader(self) -> Reader: ...

        def document(self, wanted: str) -> DocumentVersions: ...

    def reviews(self, *, days: int = 30, owner: str = "", limit: int = 500) -> ReviewReport:
        return self._services.reviews.report(self._reader().visible, days=days, owner=owner, limit=limit)

    def holds(self, *, lifted: bool = False) -> Sequence[Hold]:
        found = self._services.holds.lifted() if lifted else self._services.holds.in_force()
        return [hold for hold in found if self._is_mine(hold)]

    def add_hold(
        self, reason: str, *, document: str = "", category: str = "", within: str = "", everything: bool = False
    ) -> Hold:
        from opx.lifecycle.holds import Hold

        if everything == bool(document or category or within):
            raise InvalidInputError("say what is to be held: a document, a category, a scope, or else everything")
        if document and (category or within):
            raise InvalidInputError("a hold on a document is on that alone: leave category and scope out")
        by = self._identity.principal or OPERATOR
        wanted = [Hold(reason, by, within or self._own_scope_key(), category)]
        if document:
            wanted = [Hold(reason, by, key.scope.key, source=key.source) for key in self._keys_of(document)]
        mine = [hold for hold in wanted if self._is_mine(hold)]
        if not mine:
            raise InvalidScopeError(
                f"{wanted[0].within} is not within {self._own_scope_key()}: a hold is on what is your own"
            )
        placed = [self._services.holds.add(hold, self._services.knowledge) for hold in mine]
        return placed[0]

    def lift_hold(self, hold_id: str) -> Hold:
        found = self._services.holds.get(hold_id)
        if not self._is_mine(found):
            raise HoldNotFoundError(f"no hold {hold_id} is in force")
        return self._services.holds.lift(hold_id, self._identity.principal or OPERATOR)

    def prune_reports(self, *, limit: int = 30) -> Sequence[Mapping[str, Any]]:
        if self._identity.client_id:
            raise InvalidScopeError("what was pruned is counted over all clients: only the operator may see it")
        return [report.to_json() for report in self._services.prune_reports.last(limit)]

    def _keys_of(self, wanted: str) -> list[DocumentKey]:
        """Of every document with this id: the same text may have come in under several names. Also of one that has expired
        and may go any day."""
        text = checked_id(wanted)
        if len(text) < ID_LENGTH:
            text = self.document(wanted).document.document_id
        reader = self._reader()
        found = {one.key.id: one.key for one in self._services.catalog.find(text) if reader.may_see(one.key.scope)}
        if not found:
            raise DocumentNotFoundError(f"no document {text}")
        return list(found.values())

    def _own_scope_key(self) -> str:
        """That of the identity; "" for one that may do what concerns everybody."""
        who = self._identity
        return Scope(who.client_id, project_id=who.project_id).key if who.client_id else ""

    def _is_mine(self, hold: Hold) -> bool:
        who = self._identity
        if not who.client_id:
            return True
        scope = scope_of_key(hold.within) if hold.within else Scope()
        return scope.client_id == who.client_id and (not who.project_id or scope.project_id == who.project_id)

"""Merges two nodes within a scope, and undoes merges."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from typing import Protocol

from opx.domain.graph import Alias, Merge, MergeState
from opx.domain.ids import iso_time
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError, MergeNotFoundError
from opx.graph.alias_rows import merge_key, owner_areas, partition_of
from opx.graph.aliases import AliasRegistry
from opx.graph.names import canonical_form, normalised
from opx.ports import Clock, Equals, Item, KeyAbsent, KeyRange, Table
from opx.ports.tables import put_if

log = logging.getLogger(__name__)

MAX_PASSES = 5
"""Passes of rewriting: an index may lag, and shows in the next pass rows that it didn't show in the first."""


class Rewriting(Protocol):
    """Moves statements to the references under which they belong."""

    def rewrite(self, scope: Scope, key: str) -> int:
        """File each statement of the scope under this reference again by its present canonical references; returns the number
        of moved ones. Idempotent. Raises `StoreUnavailableError`."""


class Merging:
    """Merges are aliases that a person set, and are recorded. The statements of documents keep their stated references: a
    merge files them under another reference, and undoing it files them again by the stated ones.

    Each step may be interrupted; the next merge in the scope, or `resume`, completes it. Only rows of the one scope are
    rewritten: statements of other scopes are joined at read time, for readers that may see the alias.
    """

    def __init__(self, table: Table, aliases: AliasRegistry, store: Rewriting, *, clock: Clock) -> None:
        self._table = table
        self._aliases = aliases
        self._store = store
        self._clock = clock

    def merge(self, scope: Scope, source: str, into: str, *, by: str = "") -> Merge:
        """Merge `source` into `into`, for readers of this scope. If `source` is an alias, the node that it stands for is
        merged. If an interrupted merge of the two is on record, it is completed and returned.

        Raises `InvalidInputError` if the two are one node already, `AliasLoopError`, `AliasTakenError`,
        `InvalidReferenceError` and `StoreUnavailableError`; after the last, `resume` completes the merge.
        """
        completed = self._complete(scope)
        view = self._aliases.view(owner_areas(scope), fresh=True)
        source, into = (canonical_form(normalised(one)) for one in (source, into))
        for one in completed:
            if (one.source, one.into, one.state) == (source, into, MergeState.MERGED):
                return one
        meant = view.canonical([source, into])
        source = meant.get(source, source)
        if source == meant.get(into, into):
            raise InvalidInputError(f"{source} and {into} are the same node already")
        now = self._clock()
        merge_id = f"{int(now * 1000):013d}-{secrets.token_hex(4)}"
        merge = Merge(merge_id, scope.key, source, into, MergeState.MERGING, by, iso_time(now))
        self._table.put(_item(merge), condition=KeyAbsent())
        return self._apply(scope, merge)

    def undo(self, scope: Scope, merge_id: str, *, by: str = "") -> Merge:
        """Undo a merge: all statements about the two nodes, also later ones, are filed by the references that the documents
        state. Idempotent. Raises `MergeNotFoundError`, `StoreUnavailableError`."""
        merge = self.find(scope, merge_id)
        if merge.state is MergeState.UNDONE:
            return merge
        if merge.state is not MergeState.UNDOING:
            before = merge.state
            merge = replace(merge, state=MergeState.UNDOING, undone_by=by, undone_at=iso_time(self._clock()))
            if not put_if(self._table, _item(merge), Equals("state", before.value)):
                return self.undo(scope, merge_id, by=by)  # changed by another process; each state comes only once
        return self._undo(scope, merge)

    def add(self, scope: Scope, alias: str, canonical: str, *, by: str = "") -> Alias:
        """Set an alias for readers of this scope, as a merge. Raises as `merge` does."""
        merge = self.merge(scope, alias, canonical, by=by)
        return self._aliases.find(scope, merge.source) or Alias(merge.source, merge.into, scope.key)

    def remove(self, scope: Scope, alias: str, *, by: str = "") -> bool:
        """Remove an alias that a person set; False if there is none. Raises `InvalidInputError` if only documents state it,
        and `StoreUnavailableError`."""
        alias = canonical_form(normalised(alias))
        for merge in self.merges(scope):
            if merge.source == alias and merge.state is not MergeState.UNDONE:
                self.undo(scope, merge.merge_id, by=by)
                return True
        removed = self._aliases.forget(scope, alias)
        self._split(scope, alias)
        return removed

    def merges(self, scope: Scope) -> list[Merge]:
        """The recorded merges of this scope, the newest first."""
        within = KeyRange(begins_with=merge_key(scope.key, "")["aliasArea"])
        return [
            Merge.from_json(item) for item in self._table.query(partition_of(scope.key), where=within, reverse=True)
        ]

    def find(self, scope: Scope, merge_id: str) -> Merge:
        """The recorded merge. Raises `MergeNotFoundError`, also for a merge of another scope."""
        item = self._table.get(merge_key(scope.key, merge_id)) if len(merge_id) <= 100 else None
        if item is None:
            raise MergeNotFoundError(f"no merge {merge_id[:100]!r} is on record here: list the merges of this scope")
        return Merge.from_json(item)

    def resume(self, scope: Scope) -> int:
        """Complete interrupted merges and undoings; returns their number."""
        return len(self._complete(scope))

    def _complete(self, scope: Scope) -> list[Merge]:
        """The merges and undoings that were unfinished, as they are now."""
        unfinished = [one for one in self.merges(scope) if one.state in (MergeState.MERGING, MergeState.UNDOING)]
        return [self._completed(scope, merge) for merge in unfinished]

    def _completed(self, scope: Scope, merge: Merge) -> Merge:
        try:
            return (self._apply if merge.state is MergeState.MERGING else self._undo)(scope, merge)
        except InvalidInputError:
            log.warning("merge %s can't be completed: its references resolve to other nodes by now", merge.merge_id)
            return merge

    def _apply(self, scope: Scope, merge: Merge) -> Merge:
        try:
            self._aliases.register(scope, merge.source, merge.into, by=merge.by)
        except InvalidInputError:
            self._table.delete(merge_key(scope.key, merge.merge_id))
            raise
        self._rewrite(scope, merge.source, merge.into, [merge.source])
        done = self._settle(merge, MergeState.MERGED)
        return done if done.state is MergeState.MERGED else self._undo(scope, done)

    def _undo(self, scope: Scope, merge: Merge) -> Merge:
        if not self._is_set_by_other(scope, merge):
            self._aliases.forget(scope, merge.source, merge.into)
            self._split(scope, merge.source)
        return self._settle(merge, MergeState.UNDONE)

    def _is_set_by_other(self, scope: Scope, merge: Merge) -> bool:
        """True if a later merge has set the same alias."""
        return any(
            (other.source, other.into) == (merge.source, merge.into)
            and other.state in (MergeState.MERGING, MergeState.MERGED)
            for other in self.merges(scope)
        )

    def _split(self, scope: Scope, alias: str) -> None:
        """File statements with the alias under it again: a later merge may have moved them further than the alias led."""
        references = self._aliases.filed(scope, [alias]).get(alias, ())
        self._rewrite(scope, alias, "", [one for one in references if one != alias])

    def _rewrite(self, scope: Scope, alias: str, canonical: str, keys: Sequence[str]) -> None:
        """File the statements under these keys again, after the alias was set to `canonical` ("" for removed)."""
        for _ in range(MAX_PASSES):
            if not sum(self._store.rewrite(scope, key) for key in keys):
                self._aliases.settle(scope, alias, canonical)
                return
        log.warning("statements are still written under the old references of merged or split nodes")

    def _settle(self, merge: Merge, state: MergeState) -> Merge:
        """Record the final state, unless another process has changed it meanwhile."""
        done = replace(merge, state=state)
        if put_if(self._table, _item(done), Equals("state", merge.state.value)):
            return done
        return Merge.from_json(self._read(merge))

    def _read(self, merge: Merge) -> Item:
        item = self._table.get(merge_key(merge.area, merge.merge_id))
        if item is None:
            raise MergeNotFoundError(f"merge {merge.merge_id} was deleted meanwhile")
        return item


def _item(merge: Merge) -> Item:
    return {**merge_key(merge.area, merge.merge_id), **merge.to_json()}

"""Makes two things one in a scope, and takes that back."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from typing import Protocol

from opx.domain.graph import Alias, Merge, MergeState
from opx.domain.ids import iso_time
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import ConditionFailedError, InvalidInputError, MergeNotFoundError
from opx.graph.alias_rows import merge_key, owner_areas, partition_of
from opx.graph.aliases import AliasRegistry
from opx.graph.names import canonical_form, normalised
from opx.ports import Clock, Equals, Item, KeyAbsent, KeyRange, Table

log = logging.getLogger(__name__)

MAX_PASSES = 5
"""Of rewriting: an index may lag, and shows in the next pass what it didn't show in the first."""


class Rewriting(Protocol):
    """Files again what is filed under a reference."""

    def rewrite(self, scope: Scope, key: str) -> int:
        """Put every statement of the scope that is filed under this reference where its own references are filed now, and
        return how many were put elsewhere. Idempotent. Raises `StoreUnavailableError`."""


class Merging:
    """Merges are aliases that a person set, and are on record. What documents say stays as they say it: it is filed under
    another reference, by what it states, and that again when the merge is undone.

    Each step may be interrupted; the next merge in the scope, or `resume`, goes on with what was. Only the places of the
    one scope are rewritten: what other scopes say of the two is put together when those read it who may see the alias.
    """

    def __init__(self, table: Table, aliases: AliasRegistry, store: Rewriting, *, clock: Clock) -> None:
        self._table = table
        self._aliases = aliases
        self._store = store
        self._clock = clock

    def merge(self, scope: Scope, source: str, into: str, *, by: str = "") -> Merge:
        """Make the two one, called `into`, for those who may see this scope. If `source` is another name of a thing, the
        thing is meant.

        Raises `InvalidInputError` if they are one already, `AliasLoopError`, `AliasTakenError`,
        `InvalidReferenceError` and `StoreUnavailableError`; after the last, `resume` goes on.
        """
        self.resume(scope)
        view = self._aliases.view(owner_areas(scope), fresh=True)
        source, into = (canonical_form(normalised(one)) for one in (source, into))
        meant = view.canonical([source, into])
        source = meant.get(source, source)
        if source == meant.get(into, into):
            raise InvalidInputError(f"{source} and {into} are the same thing already")
        now = self._clock()
        merge_id = f"{int(now * 1000):013d}-{secrets.token_hex(4)}"
        merge = Merge(merge_id, scope.key, source, into, MergeState.MERGING, by, iso_time(now))
        self._table.put(_item(merge), condition=KeyAbsent())
        return self._do(scope, merge)

    def undo(self, scope: Scope, merge_id: str, *, by: str = "") -> Merge:
        """Make them two again: all that was said of the one or the other is sorted by what the documents state, also what
        came since. Undoing again does nothing. Raises `MergeNotFoundError`, `StoreUnavailableError`."""
        merge = self.find(scope, merge_id)
        if merge.state is MergeState.UNDONE:
            return merge
        if merge.state is not MergeState.UNDOING:
            before = merge.state
            merge = replace(merge, state=MergeState.UNDOING, undone_by=by, undone_at=iso_time(self._clock()))
            try:
                self._table.put(_item(merge), condition=Equals("state", before.value))
            except ConditionFailedError:
                return self.undo(scope, merge_id, by=by)  # somebody else has gone on; a state comes once only
        return self._undo(scope, merge)

    def add(self, scope: Scope, alias: str, canonical: str, *, by: str = "") -> Alias:
        """Set an alias for those who may see this scope, as a merge. Raises as `merge` does."""
        merge = self.merge(scope, alias, canonical, by=by)
        return self._aliases.find(scope, merge.source) or Alias(merge.source, merge.into, scope.key)

    def remove(self, scope: Scope, alias: str, *, by: str = "") -> bool:
        """Take back an alias that a person set. False if there is none. Raises `InvalidInputError` if documents alone say
        it, and `StoreUnavailableError`."""
        alias = canonical_form(normalised(alias))
        for merge in self.merges(scope):
            if merge.source == alias and merge.state is not MergeState.UNDONE:
                self.undo(scope, merge.merge_id, by=by)
                return True
        removed = self._aliases.forget(scope, alias)
        self._part(scope, alias)
        return removed

    def merges(self, scope: Scope) -> list[Merge]:
        """Those on record for this scope, the newest first."""
        within = KeyRange(begins_with=merge_key(scope.key, "")["aliasArea"])
        return [
            Merge.from_json(item) for item in self._table.query(partition_of(scope.key), where=within, reverse=True)
        ]

    def find(self, scope: Scope, merge_id: str) -> Merge:
        """Raises `MergeNotFoundError`, also for a merge of another scope."""
        item = self._table.get(merge_key(scope.key, merge_id)) if len(merge_id) <= 100 else None
        if item is None:
            raise MergeNotFoundError(f"no merge {merge_id[:100]!r} is on record here: list the merges of this scope")
        return Merge.from_json(item)

    def resume(self, scope: Scope) -> int:
        """Go on with what was interrupted. Returns how many merges that were."""
        unfinished = [one for one in self.merges(scope) if one.state in (MergeState.MERGING, MergeState.UNDOING)]
        for merge in unfinished:
            try:
                (self._do if merge.state is MergeState.MERGING else self._undo)(scope, merge)
            except InvalidInputError:
                log.warning("merge %s can't be finished: its names mean something else by now", merge.merge_id)
        return len(unfinished)

    def _do(self, scope: Scope, merge: Merge) -> Merge:
        try:
            self._aliases.register(scope, merge.source, merge.into, by=merge.by)
        except InvalidInputError:
            self._table.delete(merge_key(scope.key, merge.merge_id))
            raise
        self._rewrite(scope, merge.source, merge.into, [merge.source])
        done = self._settle(merge, MergeState.MERGED)
        return done if done.state is MergeState.MERGED else self._undo(scope, done)

    def _undo(self, scope: Scope, merge: Merge) -> Merge:
        if not self._made_again(scope, merge):
            self._aliases.forget(scope, merge.source, merge.into)
            self._part(scope, merge.source)
        return self._settle(merge, MergeState.UNDONE)

    def _made_again(self, scope: Scope, merge: Merge) -> bool:
        """Whether the alias is another merge's by now."""
        return any(
            (other.source, other.into) == (merge.source, merge.into)
            and other.state in (MergeState.MERGING, MergeState.MERGED)
            for other in self.merges(scope)
        )

    def _part(self, scope: Scope, alias: str) -> None:
        """File under the alias again what it states: it may be further on than where the alias led, if that was merged."""
        places = self._aliases.filed(scope, [alias]).get(alias, ())
        self._rewrite(scope, alias, "", [place for place in places if place != alias])

    def _rewrite(self, scope: Scope, alias: str, canonical: str, keys: Sequence[str]) -> None:
        """File anew, after the alias was set to this ("" for nothing), what is filed under these keys."""
        for _ in range(MAX_PASSES):
            if not sum(self._store.rewrite(scope, key) for key in keys):
                self._aliases.settle(scope, alias, canonical)
                return
        log.warning("things that were merged or parted are still written about under their old names")

    def _settle(self, merge: Merge, state: MergeState) -> Merge:
        """Note that it is done, unless somebody else has gone on from there."""
        done = replace(merge, state=state)
        try:
            self._table.put(_item(done), condition=Equals("state", merge.state.value))
        except ConditionFailedError:
            return Merge.from_json(self._read(merge))
        return done

    def _read(self, merge: Merge) -> Item:
        item = self._table.get(merge_key(merge.area, merge.merge_id))
        if item is None:
            raise MergeNotFoundError(f"merge {merge.merge_id} was removed meanwhile")
        return item


def _item(merge: Merge) -> Item:
    return {**merge_key(merge.area, merge.merge_id), **merge.to_json()}

"""Merges patterns that are one, and splits a pattern: what was counted moves from one to the other, each entry once.

The row of a pattern that was merged stays, with its text and the id of the pattern that it is a part of now (`mergedInto`):
counts for it and hits of its document lead to the other one. Rows of occurrences are copied before counts are
computed from them, and heads are written under their optimistic locks, so that an entry that is counted meanwhile is neither
lost nor counted twice. A step that is interrupted is completed by the same call again.

A merge is undone by a split of the merged pattern, and a split by a merge. An occurrence carries the patterns that it came
through (`via`), and entries in the words of a pattern follow it, also those that were counted after the merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from opx.domain.ids import stable_hash
from opx.domain.learning import Pattern, PatternChange, StagingEntry
from opx.domain.record import replace
from opx.errors import InvalidInputError, PatternNotFoundError, StoreUnavailableError
from opx.learning.pattern_rows import (
    MERGED_INTO,
    head_row,
    heads_partition,
    key_row,
    occurrence_row,
    occurrences_partition,
    pattern_in,
    seed_of,
)
from opx.learning.patterns import MOST_KEPT, PatternStore
from opx.ports import Item, Table
from opx.ports.tables import put_revision

_VIA = "via"
_ATTEMPTS = 50
"""Each failed attempt means that another writer succeeded."""


@dataclass(eq=False)
class PatternMerging:
    """Merges and splits the patterns of one scope. `entries` reads captured entries by id."""

    scope_key: str
    table: Table
    patterns: PatternStore
    entries: Callable[[Sequence[str]], Sequence[StagingEntry]]

    def merge(self, pattern_id: str, other_id: str) -> PatternChange:
        """Counts everything of the other pattern for the first one. Merging again changes nothing.

        Raises `PatternNotFoundError`, `InvalidInputError` for patterns of different types or gates, and
        `StoreUnavailableError` if others write all the time: then the call may be repeated.
        """
        into, other = self._known(pattern_id), self._known(other_id)
        if pattern_id == other_id:
            raise InvalidInputError("a pattern can't be merged with itself")
        if into.pattern_id == other.pattern_id:
            return self._change(into, other_id, changed=self._complete(into, other_id))
        if (into.entry_type, into.gate_type) != (other.entry_type, other.gate_type):
            raise InvalidInputError(
                f"{other_id} is a {other.entry_type} {other.gate_type}, and {pattern_id} a {into.entry_type} "
                f"{into.gate_type}: only patterns of one type and gate are merged"
            )
        self._forward(other.pattern_id, into.pattern_id)
        self._move(other.pattern_id, into.pattern_id, self._facts(other.pattern_id))
        self._recount(into.pattern_id, merged=(*other.merged, other.pattern_id), also=other)
        self._delete(other.pattern_id, self._facts(other.pattern_id))
        return self._change(into, other.pattern_id, changed=True)

    def split(self, pattern_id: str, ids: Sequence[str]) -> PatternChange:
        """Takes out of a pattern either one that was merged into it, or entries that were counted for it (and all in the
        same words), which become a pattern of their own.

        Raises `PatternNotFoundError`, `InvalidInputError` for ids that aren't of the pattern, for the entry that it was made
        of, and if nothing would be left of it; and `StoreUnavailableError` as `merge`.
        """
        pattern = self._known(pattern_id)
        wanted = list(dict.fromkeys(ids))
        if len(wanted) == 1 and wanted[0] in pattern.merged:
            return self._undone(pattern, wanted[0])
        facts = self._facts(pattern.pattern_id)
        missing = [one for one in wanted if one not in facts]
        if missing or not wanted:
            raise InvalidInputError(
                f"{', '.join(missing) or 'nothing'} is neither merged into {pattern_id} nor counted for it; see "
                f"`opx learn pattern {pattern_id}`"
            )
        keys = {str(facts[one]["key"]) for one in wanted}
        taken = {one: fact for one, fact in facts.items() if fact["key"] in keys}
        seed = self._seed(pattern, wanted, keys, left=len(facts) - len(taken))
        return self._split(pattern, seed.pattern_id, seed, taken)

    def _undone(self, pattern: Pattern, other_id: str) -> PatternChange:
        """Takes a merged pattern out again, with the entries in its words that were counted since."""
        through = (self._row(other_id) or {}).get(MERGED_INTO, "")
        if through not in ("", pattern.pattern_id):
            raise InvalidInputError(f"{other_id} was merged into {through}: split {through} off first")
        facts = self._facts(pattern.pattern_id)
        keys = {fact["key"] for fact in facts.values() if other_id in fact.get(_VIA, ())}
        taken = {name: fact for name, fact in facts.items() if fact["key"] in keys}
        return self._split(pattern, other_id, None, taken)

    def _seed(self, pattern: Pattern, wanted: Sequence[str], keys: Iterable[str], left: int) -> Pattern:
        """The new pattern of the entries that are split off."""
        own = pattern.pattern_id in {stable_hash("pattern", self.scope_key, key) for key in keys}
        if own or not left:
            reason = "the pattern was made of one of them" if own else "nothing would be left of it"
            raise InvalidInputError(f"these entries can't be split off: {reason}; split off the others")
        entries = {entry.id: entry for entry in self.entries(wanted)}
        if wanted[0] not in entries:
            raise InvalidInputError(f"the text of entry {wanted[0]} is not kept any more")
        return seed_of(self.scope_key, entries[wanted[0]])

    def _split(self, pattern: Pattern, other: str, seed: Pattern | None, taken: dict[str, Item]) -> PatternChange:
        """Moves occurrences to the other pattern, until none in its words is counted for this one meanwhile."""
        still = tuple(one for one in pattern.merged if one not in self._with_merged(other))
        for _ in range(_ATTEMPTS):
            copies = [self._without_via(fact, other) for fact in taken.values()]
            self.table.put_many(occurrence_row(self.scope_key, other, fact) for fact in copies)
            self._recount(other, seed=seed)
            counted = self._facts(other)
            self._point_keys(counted.values(), other)
            self._delete(pattern.pattern_id, taken)
            self._recount(pattern.pattern_id, only=still)
            keys = {fact["key"] for fact in counted.values()}
            taken = {name: fact for name, fact in self._facts(pattern.pattern_id).items() if fact["key"] in keys}
            if not taken:
                return self._change(pattern, other, changed=True)
        raise self._too_busy(pattern.pattern_id)

    # -- steps, each of which may be repeated

    def _complete(self, into: Pattern, other_id: str) -> bool:
        """Completes a merge that was interrupted; False if there is nothing to do."""
        left = {} if other_id == into.pattern_id else self._facts(other_id)
        if other_id == into.pattern_id or (not left and other_id in into.merged):
            return False
        self._move(other_id, into.pattern_id, left)
        self._recount(into.pattern_id, merged=(other_id,))
        self._delete(other_id, left)
        return True

    def _forward(self, other_id: str, into_id: str) -> None:
        for _ in range(_ATTEMPTS):
            row = self._row(other_id)
            if row is None:
                raise PatternNotFoundError(f"no pattern has the id {other_id!r}")
            self._keep_last_batch(other_id, row)
            if put_revision(self.table, {**row, MERGED_INTO: into_id, "lastBatch": []}, row):
                return
        raise self._too_busy(other_id)

    def _move(self, other_id: str, into_id: str, facts: dict[str, Item]) -> None:
        """Copies occurrences, and points their keys at the other pattern."""
        moved = [{**fact, _VIA: [*fact.get(_VIA, ()), other_id]} for fact in facts.values()]
        self.table.put_many(occurrence_row(self.scope_key, into_id, fact) for fact in moved)
        self._point_keys(moved, into_id)

    def _point_keys(self, facts: Iterable[Item], pattern_id: str) -> None:
        keys = dict.fromkeys(str(fact["key"]) for fact in facts)
        self.table.put_many(key_row(self.scope_key, key, pattern_id) for key in keys)

    def _delete(self, pattern_id: str, facts: Iterable[str]) -> None:
        for name in facts:
            self.table.delete({"place": occurrences_partition(self.scope_key, pattern_id), "entry": name})

    def _recount(
        self,
        pattern_id: str,
        *,
        seed: Pattern | None = None,
        also: Pattern | None = None,
        merged: tuple[str, ...] = (),
        only: tuple[str, ...] | None = None,
    ) -> None:
        """Computes a pattern's counts from its occurrences. `merged` are added to its merged patterns, `only` replaces
        them; `also` is a pattern whose agents, tasks and technologies it gets."""
        for _ in range(_ATTEMPTS):
            row = self._row(pattern_id)
            known = pattern_in(row) if row else seed
            if known is None:
                raise PatternNotFoundError(f"no pattern has the id {pattern_id!r}")
            self._keep_last_batch(pattern_id, row or {})
            parts = only if only is not None else tuple(dict.fromkeys((*known.merged, *merged)))
            pattern = replace(_counted(known, self._facts(pattern_id).values(), also), merged=parts)
            documented = str((row or {}).get("documentAt", ""))
            if put_revision(self.table, {**head_row(pattern), "lastBatch": [], "documentAt": documented}, row):
                return
        raise self._too_busy(pattern_id)

    def _keep_last_batch(self, pattern_id: str, row: Item) -> None:
        """Writes the rows of the entries that the head alone names."""
        known = self._facts(pattern_id)
        missing = [fact for fact in row.get("lastBatch", ()) if str(fact["entryId"]) not in known]
        self.table.put_many(occurrence_row(self.scope_key, pattern_id, fact) for fact in missing)

    # -- reading

    def _known(self, pattern_id: str) -> Pattern:
        found = self.patterns.head(self.scope_key, pattern_id)
        if found is None:
            raise PatternNotFoundError(f"no pattern has the id {pattern_id!r}")
        return found

    def _row(self, pattern_id: str) -> Item | None:
        return self.table.get({"place": heads_partition(self.scope_key), "entry": pattern_id})

    def _facts(self, pattern_id: str) -> dict[str, Item]:
        """Occurrences by entry id."""
        rows = self.table.query(occurrences_partition(self.scope_key, pattern_id))
        return {str(row["entry"]): row for row in rows}

    def _with_merged(self, pattern_id: str) -> tuple[str, ...]:
        row = self._row(pattern_id)
        return (pattern_id, *(pattern_in(row).merged if row else ()))

    @staticmethod
    def _without_via(fact: Item, pattern_id: str) -> Item:
        """The occurrence as it was before it was moved out of this pattern."""
        via = list(fact.get(_VIA, ()))
        before = via[: via.index(pattern_id)] if pattern_id in via else []
        return {**{name: value for name, value in fact.items() if name != _VIA}, **({_VIA: before} if before else {})}

    def _change(self, pattern: Pattern, other_id: str, *, changed: bool) -> PatternChange:
        other = self._row(other_id)
        separate = other is not None and not other.get(MERGED_INTO)
        return PatternChange(
            pattern=self._known(pattern.pattern_id),
            other=pattern_in(other) if separate and other and other_id != pattern.pattern_id else None,
            other_id=other_id,
            changed=changed,
        )

    @staticmethod
    def _too_busy(pattern_id: str) -> StoreUnavailableError:
        return StoreUnavailableError(f"pattern {pattern_id} can't be changed: too many concurrent writers")


def _counted(known: Pattern, facts: Iterable[Item], also: Pattern | None) -> Pattern:
    """The pattern with the counts of these occurrences."""
    each = sorted(facts, key=lambda fact: (str(fact["at"]), str(fact["entryId"])))
    worked = sum(bool(fact["worked"]) for fact in each)
    both = (known, also) if also else (known,)
    return replace(
        known,
        agent_types=_union(one.agent_types for one in both),
        task_types=_union(one.task_types for one in both),
        technologies=_union(one.technologies for one in both),
        success_count=worked,
        failure_count=len(each) - worked,
        embedded_at=max([one.embedded_at for one in both] + [str(fact["at"]) for fact in each]),
        first_seen=min((str(fact["at"]) for fact in each), default=known.first_seen),
        projects=_union([str(fact["projectId"])] for fact in each)[-MOST_KEPT:],
        evidence=tuple(str(fact["entryId"]) for fact in each)[-MOST_KEPT:],
    )


def _union(values: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for some in values for one in some))

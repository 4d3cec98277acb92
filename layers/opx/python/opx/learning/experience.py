"""Applies recorded outcomes, warnings and learnt words to answers: one read a query, none where nothing was recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from opx.domain.documents import DocumentKey, DocumentState
from opx.domain.ids import stable_hash
from opx.domain.knowledge import WARNINGS_CATEGORY
from opx.domain.outcomes import DocumentOutcomes, JudgedPassage
from opx.domain.record import replace
from opx.domain.results import RetrievalResult
from opx.domain.scopes import scope_of_key
from opx.learning.outcome_store import (
    LEARNT,
    OUTCOMES,
    WARNINGS,
    KnownScopes,
    head_key,
    head_scope,
    known_key,
    known_scope,
)
from opx.ports import Item, Table
from opx.ports.tables import readable
from opx.retrieval.judging import HitOutcomes, Judged, NoOutcomes

if TYPE_CHECKING:
    from opx.domain.learning import StepWarning
    from opx.ingestion.corpus.catalog import Catalog
    from opx.learning.learned_words import LearntStore, ScopedWords, ScopeWords
    from opx.learning.tried_steps import Holds, TriedSteps
    from opx.learning.warnings import StepWarnings

T = TypeVar("T")

MAX_READ = 100
"""Items of the one read: the maximum of one DynamoDB request (BatchGetItem, its API reference)."""

_SCOPES_REMEMBERED = 32


@dataclass(eq=False)
class LearnedExperience:
    """Recorded experience for all readers of a process; each lookup names the scopes that its reader may see."""

    table: Table
    known: KnownScopes
    warnings: Callable[[], StepWarnings]
    catalog: Callable[[], Catalog]
    learnt: Callable[[], LearntStore]
    _tried: dict[str, tuple[str, TriedSteps]] = field(init=False, default_factory=dict)
    _words: dict[str, tuple[str, ScopeWords]] = field(init=False, default_factory=dict)

    def seen_by(self, scopes: Sequence[str]) -> ReadersExperience:
        """The view of a reader who may see these scopes."""
        return ReadersExperience(self, scopes)

    def of(self, scopes: Sequence[str], judged: Sequence[Judged]) -> HitOutcomes:
        """Outcomes and warnings that these scopes recorded for the hits. Raises `StoreUnavailableError`."""
        known = self.known.of(scopes)
        if not any(known.values()):
            return NoOutcomes()
        keys = [known_key(scope, WARNINGS) for scope in known[WARNINGS]]
        room = (MAX_READ - len(keys)) // max(len(known[OUTCOMES]), 1)
        best_first = sorted(judged, key=lambda one: -one.score)
        documents = dict.fromkeys(one.hit.record.facts.key_id for one in best_first)
        keys += [head_key(scope, key) for key in islice(documents, max(room, 1)) for scope in known[OUTCOMES]]
        items = self.table.get_many(keys)
        heads = [item for item in items if item["entry"] != WARNINGS]
        tried = [self._tried_in(item) for item in items if item["entry"] == WARNINGS]
        return HitExperience(_by_key(heads), tried, judged, self._document_of)

    def warnings_of(
        self, scopes: Sequence[str], passages: Callable[[], Sequence[JudgedPassage]]
    ) -> list[list[StepWarning]]:
        """Warnings of each passage about steps that were tried before in these scopes; `[]`, without calling `passages`,
        where the scopes have no warnings. Raises `StoreUnavailableError`."""
        known = self.known.of(scopes)[WARNINGS]
        items = self.table.get_many([known_key(scope, WARNINGS) for scope in known]) if known else ()
        tried = [self._tried_in(item) for item in items]
        if not tried:
            return []
        return [[one for each in tried for one in each.warnings(passage, self._document_of)] for passage in passages()]

    def words(self, scopes: Sequence[str]) -> ScopedWords | None:
        """Learnt words of these scopes; None, without a read of them, where there are none. Raises
        `StoreUnavailableError`."""
        known = self.known.of(scopes)[LEARNT]
        if not known:
            return None
        from opx.learning.learned_words import ScopedWords

        items = self.table.get_many([known_key(scope, LEARNT) for scope in known])
        found = [_remembered(self._words, item, lambda scope: self.learnt().words(scope)) for item in items]
        return ScopedWords(found, frozenset(scopes), self.catalog)

    def _tried_in(self, item: Item) -> TriedSteps:
        from opx.learning.tried_steps import TriedSteps

        return _remembered(self._tried, item, lambda scope: TriedSteps(scope, self.warnings().tried(scope)))

    def _document_of(self, scope_key: str, source: str) -> str:
        latest = next(self.catalog().versions(DocumentKey(scope_of_key(scope_key), source)), None)
        return latest.document_id if latest and latest.state is DocumentState.CURRENT else ""


def _remembered(kept: dict[str, tuple[str, T]], item: Item, read: Callable[[str], T]) -> T:
    """The cached value of the item's scope, read again when the item's mark changed."""
    scope, mark = known_scope(item), str(item["mark"])
    found = kept.get(scope)
    if found is None or found[0] != mark:
        while len(kept) >= _SCOPES_REMEMBERED:
            kept.pop(next(iter(kept)), None)
        found = kept[scope] = (mark, read(scope))
    return found[1]


class ReadersExperience:
    """Experience from the scopes that one reader may see."""

    def __init__(self, learned: LearnedExperience, scopes: Sequence[str]) -> None:
        self._learned = learned
        self._scopes = scopes

    def of(self, judged: Sequence[Judged]) -> HitOutcomes:
        return self._learned.of(self._scopes, judged)


class HitExperience:
    """Recorded outcomes and warnings of one query's hits: `heads` are outcome counts by key id."""

    def __init__(
        self,
        heads: Mapping[str, Sequence[DocumentOutcomes]],
        tried: Sequence[TriedSteps],
        judged: Sequence[Judged],
        document_of: Holds,
    ) -> None:
        self._heads = heads
        self._tried = tried
        self._document_of = document_of
        self._judged = judged
        self._moved: dict[str, float] = {}

    def weighed(self, judged: Sequence[Judged]) -> list[Judged]:
        return [self._weighed(one) for one in judged]

    def _weighed(self, judged: Judged) -> Judged:
        heads = [head.seen_from(judged.document_id) for head in self._heads.get(judged.hit.record.facts.key_id, ())]
        if not heads:
            return judged
        together = heads[0]
        for head in heads[1:]:
            together = together.plus(head)
        outcome = together.score_of(judged.hit.chunk.section)
        if not outcome.tally.all.total:
            return judged
        if outcome.factor != 1.0:
            self._moved[judged.hit.entry_id] = round(outcome.factor, 6)
        return replace(judged, outcome=outcome)

    @property
    def mark(self) -> str:
        return stable_hash("outcomes", sorted(self._moved.items()))[:16] if self._moved else ""

    def warned(self, results: tuple[RetrievalResult, ...]) -> tuple[RetrievalResult, ...]:
        return tuple(map(self._warned, results)) if self._tried else results

    def _warned(self, result: RetrievalResult) -> RetrievalResult:
        if result.category == WARNINGS_CATEGORY:
            return result
        indexed = next((one.hit.indexed for one in self._judged if one.document_id == result.document_id), None)
        passage = JudgedPassage(
            title=result.title,
            section=result.section,
            content=result.content,
            document_id=result.document_id,
            scope_key=indexed.scope_key if indexed else "",
            key_id=indexed.key_id if indexed else "",
            source_uri=result.source,
        )
        found = [one.to_json() for tried in self._tried for one in tried.warnings(passage, self._document_of)]
        return replace(result, metadata={**result.metadata, "warnings": found}) if found else result


def _by_key(items: Sequence[Item]) -> Mapping[str, Sequence[DocumentOutcomes]]:
    """Outcome counts of documents by key id, ordered by scope."""
    found: dict[str, list[DocumentOutcomes]] = {}
    by_scope = sorted(items, key=head_scope)
    for key_id, outcomes in readable(lambda item: (str(item["entry"]), DocumentOutcomes.from_json(item)), by_scope):
        found.setdefault(key_id, []).append(outcomes)
    return found

"""Outcomes and warnings of the hits of a question: one read, and none where nothing was ever recorded."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from opx.domain.documents import DocumentKey, DocumentState
from opx.domain.ids import stable_hash
from opx.domain.knowledge import WARNINGS_CATEGORY
from opx.domain.record import replace
from opx.domain.results import Answer, IndexedChunk, RetrievalResult
from opx.domain.scopes import scope_of_key
from opx.errors import StoreUnavailableError
from opx.ports import Item, Table
from opx.retrieval.judging import Experienced, Inexperienced, Judged

if TYPE_CHECKING:
    from opx.domain.outcomes import DocumentOutcomes, RecordedOutcome
    from opx.ingestion.catalog import Catalog
    from opx.learning.outcomes.tried import Holds, TriedSteps
    from opx.learning.warnings import StepWarnings

# -- rows of the table. All that is about a scope is in places that name it
#
# `scores#<scope>` has an item a document, by the id of its key; `told#<scope>#<key id>` one for each outcome that was told
# of it; `warnings#<scope>` one for each time that a step was warned of; `known#<scope>` says that there are any, so that
# questions of those who have none needn't look.

OUTCOMES, WARNINGS = "outcomes", "warnings"
"""What may be known of a scope."""

_HEADS, _TOLD, _WARNED, _KNOWN = "scores#", "told#", "warnings#", "known#"


def head_key(scope_key: str, key_id: str) -> dict[str, str]:
    """Of what is known of a document."""
    return {"place": _HEADS + scope_key, "entry": key_id}


def told_key(scope_key: str, key_id: str, outcome_id: str) -> dict[str, str]:
    return {"place": told_partition(scope_key, key_id), "entry": outcome_id}


def told_partition(scope_key: str, key_id: str) -> str:
    return f"{_TOLD}{scope_key}#{key_id}"


def warned_partition(scope_key: str) -> str:
    return _WARNED + scope_key


def known_key(scope_key: str, kind: str) -> dict[str, str]:
    return {"place": _KNOWN + scope_key, "entry": kind}


def known_scope(item: Item) -> str:
    """The scope that an item with a `known_key` is of."""
    return str(item["place"]).removeprefix(_KNOWN)


def head_scope(item: Item) -> str:
    """The scope that an item with a `head_key` is of."""
    return str(item["place"]).removeprefix(_HEADS)


def head_item(scope_key: str, key_id: str, head: DocumentOutcomes, last: RecordedOutcome, revision: int) -> Item:
    """`last` is the outcome that was counted with this writing: its own item is written after it."""
    return {
        **head_key(scope_key, key_id),
        **_state(head),
        "last": last.to_json(),
        "revision": revision,
    }


def _state(head: DocumentOutcomes) -> dict[str, Any]:
    told = head.to_json()
    return {name: told[name] for name in ("documentId", "version", "title", "now", "earlier", "sections", "updatedAt")}


def told_item(scope_key: str, key_id: str, told: RecordedOutcome, revision: int, expires_at: int) -> Item:
    """`revision` is that of the counts with it."""
    place = told_key(scope_key, key_id, told.outcome_id)
    return {**place, **told.to_json(), "revision": revision, "expiresAt": expires_at}


def rows_of(table: Table, scope_key: str) -> Iterator[Item]:
    """Every item of a scope, page by page; items may be deleted on the way."""
    for head in table.query(_HEADS + scope_key):
        yield from table.query(told_partition(scope_key, head["entry"]))
        yield head
    yield from table.query(warned_partition(scope_key))
    yield from table.query(_KNOWN + scope_key)


# -- the scopes of which anything is known at all, so that questions of the others cost nothing

LOOKED_AGAIN_SECONDS = 60.0
"""After which a process looks whether another one has written the first outcome or warning of a scope."""

_KINDS = (OUTCOMES, WARNINGS)


class KnownScopes:
    """Remembers what there is, which is never taken back, and for a while what there isn't."""

    def __init__(self, table: Table, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._monotonic = monotonic
        self._found: set[tuple[str, str]] = set()
        self._looked: dict[str, float] = {}

    def note(self, scope_key: str, kind: str, mark: str = "") -> None:
        """Write that there is something; `mark` is another one each time that readers have to look again."""
        if mark or (scope_key, kind) not in self._found:
            self._table.put({**known_key(scope_key, kind), "mark": mark})
            self._found.add((scope_key, kind))

    def of(self, scopes: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """The scopes of which there are outcomes, and those of which there are warnings. One read a minute at most.
        Raises `StoreUnavailableError`."""
        self._look(scopes)
        return {kind: [scope for scope in scopes if (scope, kind) in self._found] for kind in _KINDS}

    def _look(self, scopes: Sequence[str]) -> None:
        now = self._monotonic()
        unsure = [scope for scope in scopes if self._is_unsure(scope, now)]
        if not unsure:
            return
        keys = [known_key(scope, kind) for scope in unsure for kind in self._missing(scope)]
        self._found.update((known_scope(item), str(item["entry"])) for item in self._table.get_many(keys))
        self._looked.update(dict.fromkeys(unsure, now))

    def _is_unsure(self, scope: str, now: float) -> bool:
        looked = self._looked.get(scope)
        stale = looked is None or now - looked >= LOOKED_AGAIN_SECONDS
        return stale and any(True for _ in self._missing(scope))

    def _missing(self, scope: str) -> Iterable[str]:
        return (kind for kind in _KINDS if (scope, kind) not in self._found)


# -- what is known of hits

log = logging.getLogger(__name__)

MAX_READ = 100
"""Items of the one read: as many as DynamoDB gives in one request (BatchGetItem, its API reference)."""

_SCOPES_REMEMBERED = 32


class LearnedExperience:
    """For all readers of a process; each is asked for with the scopes that it may see."""

    def __init__(
        self, table: Table, known: KnownScopes, warnings: Callable[[], StepWarnings], catalog: Callable[[], Catalog]
    ) -> None:
        self._table = table
        self._known = known
        self._warnings = warnings
        self._catalog = catalog
        self._tried: dict[str, tuple[str, TriedSteps]] = {}

    def seen_by(self, scopes: Sequence[str]) -> ReadersExperience:
        """As a reader who may see these scopes."""
        return ReadersExperience(self, scopes)

    def of(self, scopes: Sequence[str], judged: Sequence[Judged]) -> Experienced:
        """What these scopes know of the hits. Raises `StoreUnavailableError`."""
        known = self._known.of(scopes)
        if not any(known.values()):
            return Inexperienced()
        keys = [known_key(scope, WARNINGS) for scope in known[WARNINGS]]
        room = (MAX_READ - len(keys)) // max(len(known[OUTCOMES]), 1)
        best_first = sorted(judged, key=lambda one: -one.score)
        documents = dict.fromkeys(one.hit.indexed.key_id for one in best_first)
        keys += [head_key(scope, key) for key in islice(documents, max(room, 1)) for scope in known[OUTCOMES]]
        items = self._table.get_many(keys)
        heads = [item for item in items if item["entry"] != WARNINGS]
        tried = [self._tried_in(item) for item in items if item["entry"] == WARNINGS]
        return Told(_by_key(heads), tried, judged, self._document_of)

    def _tried_in(self, item: Item) -> TriedSteps:
        """The steps of a scope, read again when its mark is another one."""
        from opx.learning.outcomes.tried import TriedSteps

        scope, mark = known_scope(item), str(item["mark"])
        found = self._tried.get(scope)
        if found is None or found[0] != mark:
            while len(self._tried) >= _SCOPES_REMEMBERED:
                self._tried.pop(next(iter(self._tried)), None)
            found = self._tried[scope] = (mark, TriedSteps(scope, self._warnings().tried(scope)))
        return found[1]

    def _document_of(self, scope_key: str, source: str) -> str:
        latest = next(self._catalog().versions(DocumentKey(scope_of_key(scope_key), source)), None)
        return latest.document_id if latest and latest.state is DocumentState.CURRENT else ""


class ReadersExperience:
    """What one reader gets to know."""

    def __init__(self, learned: LearnedExperience, scopes: Sequence[str]) -> None:
        self._learned = learned
        self._scopes = scopes

    def of(self, judged: Sequence[Judged]) -> Experienced:
        return self._learned.of(self._scopes, judged)


class Told:
    """What is known of the hits of one question: `heads` by scope and key id."""

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
        self._indexed = {_place(one.hit.indexed): one.hit.indexed for one in judged}
        self._moved: dict[str, float] = {}

    def weighed(self, judged: Sequence[Judged]) -> list[Judged]:
        return [self._weighed(one) for one in judged]

    def _weighed(self, judged: Judged) -> Judged:
        chunk = judged.hit.indexed.chunk
        heads = [head.seen_from(chunk.document_id) for head in self._heads.get(judged.hit.indexed.key_id, ())]
        if not heads:
            return judged
        together = heads[0]
        for head in heads[1:]:
            together = together.plus(head)
        outcome = together.score_of(chunk.section)
        if not outcome.tally.all.total:
            return judged
        if outcome.factor != 1.0:
            self._moved[judged.hit.indexed.entry_id] = round(outcome.factor, 6)
        return replace(judged, outcome=outcome)

    def told_of(self, answer: Answer) -> Answer:
        outcomes = stable_hash("outcomes", sorted(self._moved.items()))[:16] if self._moved else ""
        try:
            results = tuple(map(self._warned, answer.results)) if self._tried else answer.results
        except StoreUnavailableError:
            log.exception("warnings can't be looked up")
            note = "whether steps of these documents were warned of could not be read"
            return replace(answer, outcomes=outcomes, partial=True, notes=(*answer.notes, note))
        return replace(answer, outcomes=outcomes, results=results)

    def _warned(self, result: RetrievalResult) -> RetrievalResult:
        from opx.learning.outcomes.tried import Passage

        if result.category == WARNINGS_CATEGORY:
            return result
        indexed = self._indexed.get((result.document_id, str(result.metadata.get("chunkId", ""))))
        passage = Passage(
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
    """What is known of documents by the id of their key, the scopes in order."""
    from opx.domain.outcomes import DocumentOutcomes

    found: dict[str, list[DocumentOutcomes]] = {}
    for item in sorted(items, key=head_scope):
        found.setdefault(str(item["entry"]), []).append(DocumentOutcomes.from_json(item))
    return found


def _place(indexed: IndexedChunk) -> tuple[str, str]:
    return indexed.chunk.document_id, indexed.chunk.chunk_id

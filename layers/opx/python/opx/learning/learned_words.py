"""Learns words from resolved incidents: what was said of an incident stands for the page that resolved it.

People report in words that no page has. Each outcome of which something was said is a row; the rows of a scope say which
words stand for which page: those `resolved` for it, the others against it (docs/decisions/0056-learnt-words.md).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import stable_hash
from opx.domain.outcomes import LearntPage, OutcomeResult, RecordedOutcome
from opx.domain.scopes import scope_of_key
from opx.ingestion.corpus.catalog import Catalog
from opx.learning.outcome_store import KEPT_DAYS, LEARNT, KnownScopes, resolved_key, resolved_partition
from opx.ports import Clock, Table
from opx.text.analyzer import STEMMERS
from opx.text.fields import words

log = logging.getLogger(__name__)

MAX_SAID = 500
"""Characters that are kept of what was said of an incident."""

MAX_RESOLVED = 5_000
"""Outcomes of a scope that words are learnt from."""

LEAST_INCIDENTS = 2
"""In which a word has to be said: one is a coincidence."""

LEAST_SHARE = 0.6
"""Of the incidents in which a word was said, those that the same page resolved."""

_DAY_SECONDS = 86_400


def said_of(*texts: str) -> str:
    """The first words of what was said of an incident, on one line."""
    text = " ".join(" ".join(texts).split())
    return text if len(text) <= MAX_SAID else text[: MAX_SAID + 1].rpartition(" ")[0] or text[:MAX_SAID]


@dataclass(frozen=True, slots=True)
class ToldIncident:
    """An outcome: the page, by its scope and source, whether it resolved the incident, and which that was. `name` tells
    incidents apart: without an incident it is that of the receipt."""

    outcome_id: str
    page: tuple[str, str]
    incident: str
    name: str
    at: str
    is_resolved: bool = True


class ScopeWords:
    """What was said of the incidents of one scope, by its terms."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._by_term: dict[str, list[ToldIncident]] = defaultdict(list)
        for row in rows:
            one = _from_row(row)
            for term in _terms_of(row["said"]):
                self._by_term[term].append(one)

    def saying(self, terms: Iterable[str]) -> dict[str, ToldIncident]:
        """Those of which any of these terms was said, by the outcome's id."""
        return {one.outcome_id: one for term in terms for one in self._by_term.get(term, ())}


class ScopedWords:
    """The words that one reader's scopes learnt. Of pages that the reader may not see, nothing counts."""

    def __init__(
        self, of_scopes: Sequence[ScopeWords], visible: Collection[str], catalog: Callable[[], Catalog]
    ) -> None:
        self._of_scopes = of_scopes
        self._visible = visible
        self._catalog = catalog

    def pages(self, word: str) -> list[LearntPage]:
        """The pages that a word stands for, the likeliest first."""
        terms = _terms_of(word)
        saying = [
            one for each in self._of_scopes for one in each.saying(terms).values() if one.page[0] in self._visible
        ]
        by_page: dict[tuple[str, str], dict[str, ToldIncident]] = defaultdict(dict)
        for one in sorted(saying, key=lambda one: (one.at, one.incident, one.outcome_id), reverse=True):
            if one.is_resolved:
                by_page[one.page].setdefault(one.name, one)
        said = len({one.name for one in saying})
        found = [
            LearntPage(*page, tuple(one.incident for one in by_name.values() if one.incident), len(by_name), said)
            for page, by_name in by_page.items()
            if len(by_name) >= max(LEAST_INCIDENTS, LEAST_SHARE * said)
        ]
        return sorted(found, key=lambda one: (-one.confidence, one.scope_key, one.source))

    def current(self, page: LearntPage) -> KnowledgeDocument | None:
        """The page as it is now; None if it is gone. Raises `StoreUnavailableError`."""
        key = DocumentKey(scope_of_key(page.scope_key), page.source)
        latest = next(self._catalog().versions(key), None)
        return latest if latest and latest.state is DocumentState.CURRENT else None


class LearntStore:
    """The rows of resolved incidents."""

    def __init__(self, table: Table, known: KnownScopes, clock: Clock) -> None:
        self._table = table
        self._known = known
        self._clock = clock

    def enter(self, scope_key: str, told: RecordedOutcome, page: DocumentKey, said: str) -> None:
        """Have words of `said` stand for the page, or for less if it didn't help, to those who see the scope. Doing it again
        changes nothing."""
        row = {
            **resolved_key(scope_key, told.outcome_id),
            "pageScope": page.scope.key,
            "pageSource": page.source,
            "incident": told.incident,
            "receiptId": told.receipt_id,
            "result": told.result.value,
            "said": said,
            "at": told.at,
            "expiresAt": int(self._clock()) + KEPT_DAYS * _DAY_SECONDS,
        }
        self._table.put(row)
        self._noted(scope_key, told)

    def forget(self, scope_key: str, told: RecordedOutcome) -> None:
        """Take back what was learnt from an outcome."""
        key = resolved_key(scope_key, told.outcome_id)
        if self._table.get(key) is not None:
            self._table.delete(key)
            self._noted(scope_key, told)

    def words(self, scope_key: str) -> ScopeWords:
        """What was said in a scope, of `MAX_RESOLVED` outcomes."""
        rows = list(islice(self._table.query(resolved_partition(scope_key)), MAX_RESOLVED + 1))
        if len(rows) > MAX_RESOLVED:
            log.warning(
                "%s has more than %d resolved incidents; words are learnt from so many", scope_key, MAX_RESOLVED
            )
        return ScopeWords(rows[:MAX_RESOLVED])

    def _noted(self, scope_key: str, told: RecordedOutcome) -> None:
        self._known.note(scope_key, LEARNT, mark=stable_hash(told.outcome_id, told.result.value, self._clock()))


def _terms_of(said: str) -> frozenset[str]:
    """In every language: notes are short, mix languages, and have other forms of a word than questions."""
    return frozenset(term for terms in words(said, tuple(STEMMERS)).values() for term in terms)


def _from_row(row: Mapping[str, Any]) -> ToldIncident:
    incident = str(row["incident"])
    name = f"incident {incident.casefold()}" if incident else f"receipt {row['receiptId']}"
    page = str(row["pageScope"]), str(row["pageSource"])
    resolved = row.get("result", OutcomeResult.RESOLVED) == OutcomeResult.RESOLVED
    return ToldIncident(str(row["entry"]), page, incident, name, str(row["at"]), resolved)

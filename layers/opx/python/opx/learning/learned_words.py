"""Learns words from resolved incidents: the words of an incident's report stand for the page that resolved it.

People report in words that no page has. Each outcome with a report is a row; the rows of a scope map words to pages: those
with the result `resolved` count for a page, the others against it (docs/decisions/0056-learnt-words.md).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from msgspec import field

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import stable_hash
from opx.domain.outcomes import LearntPage, OutcomeResult, RecordedOutcome
from opx.domain.record import Record, like
from opx.domain.scopes import scope_of_key
from opx.ingestion.corpus.catalog import Catalog
from opx.learning.outcome_store import KEPT_DAYS, LEARNT, KnownScopes, resolved_key, resolved_partition
from opx.ports import Clock, Item, Table
from opx.ports.tables import readable, row_of
from opx.text.analyzer import STEMMERS
from opx.text.fields import words

log = logging.getLogger(__name__)

MAX_REPORT = 500
"""Characters that are kept of the report of an incident."""

MAX_RESOLVED = 5_000
"""Outcomes of a scope from which words are learnt."""

LEAST_INCIDENTS = 2
"""Incidents that must share a word: one is a coincidence."""

LEAST_SHARE = 0.6
"""Share of the incidents with a word that the same page must have resolved."""

_DAY_SECONDS = 86_400


def report_of(*texts: str) -> str:
    """The report of an incident from its parts: on one line, cut at a word to `MAX_REPORT` characters."""
    text = " ".join(" ".join(texts).split())
    return text if len(text) <= MAX_REPORT else text[: MAX_REPORT + 1].rpartition(" ")[0] or text[:MAX_REPORT]


class ReportedIncident(Record, frozen=True):
    """An outcome with the report of its incident, and its row. Rows of earlier releases are of resolved incidents alone."""

    outcome_id: str = field(name="entry")
    page_scope: str
    page_source: str
    incident: str
    receipt_id: str
    report: str = field(name="said")
    at: str
    result: OutcomeResult = OutcomeResult.RESOLVED

    @property
    def page(self) -> tuple[str, str]:
        """Scope and source of the page."""
        return self.page_scope, self.page_source

    @property
    def name(self) -> str:
        """Identifies the incident: by the receipt if none was named."""
        return f"incident {self.incident.casefold()}" if self.incident else f"receipt {self.receipt_id}"


class ScopeWords:
    """Reported incidents of one scope, by the terms of their reports."""

    def __init__(self, rows: Iterable[Item]) -> None:
        self._by_term: dict[str, list[ReportedIncident]] = defaultdict(list)
        for one in readable(partial(row_of, ReportedIncident), rows):
            for term in _terms_of(one.report):
                self._by_term[term].append(one)

    def with_any(self, terms: Iterable[str]) -> dict[str, ReportedIncident]:
        """Incidents whose reports have any of these terms, by the outcome's id."""
        return {one.outcome_id: one for term in terms for one in self._by_term.get(term, ())}


@dataclass(eq=False)
class ScopedWords:
    """Learnt words of one reader's scopes. Incidents of pages that the reader may not see don't count."""

    of_scopes: Sequence[ScopeWords]
    visible: Collection[str]
    catalog: Callable[[], Catalog]

    def pages(self, word: str) -> list[LearntPage]:
        """The pages that a word stands for, the likeliest first."""
        terms = _terms_of(word)
        matching = [
            one for each in self.of_scopes for one in each.with_any(terms).values() if one.page[0] in self.visible
        ]
        by_page: dict[tuple[str, str], dict[str, ReportedIncident]] = defaultdict(dict)
        for one in sorted(matching, key=lambda one: (one.at, one.incident, one.outcome_id), reverse=True):
            if one.result is OutcomeResult.RESOLVED:
                by_page[one.page].setdefault(one.name, one)
        reported = len({one.name for one in matching})
        found = [
            LearntPage(*page, tuple(one.incident for one in by_name.values() if one.incident), len(by_name), reported)
            for page, by_name in by_page.items()
            if len(by_name) >= max(LEAST_INCIDENTS, LEAST_SHARE * reported)
        ]
        return sorted(found, key=lambda one: (-one.confidence, one.scope_key, one.source))

    def current(self, page: LearntPage) -> KnowledgeDocument | None:
        """The page as it is now; None if it is gone. Raises `StoreUnavailableError`."""
        key = DocumentKey(scope_of_key(page.scope_key), page.source)
        latest = next(self.catalog().versions(key), None)
        return latest if latest and latest.state is DocumentState.CURRENT else None


class LearntStore:
    """Rows of outcomes with the reports of their incidents."""

    def __init__(self, table: Table, known: KnownScopes, clock: Clock) -> None:
        self._table = table
        self._known = known
        self._clock = clock

    def enter(self, scope_key: str, outcome: RecordedOutcome, page: DocumentKey, report: str) -> None:
        """Stores an outcome with its report, whose words count for the page, or against it if it didn't help, to all readers
        of the scope. Idempotent."""
        reported = like(ReportedIncident, outcome, page_scope=page.scope.key, page_source=page.source, report=report)
        expires_at = int(self._clock()) + KEPT_DAYS * _DAY_SECONDS
        key = resolved_key(scope_key, outcome.outcome_id)
        self._table.put({**key, **reported.to_json(), "expiresAt": expires_at})
        self._mark_changed(scope_key, outcome)

    def forget(self, scope_key: str, outcome: RecordedOutcome) -> None:
        """Removes the words learnt from an outcome."""
        key = resolved_key(scope_key, outcome.outcome_id)
        if self._table.get(key) is not None:
            self._table.delete(key)
            self._mark_changed(scope_key, outcome)

    def words(self, scope_key: str) -> ScopeWords:
        """Reported incidents of a scope, of `MAX_RESOLVED` outcomes."""
        rows = list(islice(self._table.query(resolved_partition(scope_key)), MAX_RESOLVED + 1))
        if len(rows) > MAX_RESOLVED:
            log.warning("%s has more than %d resolved incidents; the rest is left out", scope_key, MAX_RESOLVED)
        return ScopeWords(rows[:MAX_RESOLVED])

    def _mark_changed(self, scope_key: str, outcome: RecordedOutcome) -> None:
        self._known.note(scope_key, LEARNT, mark=stable_hash(outcome.outcome_id, outcome.result.value, self._clock()))


def _terms_of(text: str) -> frozenset[str]:
    """Terms in every language: notes are short, mix languages, and inflect words differently than questions do."""
    return frozenset(term for terms in words(text, tuple(STEMMERS)).values() for term in terms)

"""Adds pages that were learnt from resolved incidents as the meaning of a question's words.

Imported only for questions of readers whose scopes have learnt words, and whose first answer isn't sure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from opx.domain.documents import KnowledgeDocument
from opx.domain.outcomes import LearntPage
from opx.domain.record import replace
from opx.hygiene.untrusted import quoted, spoken
from opx.ports import SearchEngine, SearchFilter, SearchRequest
from opx.retrieval.hybrid import terms_of
from opx.retrieval.query_language import ParsedQuery
from opx.retrieval.question import Question, TermChange, Why
from opx.retrieval.rewording import QuestionWord, words_of
from opx.text.analyzer import KNOWN_BY, STOP_WORDS

MAX_PAGES = 2
"""Learnt pages that are searched for one question."""

MIN_LETTERS = 3
"""Fewest letters of a learnt word."""

FEW_ENTRIES, FEW_SHARE = 5, 0.01
"""Most entries with a learnt word, in number or as a share of all: tickets repeat it. More frequent words belong to the
corpus."""

_READ_ENTRIES = 50
_INCIDENTS_NAMED = 5
_TITLE_CHARACTERS, _NAME_CHARACTERS = 120, 40


class LearnedWords(Protocol):
    """Words learnt in a reader's scopes."""

    def pages(self, word: str) -> Sequence[LearntPage]:
        """The pages that a word means, the likeliest first."""

    def current(self, page: LearntPage) -> KnowledgeDocument | None:
        """The current version of the page; None if it is gone. Raises `StoreUnavailableError`."""


class StandIn(Struct, frozen=True):
    """A page, and the words of the question that mean it, in order."""

    page: LearntPage
    document: KnowledgeDocument
    words: tuple[QuestionWord, ...]

    @property
    def change(self) -> TermChange:
        return TermChange(self.words[0].start, self.words[-1].end, self._before, self._title, Why.LEARNT)

    @property
    def note(self) -> str:
        named = [
            quoted(name, _NAME_CHARACTERS) if " " in name else spoken(name, _NAME_CHARACTERS)
            for name in self.page.incidents[:_INCIDENTS_NAMED]
        ]
        more = self.page.resolved - len(named)
        others = f"{more} other incident{'s' if more > 1 else ''}" if named else f"{more} incidents"
        source = ", ".join(named) + (" and " if named and more else "") + (others if more else "")
        return f"searched also for: {self._title} ({self._before}; learnt from {source})"

    @property
    def _before(self) -> str:
        return ", ".join(dict.fromkeys(word.text for word in self.words))

    @property
    def _title(self) -> str:
        return spoken(self.document.title, _TITLE_CHARACTERS)


class StandIns:
    """Finds the pages that words mean, within some scopes."""

    def __init__(self, engine: SearchEngine, learnt: LearnedWords, scopes: Sequence[str]) -> None:
        self._engine = engine
        self._learnt = learnt
        self._within = SearchFilter(tuple(scopes))

    def of(self, parsed: ParsedQuery, as_typed: Question) -> list[StandIn]:
        """The pages that words of `as_typed` mean. Such a word is rare in the corpus, and the page doesn't have it.
        Raises `StoreUnavailableError`."""
        by_page = sorted(self._meant(parsed, as_typed), key=lambda some: -some[0][0].confidence)[:MAX_PAGES]
        current = [(some, document) for some in by_page if (document := self._learnt.current(some[0][0]))]
        if not current:  # without a timing: that would reveal what others learnt
            return []
        with parsed.timed("reword"):
            rare = self._rare(parsed, [word for some, _ in current for _, word in some])
            found = (
                self._stand_in(parsed, document, [one for one in some if one[1].text in rare])
                for some, document in current
            )
            return [one for one in found if one]

    def _stand_in(
        self, parsed: ParsedQuery, document: KnowledgeDocument, meant: Sequence[tuple[LearntPage, QuestionWord]]
    ) -> StandIn | None:
        """The page with the question's words that it doesn't have; None without any."""
        held = self._terms_with(parsed, [word for _, word in meant], document) if meant else frozenset()
        kept = [(page, word) for page, word in meant if held.isdisjoint(word.terms)]
        if not kept:
            return None
        likeliest = max((page for page, _ in kept), key=lambda page: page.confidence)
        return StandIn(likeliest, document, tuple(word for _, word in kept))

    def _meant(self, parsed: ParsedQuery, as_typed: Question) -> Iterable[list[tuple[LearntPage, QuestionWord]]]:
        """The words of the question that mean a page, page by page. Everyday words of its languages mean none."""
        by_page: dict[tuple[str, str], list[tuple[LearntPage, QuestionWord]]] = {}
        everyday = {
            word for language in parsed.languages for some in (KNOWN_BY, STOP_WORDS) for word in some.get(language, ())
        }
        for word in words_of(parsed, as_typed.text, as_typed):
            if len(word.text) < MIN_LETTERS or not word.terms or word.text.casefold() in everyday:
                continue
            for page in self._learnt.pages(word.text):
                by_page.setdefault((page.scope_key, page.source), []).append((page, word))
        return by_page.values()

    def _rare(self, parsed: ParsedQuery, words: Sequence[QuestionWord]) -> frozenset[str]:
        """The words that few entries have; none if the engine doesn't count."""
        text = " ".join(word.text for word in words)
        counted = self._engine.search(SearchRequest(self._within, text, None, 1, parsed.languages))
        if counted.fused is not None:
            return frozenset()
        most = max(FEW_ENTRIES, FEW_SHARE * counted.entry_count)
        return frozenset(one.text for one in words if counted.term_frequencies.get(one.terms[0], 0) <= most)

    def _terms_with(
        self, parsed: ParsedQuery, words: Sequence[QuestionWord], document: KnowledgeDocument
    ) -> frozenset[str]:
        """The terms of the document's passages with any of the words."""
        within = replace(self._within, document_ids=(document.document_id,))
        text = " ".join(word.text for word in words)
        found = self._engine.search(SearchRequest(within, text, None, _READ_ENTRIES, parsed.languages))
        return frozenset[str]().union(*map(terms_of, found.chunks.values()))

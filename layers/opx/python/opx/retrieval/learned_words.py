"""Pages that words of a question stand for, as resolved incidents have it.

Imported only for questions of readers in whose scopes something was learnt, and whose first answer isn't sure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from opx.domain.documents import KnowledgeDocument
from opx.domain.outcomes import LearntPage
from opx.domain.queries import Band
from opx.domain.record import replace
from opx.hygiene.untrusted import one_line
from opx.ports import SearchEngine, SearchFilter, SearchRequest
from opx.retrieval.hybrid import terms_of
from opx.retrieval.judging import Judged
from opx.retrieval.query_language import ParsedQuery
from opx.retrieval.question import Question, TermChange, Why
from opx.retrieval.rewording import AskedWord, words_of
from opx.retrieval.routing import Routed
from opx.text.analyzer import KNOWN_BY, STOP_WORDS

MAX_PAGES = 2
"""That a question is searched for besides."""

MIN_LETTERS = 3
"""Of a word that stands for a page."""

FEW_ENTRIES, FEW_SHARE = 5, 0.01
"""How many entries may have such a word at most, in number or as a share of all: tickets repeat it. Words that more of them
have are the corpus' own."""

_READ_ENTRIES = 50
_INCIDENTS_NAMED = 5
_TITLE_CHARACTERS, _NAME_CHARACTERS = 120, 40


class LearnedWords(Protocol):
    """What a reader's scopes learnt."""

    def pages(self, word: str) -> Sequence[LearntPage]:
        """The pages that a word stands for, the likeliest first."""

    def current(self, page: LearntPage) -> KnowledgeDocument | None:
        """The page as it is now; None if it is gone. Raises `StoreUnavailableError`."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """A page, and the words of the question that stand for it, in order."""

    page: LearntPage
    document: KnowledgeDocument
    words: tuple[AskedWord, ...]

    @property
    def change(self) -> TermChange:
        return TermChange(self.words[0].start, self.words[-1].end, self._before, self._title, Why.LEARNT)

    @property
    def note(self) -> str:
        named = [_cut(name, _NAME_CHARACTERS) for name in self.page.incidents[:_INCIDENTS_NAMED]]
        more = self.page.resolved - len(named)
        others = f"{more} other incident{'s' if more > 1 else ''}" if named else f"{more} incidents"
        source = ", ".join(named) + (" and " if named and more else "") + (others if more else "")
        return f"searched also for: {self._title} ({self._before}; learnt from {source})"

    @property
    def _before(self) -> str:
        return ", ".join(dict.fromkeys(word.text for word in self.words))

    @property
    def _title(self) -> str:
        return _cut(self.document.title, _TITLE_CHARACTERS)


class StandIns:
    """Finds the pages that words stand for, among what some scopes hold."""

    def __init__(self, engine: SearchEngine, learnt: LearnedWords, scopes: Sequence[str]) -> None:
        self._engine = engine
        self._learnt = learnt
        self._within = SearchFilter(tuple(scopes))

    def of(self, asked: ParsedQuery, as_typed: Question) -> list[StandIn]:
        """The pages that words of `as_typed` stand for. Such a word is rare in the corpus, and the page doesn't have it.
        Raises `StoreUnavailableError`."""
        by_page = sorted(self._meant(asked, as_typed), key=lambda some: -some[0][0].confidence)[:MAX_PAGES]
        current = [(some, document) for some in by_page if (document := self._learnt.current(some[0][0]))]
        if not current:  # also of the time that this takes nothing is shown: it would tell what others learnt
            return []
        with asked.timed("reword"):
            rare = self._rare(asked, [word for some, _ in current for _, word in some])
            found = (
                self._stand_in(asked, document, [one for one in some if one[1].text in rare])
                for some, document in current
            )
            return [one for one in found if one]

    def _stand_in(
        self, asked: ParsedQuery, document: KnowledgeDocument, meant: Sequence[tuple[LearntPage, AskedWord]]
    ) -> StandIn | None:
        """The page with the words that it doesn't have; None without any."""
        held = self._terms_with(asked, [word for _, word in meant], document) if meant else frozenset()
        kept = [(page, word) for page, word in meant if held.isdisjoint(word.terms)]
        if not kept:
            return None
        likeliest = max((page for page, _ in kept), key=lambda page: page.confidence)
        return StandIn(likeliest, document, tuple(word for _, word in kept))

    def _meant(self, asked: ParsedQuery, as_typed: Question) -> Iterable[list[tuple[LearntPage, AskedWord]]]:
        """The words of the question that stand for a page, page by page. Everyday words of its languages stand for none."""
        by_page: dict[tuple[str, str], list[tuple[LearntPage, AskedWord]]] = {}
        everyday = {
            word for language in asked.languages for some in (KNOWN_BY, STOP_WORDS) for word in some.get(language, ())
        }
        for word in words_of(asked, as_typed.text, as_typed):
            if len(word.text) < MIN_LETTERS or not word.terms or word.text.casefold() in everyday:
                continue
            for page in self._learnt.pages(word.text):
                by_page.setdefault((page.scope_key, page.source), []).append((page, word))
        return by_page.values()

    def _rare(self, asked: ParsedQuery, words: Sequence[AskedWord]) -> frozenset[str]:
        """Those of the words that few entries have; none where the engine doesn't count."""
        text = " ".join(word.text for word in words)
        counted = self._engine.search(SearchRequest(self._within, text, None, 1, asked.languages))
        if counted.fused is not None:
            return frozenset()
        most = max(FEW_ENTRIES, FEW_SHARE * counted.entry_count)
        return frozenset(one.text for one in words if counted.term_frequencies.get(one.terms[0], 0) <= most)

    def _terms_with(
        self, asked: ParsedQuery, words: Sequence[AskedWord], document: KnowledgeDocument
    ) -> frozenset[str]:
        """The terms of the document's passages that have any of the words."""
        within = replace(self._within, document_ids=(document.document_id,))
        text = " ".join(word.text for word in words)
        found = self._engine.search(SearchRequest(within, text, None, _READ_ENTRIES, asked.languages))
        return frozenset[str]().union(*map(terms_of, found.chunks.values()))


def add_pages(asked: ParsedQuery, found: Sequence[StandIn], routed: Routed, search: Callable[[str], Routed]) -> None:
    """Add the passages of these pages that `search` finds within each, by the question with its title; others stay as they
    are. A page is as sure as it is likely to be meant, and no surer than what was found likely without it. One that was surer
    by itself stays as it was. Raises `StoreUnavailableError`."""
    question = asked.question
    best = max((hit.confidence for hit in routed.judged), default=0.0)
    bound = best if best >= Band.LIKELY.least else 1.0
    for one in found:
        confidence, name = min(one.page.confidence, bound), one.document.document_id
        if any(hit.confidence >= confidence for hit in routed.judged if _document_of(hit) == name):
            continue
        asked.question = replace(question, text=f"{question.text} {one.document.title}")
        hits = [replace(hit, confidence=confidence) for hit in search(name).judged]
        if not hits:
            continue
        routed.judged = [*(hit for hit in routed.judged if _document_of(hit) != name), *hits]
        routed.added = True
        asked.changes = (*asked.changes, one.change)
        asked.note(one.note)
    asked.question = question


def _document_of(judged: Judged) -> str:
    return judged.hit.indexed.chunk.document_id


def _cut(text: str, most: int) -> str:
    line = one_line(text)
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"

"""Assembles an answer for a reader: of each document that was found, the blocks that help, within a budget of tokens.

The usefulness of a block is estimated from the question's terms in it, the passages that were found, the role of its
section and its position; the coefficients were fitted to labelled questions
(docs/decisions/0050-answers-by-procedure.md). Blocks are taken by probability per token, over all documents at once, and
shown in the document's order."""

from __future__ import annotations

import heapq
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from msgspec import Struct, field

from opx.domain.procedures import Outline, SectionKind
from opx.domain.results import RetrievalResult
from opx.retrieval.question import is_identifier
from opx.text.analyzer import analyze
from opx.text.languages import question_languages
from opx.text.procedures.layout import is_row, with_heads
from opx.text.tokenizer import estimated_tokens

MAX_DOCUMENTS = 5
"""Documents with text in the answer; further ones are only named."""
_MARK = 4
"""Tokens of a mark for omitted blocks."""
_SMALL = 8
_PER_TOKEN = 0.7
"""Exponent of a block's length in its value per token: at 1, very short blocks win."""
_MAX_TERMS = 200
_READ = 600
"""Characters of a question whose words are named as the reason."""
_WORD = re.compile(r"[\w.:/-]{2,}\w")
_NEVER = 0.01
"""Added to a confidence before its logarithm is taken."""


class Coefficients(NamedTuple):
    """Weights of the evidence that a block helps. `terms` is the weight of the question's terms that it has, as a share of
    all that the documents have (0 to 1), `before` that of the block before it. `passage` is the logarithm of the fused
    score of the passage around it relative to the best of its document, `confidence` the logarithm of the document's
    confidence, `units` that of its number of blocks; `position` is relative to the document (0 to 1)."""

    terms: float = 13.40
    terms_squared: float = -7.80
    before: float = 1.03
    passage: float = 0.52
    describes: float = -1.09
    links: float = -2.88
    in_step: float = 0.60
    warns: float = 0.54
    position: float = 2.81
    confidence: float = 0.98
    rank: float = -0.18
    units: float = -0.39


_OF = Coefficients()
_DESCRIPTIVE = (SectionKind.SYMPTOMS, SectionKind.IMPACT, SectionKind.BACKGROUND, SectionKind.REFERENCES)
_OF_KIND = {
    kind: _OF.describes * (kind in _DESCRIPTIVE) + _OF.links * (kind is SectionKind.REFERENCES) for kind in SectionKind
}


class DocumentPassages(Struct):
    """A found document: its outline, and its passages, the best first."""

    outline: Outline
    results: list[RetrievalResult]
    chosen: set[int] = field(default_factory=set)
    """Indexes of the units to show."""

    @property
    def best(self) -> RetrievalResult:
        return self.results[0]


def grouped(results: Sequence[RetrievalResult]) -> list[list[RetrievalResult]]:
    """Groups results by document, in the order of the best of each."""
    groups: dict[str, list[RetrievalResult]] = {}
    for result in results:
        groups.setdefault(result.document_id or f"{len(groups)} {result.source}", []).append(result)
    return list(groups.values())


def choose(
    terms: QuestionTerms,
    documents: Sequence[DocumentPassages],
    overheads: Sequence[int],
    budget: int,
    measure: Callable[[DocumentPassages], int],
) -> None:
    """Fills `chosen` of the documents within the budget of tokens. `overheads`: the tokens that each document takes beside
    its blocks; `measure` returns the tokens of a document's blocks as shown, which may be less than their sum."""
    weights = terms.shares([found.outline for found in documents])
    filling = _Filling(list(map(_Document, documents, overheads, map(_worths, documents, count(), weights))))
    filling.fill(budget)
    shown = [(one, overhead) for one, overhead in zip(documents, overheads, strict=True) if one.chosen]
    filling.fill(budget - sum(overhead + measure(one) for one, overhead in shown))


class _Document:
    """The blocks of a document with their value and cost."""

    def __init__(self, found: DocumentPassages, overhead: int, worths: Sequence[float]) -> None:
        self.found = found
        self.overhead = overhead
        self.tokens = [unit.tokens + _MARK for unit in found.outline.units]
        self.worths = worths
        self._headed: set[int] = set()
        self._headings: dict[int, int] = {}
        self._values: dict[int, list[float]] = {}
        self._cautions: dict[int, list[int]] = {}
        for at, unit in enumerate(found.outline.units):
            if unit.cautions and unit.step:
                self._cautions.setdefault(unit.step, []).append(at)
        self.units = list(_units_alone(found.outline))

    def needed(self, at: int) -> list[int]:
        """The units to choose with one: itself, those that have to be shown before it, and the warnings of its step."""
        units = self.found.outline.units
        wanted = dict.fromkeys((*with_heads(units, at), *self._cautions.get(units[at].step, ())))
        return [one for one in wanted if one not in self.found.chosen]

    def values(self) -> list[float]:
        """The value of each unit per token that choosing it now costs."""
        opening = 0 if self.found.chosen else self.overhead
        if opening not in self._values:
            lengths = [max(tokens + opening, _SMALL) ** _PER_TOKEN for tokens in self.tokens]
            self._values[opening] = [worth / length for worth, length in zip(self.worths, lengths, strict=True)]
        return self._values[opening]

    def cost(self, units: Sequence[int]) -> int:
        """The tokens that choosing these units costs."""
        found = self.found
        sections = {found.outline.units[at].section for at in units} - self._headed
        opening = 0 if found.chosen else self.overhead
        return opening + sum(self.tokens[at] for at in units) + sum(map(self._heading_tokens, sections))

    def _heading_tokens(self, section: int) -> int:
        if section not in self._headings:
            self._headings[section] = estimated_tokens(self.found.outline.sections[section].heading) + _MARK
        return self._headings[section]

    def choose(self, units: Sequence[int]) -> None:
        self.found.chosen.update(units)
        self._headed.update(self.found.outline.units[at].section for at in units)


class _Filling:
    """Chooses units greedily by value as long as they fit."""

    def __init__(self, documents: Sequence[_Document]) -> None:
        self._documents = documents
        self._least = min((tokens for one in documents for tokens in one.tokens), default=0)

    def fill(self, room: int) -> None:
        """Chooses units of at most `room` tokens in total."""
        values = [one.values() for one in self._documents]
        heap = [(-values[number][at], number, at) for number, one in enumerate(self._documents) for at in one.units]
        heapq.heapify(heap)
        while heap and room >= self._least:
            _, number, at = heapq.heappop(heap)
            document = self._documents[number]
            units = document.needed(at) if document.tokens[at] <= room else ()
            if not units or (cost := document.cost(units)) > room:
                continue
            opens = not document.found.chosen
            document.choose(units)
            room -= cost
            if opens:  # its other units need no head of the document any more
                values[number] = document.values()
                heap = [(-values[number][entry[2]], *entry[1:]) if entry[1] == number else entry for entry in heap]
                heapq.heapify(heap)


def _units_alone(outline: Outline) -> Iterator[int]:
    """Units that may be chosen by themselves: a table's header comes with its rows, and a line that ends in a colon with
    the units that it introduces."""
    below = [unit for unit in outline.units if unit.head >= 0]
    heads = {unit.head for unit in below if is_row(outline, unit)}
    others = {unit.head for unit in below} - heads
    heads |= {head for head in others if outline.slice(outline.units[head]).rstrip().endswith(":")}
    return (at for at in range(len(outline.units)) if at not in heads)


# -- evidence


def _worths(found: DocumentPassages, rank: int, weights: Sequence[float]) -> list[float]:
    """The value of each unit of a document, regardless of its length."""
    units, length = found.outline.units, max(len(found.outline.text), 1)
    of_document = _OF.confidence * math.log(found.best.confidence + _NEVER) + _OF.rank * rank
    of_document += _OF.units * math.log(max(len(units), 1))
    of_sections = [_OF_KIND[section.kind] + of_document for section in found.outline.sections]
    worths = []
    for unit, weight, before, passage in zip(units, weights, (0.0, *weights), _of_passages(found), strict=False):
        score = of_sections[unit.section] + (_OF.terms + _OF.terms_squared * weight) * weight + _OF.before * before
        score += _OF.passage * passage + _OF.position * unit.start / length
        worths.append(math.exp(score + _OF.in_step * (unit.step > 0) + _OF.warns * unit.warns))
    return worths


def _of_passages(found: DocumentPassages) -> Iterator[float]:
    """`Coefficients.passage` of each unit, by the first of the passages that has a part of it; -4 if none has."""
    best = max(map(_level, found.results), default=1.0)
    spans = [
        (_span_of(found.outline.text, one), math.log((_level(one) + _NEVER) / (best + _NEVER))) for one in found.results
    ]
    placed = [(*span, passage) for span, passage in spans if span]
    for unit in found.outline.units:
        yield next((one for start, end, one in placed if start < unit.end and unit.start < end), -4.0)


class QuestionTerms:
    """Finds a question's terms in documents. Stems are matched at the beginnings of words, so that documents needn't be
    analysed."""

    def __init__(self, question: str) -> None:
        stems = dict.fromkeys(analyze(question, question_languages(question)))
        chosen = [stem for stem in stems if len(stem) > 1][:_MAX_TERMS]
        self._prefixes = sorted({_prefix(stem) for stem in chosen}, key=len, reverse=True)
        self._words = [(word.lower(), word) for word in _WORD.findall(question[:_READ])]

    def words_in(self, text: str) -> list[str]:
        """Words from the question's beginning with a form in the text, the longest first; identifiers only unchanged."""
        lower = text.lower()
        found = set(self._occurrences(lower).values())
        words = {
            folded: word
            for folded, word in self._words
            if any(map(folded.startswith, found)) and (folded in lower or not is_identifier(word))
        }
        return sorted(words.values(), key=lambda word: (-len(word), word))

    def shares(self, outlines: Sequence[Outline]) -> list[list[float]]:
        """The weight of the terms in each unit of each document, as a share of the weight of all terms in the documents. A
        term that fewer units have weighs more."""
        found = [self._found(outline) for outline in outlines]
        frequency = Counter(term for units in found for terms in units for term in terms)
        count = sum(map(len, found))
        weights = {term: math.log(1 + count / times) for term, times in frequency.items()}
        total = sum(weights.values()) or 1.0
        return [[sum(map(weights.__getitem__, terms)) / total for terms in units] for units in found]

    def _found(self, outline: Outline) -> list[set[str]]:
        """The terms in each unit."""
        found: list[set[str]] = [set() for _ in outline.units]
        text = outline.text.lower()
        if len(text) != len(outline.text):  # a letter whose small form is longer moves all offsets
            return found
        starts = [unit.start for unit in outline.units]
        for offset, term in self._occurrences(text).items():
            at = bisect_right(starts, offset) - 1
            if at >= 0 and offset < outline.units[at].end:
                found[at].add(term)
        return found

    def _occurrences(self, text: str) -> dict[int, str]:
        """The terms at beginnings of words in lower-case text, by their offset: of those that overlap the first, of
        those at one offset the longest. Searched one by one: that takes half the time of a pattern of all of them, and
        compiling a pattern takes longer than reading most documents."""
        hits: dict[int, str] = {}
        for prefix in self._prefixes:
            at = text.find(prefix)
            while at >= 0:
                hits.setdefault(at, prefix)
                at = text.find(prefix, at + 1)
        found, end = {}, 0
        for at in sorted(hits):
            if at >= end:
                end = at + len(hits[at])
                if _begins_word(text, at):
                    found[at] = hits[at]
        return found


def _begins_word(text: str, at: int) -> bool:
    return at == 0 or not text[at - 1].isalnum() or not text[at].isascii()


def _prefix(stem: str) -> str:
    """The common prefix of all forms of a stemmed word: Snowball writes `happi` for happy."""
    return stem[:-1] if len(stem) > 3 and stem.endswith("i") else stem


def _level(result: RetrievalResult) -> float:
    """The score of a passage, comparable within the same search."""
    return result.parts.fused if result.parts else result.score


def _span_of(text: str, result: RetrievalResult) -> tuple[int, int] | None:
    content = result.content.strip()
    at = text.find(content)
    return (at, at + len(content)) if at >= 0 and content else None

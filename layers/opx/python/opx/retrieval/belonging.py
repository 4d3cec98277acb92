"""Ranks the pages about the resources of an alert first: a generic alert's name says the symptom, its labels say whose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from enum import IntEnum

from opx.domain.record import replace
from opx.ports import SearchFilter
from opx.retrieval.confidence import JudgedPage
from opx.retrieval.hybrid import FusedHit
from opx.retrieval.judging_records import JudgingRecord, hashed
from opx.retrieval.question import Question, contains, folded, whole_terms

ITS_OWN, LEAST_ABOUT = 0.9, 0.6
"""The highest and the least confidence of a page about the resource of an alert."""
FEW = 3
"""Most pages that mention a resource which are taken for pages about it."""
ANOTHERS = 0.45
"""The highest confidence of a page that states other resources."""


_WORDS = re.compile(r"\w+(?:[-.]\w+)*")


class Belongs(IntEnum):
    """The relation of a page to some resources: it states others, names none of them, mentions one, is about a group that
    one belongs to by its name (`redis` for `redis-node`), or is about one."""

    ANOTHERS = -1
    NONE = 0
    MENTIONS = 1
    GROUP = 2
    ABOUT = 3


class Belonging:
    """Distinguishes the pages about the resources of an alert from others."""

    def __init__(self, question: Question) -> None:
        names = question.about
        self._alert = question.alert.casefold()
        self._identifiers = frozenset(question.identifiers)
        self._names = frozenset(names)
        self._groups = frozenset(group for name in names for group in _groups(name)) - self._names
        self._terms = tuple(dict.fromkeys(term for name in names for term in whole_terms(name)))
        self._numbers = frozenset(hashed(self._terms))

    def filters(self, where: SearchFilter) -> Iterable[SearchFilter]:
        """Filters of entries whose metadata name one of the resources, and of those whose text does."""
        mine = (*self._names, *self._groups)
        yield replace(where, also_resources=mine) if where.resources else replace(where, resources=mine)
        if self._terms:
            yield replace(where, required_terms=(*where.required_terms, self._terms))

    def fit(self, hits: Sequence[FusedHit]) -> Belongs:
        """The relation of the page with these hits to the resources."""
        facts, title = hits[0].record.facts, folded(hits[0].chunk.title)
        called = {name.casefold() for name in (*facts.resources, *facts.tags, _stem(facts.source_uri))}
        if self._names & called or any(contains(title, name) for name in self._names):
            return Belongs.ABOUT
        if self._groups & called or any(contains(title, name) for name in self._groups):
            return Belongs.GROUP
        if self._mentions(hits):
            return Belongs.MENTIONS
        return Belongs.ANOTHERS if facts.resources or self._is_named_otherwise(hits[0].record) else Belongs.NONE

    def _mentions(self, hits: Sequence[FusedHit]) -> bool:
        """True if the text has one of the names, an ordinary word twice."""
        having = [folded(hit.chunk.content) for hit in hits if not self._numbers.isdisjoint(hit.record.terms)]
        counts = {name: sum(_WORDS.findall(text).count(name) for text in having) for name in self._names}
        return any(count > name.isalpha() for name, count in counts.items())

    def _is_named_otherwise(self, record: JudgingRecord) -> bool:
        """True if the title has an identifier that the question hasn't."""
        title = frozenset(record.title)
        own = (frozenset(hashed(whole_terms(one))) for one in record.identifiers if one not in self._identifiers)
        return any(terms and terms <= title for terms in own)

    def ranked(self, pages: Sequence[JudgedPage], own: Sequence[JudgedPage], bound: Set[str]) -> list[JudgedPage]:
        """The documents that the alert is bound to, then those about the resource, then the others, of which none is surer.
        `own` are documents that name the resource, as they were judged among themselves."""
        fits = {one.page.document_id: self.fit(one.page.hits) for one in (*pages, *own)}
        certain = {one.page.document_id: one for one in pages if one.least}
        least = self._least_fit(fits, is_certain=bool(certain))
        found = {one.page.document_id: one for one in pages}
        mine = {
            name: replace(found.get(name, one), confidence=max(one.confidence, found.get(name, one).confidence))
            for one in own
            if fits[name := one.page.document_id] >= least
        }
        first = [one for name, one in certain.items() if name in bound or name in mine]
        kept = {one.page.document_id for one in first}
        about = sorted(
            (one for name, one in mine.items() if name not in kept),
            key=lambda one: (-max(one.confidence, LEAST_ABOUT), -fits[one.page.document_id]),
        )
        if not first:
            about[:1] = [replace(one, confidence=min(max(one.confidence, LEAST_ABOUT), ITS_OWN)) for one in about[:1]]
        kept.update(mine)
        others = {one.page.document_id: one for one in (*own, *pages) if one.page.document_id not in kept}
        most = about[0].confidence if about and not first else 1.0
        rest = [
            replace(one, confidence=min(one.confidence, most, ANOTHERS), least=0.0, most=ANOTHERS)
            if fits[name] is Belongs.ANOTHERS and not one.least
            else replace(one, confidence=min(one.confidence, most), least=min(one.least, most))
            for name, one in others.items()
        ]
        return sorted((*first, *about, *rest), key=lambda one: -one.confidence)

    def _least_fit(self, fits: Mapping[str, Belongs], *, is_certain: bool) -> Belongs:
        """The least relation of a page that is one of the resource's. To mention it is enough if few pages do, unless the
        alert's own name has the resource's, and a page is about that name."""
        mentions = sum(fit is Belongs.MENTIONS for fit in fits.values())
        named = any(name.replace("-", "") in self._alert for name in (*self._names, *self._groups))
        return Belongs.GROUP if mentions > FEW or (named and is_certain) else Belongs.MENTIONS


def _groups(name: str) -> Iterator[str]:
    """The names that a name extends: `redis-node` and `redis` of `redis-node-a`."""
    parts = name.split("-")
    return ("-".join(parts[:end]) for end in range(len(parts) - 1, 0, -1) if len(parts[0]) > 2)


def _stem(source: str) -> str:
    """The name of a source's file, without its suffix."""
    return source.rstrip("/").rpartition("/")[2].partition(".")[0]

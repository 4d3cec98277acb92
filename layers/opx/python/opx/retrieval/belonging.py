"""Ranks the pages about the resources of an alert first: a generic alert's name says the symptom, its labels say whose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from enum import IntEnum

from opx.domain.record import replace
from opx.ports import SearchFilter
from opx.retrieval.confidence import JudgedPage
from opx.retrieval.hybrid import FusedHit
from opx.retrieval.judging_records import JudgingRecord, hashed
from opx.retrieval.question import whole_terms

ITS_OWN, LEAST_ABOUT = 0.9, 0.6
"""The highest and the least confidence of a page about the resource of an alert."""
FEW = 3
"""Most pages that mention a resource which are taken for pages about it."""
ANOTHERS = 0.45
"""The highest confidence of a page that states other resources."""


class Fit(IntEnum):
    """What a page has to do with some resources: it states others, names none of them, mentions one, is about a group that
    one belongs to by its name (`redis` for `redis-node`), or is about one."""

    ANOTHERS = -1
    NONE = 0
    MENTIONS = 1
    GROUP = 2
    ABOUT = 3


class Belonging:
    """Tells the pages about some resources from others. `names` are resources, lower-case; `asked` are the identifiers of
    the question."""

    def __init__(self, names: Sequence[str], asked: Sequence[str]) -> None:
        self._asked = frozenset(asked)
        self._names = frozenset(names)
        self._groups = frozenset(group for name in names for group in _groups(name)) - self._names
        self._terms = tuple(dict.fromkeys(term for name in names for term in whole_terms(name)))
        self._numbers = frozenset(hashed(self._terms))
        self._words = frozenset(hashed(term for name in names if name.isalpha() for term in whole_terms(name)))
        self._group_numbers = frozenset(hashed(term for name in self._groups for term in whole_terms(name)))

    def filters(self, where: SearchFilter) -> Iterable[SearchFilter]:
        """Filters of entries whose metadata name one of the resources, and of those whose text does."""
        mine = (*self._names, *self._groups)
        yield replace(where, also_resources=mine) if where.resources else replace(where, resources=mine)
        if self._terms:
            yield replace(where, required_terms=(*where.required_terms, self._terms))

    def fit(self, hits: Sequence[FusedHit]) -> Fit:
        """What the page with these hits has to do with the resources."""
        facts, title = hits[0].record.facts, frozenset(hits[0].record.title)
        called = {name.casefold() for name in (*facts.resources, *facts.tags, _stem(facts.source_uri))}
        if self._names & called or self._numbers & title:
            return Fit.ABOUT
        if self._groups & called or self._group_numbers & title:
            return Fit.GROUP
        mentions = [term for hit in hits for term in hit.record.terms if term in self._numbers]
        if len(mentions) > 1 or not self._words.issuperset(mentions):
            return Fit.MENTIONS
        return Fit.ANOTHERS if facts.resources or self._is_named_otherwise(hits[0].record) else Fit.NONE

    def _is_named_otherwise(self, record: JudgingRecord) -> bool:
        """True if the title has an identifier that the question hasn't."""
        title = frozenset(record.title)
        own = (frozenset(hashed(whole_terms(one))) for one in record.identifiers if one not in self._asked)
        return any(terms and terms <= title for terms in own)

    def ranked(self, pages: Sequence[JudgedPage], own: Sequence[JudgedPage], bound: Set[str]) -> list[JudgedPage]:
        """The documents that the alert is bound to, then those about the resource, then the others, of which none is surer.
        `own` are documents that name the resource, as they were judged among themselves."""
        fits = {one.page.document_id: self.fit(one.page.hits) for one in (*pages, *own)}
        few = sum(fit is Fit.MENTIONS for fit in fits.values()) <= FEW
        about = [one for one in own if fits[one.page.document_id] >= (Fit.MENTIONS if few else Fit.GROUP)]
        about = [_clamped(one) for one in about if one.page.document_id not in bound]
        about.sort(key=lambda one: (-one.confidence, -fits[one.page.document_id]))
        first = [one for one in pages if one.page.document_id in bound]
        kept = {one.page.document_id for one in (*first, *about)}
        others = {one.page.document_id: one for one in (*own, *pages) if one.page.document_id not in kept}
        most = about[-1].confidence if about else 1.0
        rest = [
            replace(one, confidence=min(one.confidence, most, ANOTHERS), least=0.0, most=ANOTHERS)
            if fits[name] is Fit.ANOTHERS and not one.least
            else replace(one, confidence=min(one.confidence, most), least=min(one.least, most))
            for name, one in others.items()
        ]
        return [*first, *about, *sorted(rest, key=lambda one: -one.confidence)]


def _clamped(judged: JudgedPage) -> JudgedPage:
    return replace(judged, confidence=min(max(judged.confidence, LEAST_ABOUT), ITS_OWN))


def _groups(name: str) -> Iterator[str]:
    """The names that a name extends: `redis-node` and `redis` of `redis-node-a`."""
    parts = name.split("-")
    return ("-".join(parts[:end]) for end in range(len(parts) - 1, 0, -1) if len(parts[0]) > 2)


def _stem(source: str) -> str:
    """The name of a source's file, without its suffix."""
    return source.rstrip("/").rpartition("/")[2].partition(".")[0]

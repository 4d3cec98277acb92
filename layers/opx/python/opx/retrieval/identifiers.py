"""Ranks documents about identifiers of the question first, and reports identifiers that no document is about as absent.

An index has the exact terms of identifiers, so both are certain. A document is about an identifier in its title, the name of
its source, its tags or a heading above a passage; if there is none, and a single document mentions it, that one is meant.
An alert's documents are also those that its rule names. Of several documents for one alert, those for the services in its
labels come first; and documents about the resource that its labels name come before those about its kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from enum import IntEnum
from functools import lru_cache

from msgspec import Struct, field

from opx.domain.documents import DocumentChunk
from opx.domain.record import replace
from opx.domain.results import Absent
from opx.ports import SearchFilter
from opx.retrieval.confidence import JudgedPage
from opx.retrieval.hybrid import JUDGED, FusedHit, FusedHits
from opx.retrieval.judging import DocumentHits
from opx.retrieval.judging_records import JudgingRecord, grams, hashed
from opx.retrieval.question import Question, contains, folded, required_groups, whole_terms

ABOUT, ONLY_MENTION, FEW_MENTION = 0.98, 0.96, 0.9
"""Confidences of a document about an identifier of the question, of the only one that mentions it or is clearly meant, and
of the likeliest of a few that mention it."""

CLEARLY = 0.6
"""Least confidence with which the likeliest of a few documents that mention an identifier is meant."""

ANOTHER_SERVICE = 0.8
"""Factor on a document's confidence if it is for other services than those in the labels of the alert, and another document
is for them."""

MOST_ABOUT = 3
"""Documents about one identifier that are all certain; if there are more, none is."""

MOST_ENTRIES = 50
"""Entries with an identifier that are fetched; an identifier in more entries distinguishes nothing."""

NOT_ABOUT = 0.85
"""The highest confidence for a question about an identifier that no document is about."""

LIKE = 0.5
"""Least share of trigrams that a name and its sibling have in common."""

ALERT, CODE, NAME, OTHER = "alert", "code", "name", "other"
_FEW_WORDS = 4
_OF_ALERT = re.compile(r"\b(?:alerts?|alarms?|firing|fires|fired|paged?|paging|runbooks?)\b", re.IGNORECASE)
"""Words that mark the name of an alert; in a log line, such a name may be that of a function or an error."""

_KINDS = (
    ("CVE", re.compile(r"CVE-\d{4}-\d{4,}", re.IGNORECASE)),
    ("weakness", re.compile(r"CWE-\d+", re.IGNORECASE)),
    ("technique", re.compile(r"T\d{4}(?:\.\d{3})?")),
    (CODE, re.compile(r"(?:ORA|TNS|PLS|RMAN|MY|KB)-\d{3,9}|[A-Z][A-Z0-9_]{1,14}-0\d{2,8}")),
    ("ticket", re.compile(r"(?!UTF-|SHA-|ISO-|AES-|RFC-|TLS-|EC-|MD-|X-|HTTP-)[A-Z][A-Z0-9_]{1,14}-[1-9]\d{0,8}")),
    (CODE, re.compile(r"0x[0-9A-Fa-f]{4,}|(?=\w*\d)[A-Z]{2,}[-_]?\d{3,}\w*|[A-Z]{3,}(?:_[A-Z0-9]+)+")),
    (
        ALERT,
        re.compile(r"(?!\w*(?:Exception|BackOff)\Z)(?:etcd)?(?:[A-Z][a-z0-9]+|[A-Z]{2,}(?![a-z])){3,}[A-Za-z0-9]*"),
    ),
    (
        NAME,
        re.compile(
            r"\w*[a-z0-9][A-Z]\w*|\w+(?:_\w+)+|[A-Za-z]\w*(?:(?:\.|::)[A-Za-z]\w*){2,}|[A-Za-z]\w*(?:\.\w*_\w*)+"
            r"|[A-Za-z]+(?:-[A-Za-z]+){2,}|[A-Z]+(?:-[A-Z]+)+-\d+|[1-9]\d{4,}"
        ),
    ),
)
"""Kinds of identifiers by their shape; the first match counts. Hosts, addresses, paths and versions are `OTHER`."""

_LIKELY_ENOUGH, _FEW_ENTRIES = {NAME: 0.8, OTHER: 0.9}, 8
"""Least confidence of a document to become certain by an identifier of these kinds, and most entries with it: pages mention
these for many reasons. For symbols in a single page, that page was the right one for 137 of 139 questions above .8."""

_WORDS = re.compile(r"\w+(?:-\w+)*")
_VALUE = re.compile(r"[A-Za-z][\w-]{1,63}")
_NOT_LOCATIONS = ("alertname", "severity", "status", "job", "prometheus", "reason", "state")
"""Labels that don't identify a location or service."""
_SERVICE_LABELS = ("service", "service_name", "app", "app_kubernetes_io_name", "application", "component")

Bound = Callable[[str, Mapping[str, str], str], Mapping[str, str]]
"""Maps the name of an alert, its labels and the address of its runbook ("" for none) to the ids of the documents that it or
its rule names, each with the reason."""

_WHEN = re.compile(r"symptom|alert|trigger|detect|signal|when to use", re.IGNORECASE)
"""Headings of sections on when to use a page."""

_CLAIMED = ("CVE", "weakness", "technique", "ticket", ALERT)
"""Kinds whose absence is an answer; a code's is one only if the question has hardly other words."""

_CALLED_ALERT = re.compile(r"\b(?:alert|alarm)\s+[\"'`]?([\w.:-]*\w)", re.IGNORECASE)


class QuestionIdentifier(Struct, frozen=True):
    """An identifier of a question: its `kind`, the term that all entries with it have, and their `count`; None if the engine
    doesn't report it. `bound` are the ids of the documents that an alert or its rule names, each with the reason. `others`:
    the number of other words in the question; `called_alert`: the question calls it an alert.
    """

    name: str
    kind: str
    term: str
    count: int | None
    bound: Mapping[str, str] = field(default_factory=dict)
    others: int = _FEW_WORDS
    called_alert: bool = True

    @property
    def described(self) -> bool:
        """True if the question has several other words."""
        return self.others >= _FEW_WORDS

    @property
    def is_known(self) -> bool:
        """True if an entry or a rule certainly has this identifier."""
        return bool(self.bound or (self.count and self.kind != OTHER))

    @property
    def is_rare(self) -> bool:
        """True if few enough entries have it to distinguish them from the others."""
        most = _FEW_ENTRIES if self.kind in _LIKELY_ENOUGH else MOST_ENTRIES
        return self.count is None or 0 < self.count <= most


def named_in(question: Question, found: FusedHits, bound: Bound | None = None) -> list[QuestionIdentifier]:
    """The identifiers of a question. For a pasted alert, only its name: the rest are its values."""
    others = len(question.text.split()) - 1
    mentions_alert = bool(_OF_ALERT.search(question.text))

    def named(name: str, kind: str, runbook: str = "", *, called_alert: bool = True) -> QuestionIdentifier:
        term = next(iter(whole_terms(name)), "") if " " not in name else ""
        may_be_alert = kind == ALERT or (kind in _LIKELY_ENOUGH and (mentions_alert or others < _FEW_WORDS))
        pages = bound(name, question.labels, runbook) if bound and may_be_alert else {}
        return QuestionIdentifier(
            name, ALERT if pages else kind, term, found.frequencies.get(term), pages, others, called_alert
        )

    if question.alert:
        alert = named(question.alert, ALERT, question.runbook)
        return [alert] if alert.term or alert.bound else []
    called = {name.casefold() for name in _CALLED_ALERT.findall(question.text)}
    each = []
    for name in question.identifiers:
        kind = ALERT if name.casefold() in called else kind_of(name)
        one = named(name, kind, called_alert=mentions_alert)
        is_alert = one.kind != ALERT or one.bound or mentions_alert or not one.described
        each.append(one if is_alert else replace(one, kind=NAME))
    return each


def kind_of(name: str) -> str:
    """The kind of thing that an identifier names; `OTHER` for an ambiguous one."""
    return next((kind for kind, shape in _KINDS if shape.fullmatch(name)), OTHER)


def holding(named: QuestionIdentifier, passages: Iterable[FusedHit]) -> list[FusedHit]:
    """The passages with the identifier's term, in any spelling."""
    term = hashed([named.term])[0]
    return [passage for passage in passages if term in passage.record.terms]


def _has(text: str, name: str) -> bool:
    """True if the text contains a folded name. Most texts don't, and needn't be folded."""
    return name in text.casefold() and contains(folded(text), name)


def certain(
    judged: Sequence[JudgedPage], named: Sequence[QuestionIdentifier], labels: Mapping[str, str] | None = None
) -> list[JudgedPage]:
    """Ranks the documents about identifiers of the question first, with the confidence of certainty; no other is surer.
    `labels` are those of an alert: of several documents about it, those for other services are less likely and not
    certain."""
    fits = _fits_of(judged, named, labels) if labels else {}
    judged = _by_fit(judged, fits)
    meant: dict[str, tuple[float, str]] = {}
    for one in named:
        if one.is_rare or one.bound:
            for document_id, confidence, why in _meant(judged, one):
                if document_id in one.bound or fits.get(document_id, 0) >= 0:
                    meant[document_id] = max((confidence, why), meant.get(document_id, (0.0, "")))
    if not meant:
        return list(judged)
    first = [_at_least(one, *meant[one.page.document_id]) for one in judged if one.page.document_id in meant]
    most = min(one.confidence for one in first)
    rest = [_at_most(one, most) for one in judged if one.page.document_id not in meant]
    return [*sorted(first, key=lambda one: (-fits.get(one.page.document_id, 0), -one.confidence)), *rest]


def _fits_of(
    judged: Sequence[JudgedPage], named: Sequence[QuestionIdentifier], labels: Mapping[str, str]
) -> Mapping[str, int]:
    """`label_fits` of the documents about an alert; empty unless there are several."""
    about = [one.page for one in judged if any(_is_meant_by_name(one, alert) for alert in named)]
    applicable = {
        page.document_id: Applicability(
            page.best.indexed.chunk.title,
            page.best.indexed.source_uri,
            page.best.indexed.chunk.tags,
            tuple({service for hit in page.hits for service in hit.indexed.resources}),
        )
        for page in about
    }
    return label_fits(applicable, labels) if len(applicable) > 1 else {}


def _by_fit(judged: Sequence[JudgedPage], fits: Mapping[str, int]) -> Sequence[JudgedPage]:
    if not any(fits.values()):
        return judged
    weighed = [
        replace(one, confidence=ANOTHER_SERVICE * one.confidence) if fits.get(one.page.document_id, 0) < 0 else one
        for one in judged
    ]
    return sorted(weighed, key=lambda one: -one.confidence)


def _is_meant_by_name(judged: JudgedPage, named: QuestionIdentifier) -> bool:
    return judged.page.document_id in named.bound or _is_about(judged, named)


def _meant(judged: Sequence[JudgedPage], named: QuestionIdentifier) -> Iterator[tuple[str, float, str]]:
    """Documents that an identifier means, with their confidence and the reason."""
    likely = _LIKELY_ENOUGH.get(named.kind, 0.0)
    bound = [one.page.document_id for one in judged if one.page.document_id in named.bound]
    yield from ((document_id, ABOUT, named.bound[document_id]) for document_id in bound)
    about = [one for one in judged if _is_about(one, named)]
    if about or bound:
        if len(about) <= MOST_ABOUT:
            certain = (one.page.document_id for one in about if one.confidence >= likely)
            yield from ((document_id, ABOUT, f"is about {named.name}") for document_id in certain)
        return
    mentions = [one for one in judged if _mentions(one, named)]
    if 0 < len(mentions) <= MOST_ABOUT:
        yield from _meant_of(mentions, named)


def _meant_of(mentions: Sequence[JudgedPage], named: QuestionIdentifier) -> Iterator[tuple[str, float, str]]:
    """The likeliest of the few documents that mention an identifier."""
    first, is_only = mentions[0], len(mentions) == 1
    is_alert = named.kind == ALERT and named.called_alert
    if is_alert and not (is_only and named.described):  # a page that just links to that of an alert
        return
    kind = NAME if named.kind == ALERT and not is_alert else named.kind
    likely = CLEARLY if is_alert else _LIKELY_ENOUGH.get(kind, 0.0)
    reason = f"alone mentions {named.name}" if is_only else f"is the likeliest of {len(mentions)} with {named.name}"
    if first.confidence >= (likely if is_only else max(likely, CLEARLY)):
        yield first.page.document_id, ONLY_MENTION, reason
    elif likely == 0:
        yield first.page.document_id, FEW_MENTION, reason


def _is_about(judged: JudgedPage, named: QuestionIdentifier) -> bool:
    """True if a document has this name. For an alert also if it begins with the name, or lists it as its symptom."""
    name, facts = folded(named.name), judged.page.best.record.facts
    if any(_has(text, name) for text in (_file_name(facts.source_uri), *facts.tags)):
        return True
    return any(_heads(chunk, name, named) for chunk in _with_words_of(judged, named))


def _heads(chunk: DocumentChunk, name: str, named: QuestionIdentifier) -> bool:
    if any(_has(text, name) for text in (chunk.title, *chunk.section)):
        return True
    return named.kind == ALERT and _states_usage(chunk) and _has(chunk.content, name)


def _states_usage(chunk: DocumentChunk) -> bool:
    """True if a passage states when to use its document."""
    return chunk.chunk_index == 0 or any(map(_WHEN.search, chunk.section))


def _mentions(judged: JudgedPage, named: QuestionIdentifier) -> bool:
    name = folded(named.name)
    return any(_has(chunk.text, name) for chunk in _with_words_of(judged, named))


def _with_words_of(judged: JudgedPage, named: QuestionIdentifier) -> Iterator[DocumentChunk]:
    """The passages of a document that have the words of an identifier: only these are worth reading."""
    groups = _required(named.name)
    return (hit.chunk for hit in judged.page.hits if all(not group.isdisjoint(hit.record.terms) for group in groups))


@lru_cache(256)
def _required(name: str) -> list[frozenset[int]]:
    return [frozenset(hashed(group)) for group in required_groups(name)]


def _at_least(judged: JudgedPage, confidence: float, why: str) -> JudgedPage:
    """Increases the confidence. It becomes a lower bound only if certain: the likeliest of a few mentions may be wrong."""
    least = confidence if confidence >= ONLY_MENTION else 0.0
    return replace(judged, confidence=max(judged.confidence, confidence), least=least, why=why)


def _at_most(judged: JudgedPage, confidence: float) -> JudgedPage:
    return replace(judged, confidence=min(judged.confidence, confidence))


# -- documents that fit an alert's labels


class Applicability(Struct, frozen=True):
    """A document's names, tags and services, for comparison with an alert's labels."""

    title: str
    source: str
    tags: Sequence[str]
    services: Sequence[str]

    @property
    def words(self) -> set[str]:
        """Words of the document's names."""
        names = (self.title, _file_name(self.source), *self.tags)
        return {word for name in names for word in _WORDS.findall(name.casefold())}


def label_fits(documents: Mapping[str, Applicability], labels: Mapping[str, str]) -> dict[str, int]:
    """For each of some documents for the same alert: 1 if it is for a service in the labels, or its name has another value
    of theirs that not all names have; -1 if it is only for other services, or another document fits; else 0."""
    mine = {labels[name].casefold() for name in _SERVICE_LABELS if labels.get(name)}
    values = {
        value.casefold() for name, value in labels.items() if name not in _NOT_LOCATIONS and _VALUE.fullmatch(value)
    }
    called = {name: document.words & values for name, document in documents.items()}
    everywhere = set.intersection(*called.values()) if called else set()
    fits: dict[str, int] = {}
    for name, document in documents.items():
        services = {service.casefold() for service in document.services}
        fits[name] = 1 if mine & services or called[name] - everywhere else -1 if mine and services else 0
    return {name: fit or -1 for name, fit in fits.items()} if 1 in fits.values() else fits


# -- absent identifiers


def is_sought(judged: Sequence[JudgedPage], named: Sequence[QuestionIdentifier]) -> bool:
    """True if a document is about an identifier of the question."""
    return any(_is_meant_by_name(page, one) for one in named for page in judged)


def absent_of(named: Sequence[QuestionIdentifier], judged: Sequence[JudgedPage]) -> list[Absent]:
    """Identifiers of the question that no entry has, and alerts that pages mention but none is for, unless one page is
    clearly meant; each with the page of the most similar name, of the same kind if there is one."""
    claimed = (one for one in named if one.kind in _CLAIMED or (one.kind == CODE and one.others <= 1))
    return [_absent(one, judged) for one in claimed if _is_absent(one, judged)]


def _is_absent(named: QuestionIdentifier, judged: Sequence[JudgedPage]) -> bool:
    if named.bound:
        return False
    if named.count == 0:
        return True
    if named.kind != ALERT or not named.count or is_sought(judged, [named]) or any(_meant(judged, named)):
        return False
    return named.called_alert or not any(_mentions(one, named) for one in judged)


def _absent(named: QuestionIdentifier, judged: Sequence[JudgedPage]) -> Absent:
    best, name, page = (False, 0.0), "", None
    siblings: dict[str, DocumentHits] = {}
    for one in judged[:JUDGED]:
        for sibling in _siblings(one):
            siblings.setdefault(sibling, one.page)
    for sibling, its_page in siblings.items():
        likeness = 1.0 if sibling == named.name else _likeness(named.name, sibling)
        if likeness >= LIKE and (rank := (kind_of(sibling) == named.kind, likeness)) > best:
            best, name, page = rank, sibling, its_page
    if page is None:
        return Absent(named.name, named.kind)
    title = page.best.indexed.chunk.title
    shown = title if name in (title, named.name) else f"{name} ({title})"
    return Absent(named.name, named.kind, shown, page.document_id)


def _siblings(judged: JudgedPage) -> Iterator[str]:
    """The title of a document and the identifiers in its passages."""
    yield judged.page.best.indexed.chunk.title
    for hit in judged.page.evidence:
        yield from hit.record.identifiers


def _likeness(one: str, other: str) -> float:
    """Dice's coefficient of the trigrams of two names."""
    mine, theirs = grams(one), grams(other)
    shared = sum(min(mine[gram], theirs[gram]) for gram in mine.keys() & theirs.keys())
    total = mine.total() + theirs.total()
    return 2 * shared / total if total else 0.0


def bounded(judged: Sequence[JudgedPage]) -> list[JudgedPage]:
    """Bounds all confidences at `NOT_ABOUT`, as the identifier in the question is absent."""
    return [replace(one, confidence=min(one.confidence, NOT_ABOUT), least=0.0, most=NOT_ABOUT) for one in judged]


# -- pages about the resources of an alert: its name says the symptom, its labels say whose

ITS_OWN, LEAST_ABOUT = 0.9, 0.6
"""The highest confidence of a page by its search among those of the resource, and the least of the best of them."""
FEW = 3
"""Most pages that mention a resource which are taken for pages about it."""
ANOTHERS = 0.45
"""The highest confidence of a page that states other resources."""

_NAMES = re.compile(r"\w+(?:[-.]\w+)*")


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
        called = {
            name.casefold() for name in (*facts.resources, *facts.tags, _file_name(facts.source_uri).partition(".")[0])
        }
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
        counts = {name: sum(_NAMES.findall(text).count(name) for text in having) for name in self._names}
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
        mine = {}
        for one in own:
            if fits[name := one.page.document_id] >= least:
                sure = found[name].confidence if name in found else 0.0
                mine[name] = replace(found.get(name, one), confidence=max(min(one.confidence, ITS_OWN), sure))
        first = [one for name, one in certain.items() if name in bound or name in mine]
        kept = {one.page.document_id for one in first}
        about = sorted(
            (one for name, one in mine.items() if name not in kept),
            key=lambda one: (-max(one.confidence, LEAST_ABOUT), -fits[one.page.document_id]),
        )
        if not first:
            about[:1] = [replace(one, confidence=max(one.confidence, LEAST_ABOUT)) for one in about[:1]]
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


def _file_name(source: str) -> str:
    """The last part of a source's path or address."""
    return source.rstrip("/").rpartition("/")[2]

"""Judges hits by confidence, recorded outcomes and expiry, and converts them to results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from opx.domain.documents import KnowledgeDocument, ages_by_use, expiry_day, expiry_of
from opx.domain.ids import iso_time
from opx.domain.knowledge import PATTERNS_CATEGORY, WARNINGS_CATEGORY, KnowledgeModel, Tier
from opx.domain.queries import Basis
from opx.domain.record import replace
from opx.domain.results import RetrievalResult, ScoreParts
from opx.ports import CandidateReading, Clock
from opx.retrieval.hybrid import FusedHit, FusedHits, collapse_near_duplicates
from opx.retrieval.judging_records import JudgingRecord

if TYPE_CHECKING:
    from opx.domain.outcomes import OutcomeScore

MAX_COPIES = 10
"""Near-duplicate documents that are named with a result."""


HELD_BACK = "ranked_behind_our_own"
"""Flag of text from the internet that ranks behind results of lower scores, as the question asks to act."""

STALE = "review_overdue"
"""Flag of a document whose review is overdue."""


class DocumentReading(Struct, frozen=True):
    """A model's reading of a document, the confidence before it was read, and the line that answers or helps."""

    reading: CandidateReading
    estimated: float
    line: str = ""


class Judged(Struct, frozen=True, gc=False):
    """A hit with the confidence of its document in [0, 1], and the recorded outcomes of that document, if there are any. It
    was judged by `evidence`, the best hit first; `least` and `most` bound its confidence also after reranking, and `why`
    names the identifier of the question that made it certain. `reading` is set if a model read it. `is_report`: its document
    speaks reports; `alike` are the other reports of the same event that it stands for."""

    hit: FusedHit
    confidence: float
    evidence: tuple[FusedHit, ...] = ()
    least: float = 0.0
    most: float = 1.0
    why: str = ""
    reading: DocumentReading | None = None
    outcome: OutcomeScore | None = None
    is_report: bool = False
    alike: tuple[FusedHit, ...] = ()

    @property
    def document_id(self) -> str:
        return self.hit.document_id

    @property
    def score(self) -> float:
        """Confidence x trust, and x the outcomes of the document."""
        score = self.confidence * self.hit.record.facts.trust
        return score if self.outcome is None else score * self.outcome.factor

    @property
    def warns(self) -> bool:
        """True for a warning of a step."""
        return self.hit.record.facts.category == WARNINGS_CATEGORY


def result_of(judged: Judged, day: str = "", document: KnowledgeDocument | None = None) -> RetrievalResult:
    """Converts a hit to a result, with all parts of its score; `day` decides if its review is overdue. The metadata that
    its document was given are among the result's, unless these have a meaning of their own for the name."""
    hit = judged.hit
    indexed, chunk = hit.indexed, hit.indexed.chunk
    lexical, vector, read = hit.lexical, hit.vector, judged.reading
    shown = replace(judged, confidence=round(judged.confidence, 6))  # so that the parts explain the score to the digit
    score = min(shown.score, 1.0)
    parts = ScoreParts(
        lexical_rank=lexical[0] if lexical else None,
        lexical_score=lexical[1] if lexical else None,
        vector_rank=vector[0] if vector else None,
        vector_score=vector[1] if vector else None,
        fused=hit.fused,
        confidence=shown.confidence,
        trust=indexed.trust,
        final=score,
        rerank=read.reading.score if read else None,
        estimated=read.estimated if read else None,
        verdict=read.reading.verdict if read else None,
        outcome=judged.outcome.factor if judged.outcome else None,
    )
    return RetrievalResult(
        content=chunk.content,
        score=score,
        tier=indexed.tier.value,
        category=chunk.category,
        source=indexed.source_uri,
        timestamp=indexed.last_updated,
        trust_score=indexed.trust,
        metadata={
            **(_stated(document) if document else {}),
            **_metadata(hit, day),
            **({"why": judged.why} if judged.why else {}),
            **({"occurrences": _occurrences(judged)} if judged.alike else {}),
            **({"outcome": judged.outcome.summary.to_json()} if judged.outcome else {}),
        },
        parts=parts,
        untrusted=judged.is_report,
        judged=Basis.READ if read else Basis.ESTIMATED,
        helps_by=read.line if read else "",
    )


def without_copies(judged: Sequence[Judged]) -> list[Judged]:
    """Keeps the most trusted of near-duplicates, at the best one's rank. The others are named with it."""
    kept = []
    for _, chosen, others in collapse_near_duplicates(judged, lambda one: one.hit):
        if others:
            copies = (copy for other in others for copy in (other.hit, *other.hit.copies))
            hit = replace(chosen.hit, copies=(*chosen.hit.copies, *copies))
            kept.append(replace(chosen, hit=hit))
        else:
            kept.append(chosen)
    return kept


def folded(judged: Sequence[Judged]) -> list[Judged]:
    """One report for each event, the best ranked: an alert that fired on forty nodes, or a ticket that five people wrote, is
    one entry. Instructions are unchanged."""
    kept: dict[tuple[str, ...], int] = {}
    found: list[Judged] = []
    for one in judged:
        at = kept.setdefault(_event_of(one), len(found)) if one.is_report else len(found)
        if at == len(found) or found[at].document_id == one.document_id:
            found.append(one)
        elif one.document_id not in {other.document_id for other in found[at].alike}:
            found[at] = replace(found[at], alike=(*found[at].alike, one.hit))
    return found


def _event_of(judged: Judged) -> tuple[str, str]:
    """The event that a report is about: the alert that its tags name, else the words of its title without values."""
    facts = judged.hit.record.facts
    alert = next((tag for tag in facts.tags if _ALERT_NAME.fullmatch(tag)), "")
    words = [] if alert else [word for word in judged.hit.chunk.title.casefold().split() if not _DIGIT.search(word)]
    return facts.category, alert or " ".join(words)


def _occurrences(judged: Judged) -> dict[str, Any]:
    """The reports of one event that were found: how many, the days of the first and the last, and that in words."""
    hits = (each for hit in (judged.hit, *judged.alike) for each in (hit, *hit.copies))
    days = sorted({hit.document_id: hit.record.facts.last_updated[:DAY] for hit in hits}.values())
    count, first, last = len(days), days[0], days[-1]
    when = f"on {last}" if first == last else f"from {first} to {last}"
    return {"count": count, "first": first, "last": last, "text": f"at least {count} alike, {when}"}


def _metadata(hit: FusedHit, day: str) -> dict[str, Any]:
    indexed, chunk, copies = hit.indexed, hit.indexed.chunk, _copies(hit)
    flags = [*indexed.flags, *([STALE] if indexed.review_by and indexed.review_by < day else [])]
    return {
        "title": chunk.title,
        "section": list(chunk.section),
        "documentId": chunk.document_id,
        "chunkId": chunk.chunk_id,
        "chunkIndex": chunk.chunk_index,
        "tags": list(chunk.tags),
        "language": indexed.language,
        **({"flags": flags} if flags else {}),
        **({"reviewBy": indexed.review_by} if indexed.review_by else {}),
        **({"copies": copies} if copies else {}),
    }


_OWN_NAMES = frozenset((
    "alternatives", "band", "because", "chunkId", "chunkIndex", "copies", "documentId", "expanded", "flags", "language",
    "nearest", "notes", "occurrences", "outcome", "partial", "receiptId", "resources", "reviewBy", "section", "services",
    "site", "tags", "title", "tried", "warnings", "why",
))  # fmt: skip
"""Names in the metadata of results that have a meaning of their own, also where a result lacks them."""


def _stated(document: KnowledgeDocument) -> dict[str, Any]:
    """The metadata that a document was given, as far as entries of the index don't have them."""
    stated = {
        "services": list(document.services),
        "resources": list(document.resources),
        "author": document.author,
        "version": document.metadata.version,
        "severity": document.severity,
        "expires": document.expires,
    }
    others = {name: value for name, value in document.attributes.items() if name not in _OWN_NAMES}
    return {**others, **{name: value for name, value in stated.items() if value}}


def _copies(hit: FusedHit) -> list[dict[str, Any]]:
    """Near-duplicates as JSON, each document once, at most `MAX_COPIES`."""
    others: dict[str, FusedHit] = {}
    for copy in hit.copies:
        others.setdefault(copy.record.facts.key_id, copy)
    others.pop(hit.record.facts.key_id, None)
    return [
        {
            "documentId": indexed.chunk.document_id,
            "title": indexed.chunk.title,
            "source": indexed.source_uri,
            "tier": indexed.tier.value,
            "trust": indexed.trust,
        }
        for indexed in (copy.indexed for copy in islice(others.values(), MAX_COPIES))
    ]


# -- recorded outcomes: they adjust scores, and warn of steps


class HitOutcomes(Protocol):
    """Recorded outcomes of the hits of one question."""

    def weighed(self, judged: Sequence[Judged]) -> list[Judged]:
        """Adds the outcomes of their documents to the hits, in the same order."""

    @property
    def mark(self) -> str:
        """A hash of the outcomes that adjusted scores, "" if none did."""

    def warned(self, results: tuple[RetrievalResult, ...]) -> tuple[RetrievalResult, ...]:
        """Adds warnings to the results with a step that was tried before. Raises `StoreUnavailableError`."""


class OutcomeLookup(Protocol):
    """Looks up outcomes, once for each question."""

    def of(self, judged: Sequence[Judged]) -> HitOutcomes:
        """Outcomes of these hits. Raises `StoreUnavailableError`."""


class NoOutcomes:
    """Adds no outcomes."""

    mark = ""

    def weighed(self, judged: Sequence[Judged]) -> list[Judged]:
        return list(judged)

    def warned(self, results: tuple[RetrievalResult, ...]) -> tuple[RetrievalResult, ...]:
        return results


# -- expired documents: hidden also while pruning has not deleted them

DAY = len("2026-03-31")


class Validity:
    """Checks the expiry of hits by today's retention policies. Patterns without a date are left to the learning package,
    which knows when each last worked; documents that age by use to pruning, as being found is a use."""

    def __init__(self, knowledge: KnowledgeModel, clock: Clock, hidden: frozenset[str] = frozenset()) -> None:
        self._knowledge = knowledge
        self._clock = clock
        self._hidden = hidden

    def day(self, as_of: str = "") -> str:
        """The day of a question: of its `as_of` time, or today."""
        return (as_of or iso_time(self._clock()))[:DAY]

    def on(self, day: str) -> Callable[[JudgingRecord], bool]:
        """Filter of the hits that are valid on a day: they don't expire before or on it, and aren't of a hidden category."""

        by_update = cache(self._expires_by_update)

        def valid(record: JudgingRecord) -> bool:
            category, expires = record.facts.category, record.expires
            if category in self._hidden:
                return False
            if not expires and by_update(category):
                expires = expiry_of(category, record.facts.last_updated, self._knowledge)
            return not expires or day < expires

        return valid

    def _expires_by_update(self, category: str) -> bool:
        """False for categories whose documents are kept, or kept by use."""
        if category == PATTERNS_CATEGORY:
            return False
        known = self._knowledge.categories.get(category)
        return known is None or not (known.ages_by_use or known.retention_days is None)


def expired_since(document: KnowledgeDocument, knowledge: KnowledgeModel, now: str) -> str:
    """The day since when a document is expired; "" if it isn't, and for one that its next use would keep."""
    by_use = document.category == PATTERNS_CATEGORY or ages_by_use(document.category, knowledge)
    if by_use and not document.expires:
        return ""
    expires = expiry_day(document, knowledge)
    return expires if expires and expires <= now[:DAY] else ""


# -- pages


PASSAGES = 4
"""Hits of a document used as evidence, however many the caller requested."""


class DocumentHits(Struct, frozen=True, gc=False):
    """A document with its hits, the best first. `level` is that of its best hit."""

    document_id: str
    hits: tuple[FusedHit, ...]
    level: float

    @property
    def best(self) -> FusedHit:
        return self.hits[0]

    @property
    def evidence(self) -> Sequence[FusedHit]:
        """The hits that the document is judged by."""
        return self.hits[:PASSAGES]


def pages_of(found: FusedHits) -> list[DocumentHits]:
    """The documents of a search, by level; ties by id."""
    hits: dict[str, list[FusedHit]] = {}
    levels: dict[str, float] = {}
    for hit, level in zip(found.hits, found.levels, strict=True):
        name = hit.document_id
        hits.setdefault(name, []).append(hit)
        levels.setdefault(name, level)
    pages = [DocumentHits(name, tuple(some), levels[name]) for name, some in hits.items()]
    return sorted(pages, key=lambda page: (-page.level, page.document_id))


# -- ranking of the hits of all tiers
#
# The order is confidence x trust, whatever the tier. Only for a question that asks to act does text from the internet rank
# below everything else, and is marked. Warnings of a step rank below other hits that are as likely: a dozen accounts of
# failed steps would bury the page that helps, which they are shown with anyway.

WORTHLESS = 0.3
"""Confidence below which a result covers nothing, whatever the caller's `min_confidence` is."""

UNLIKELY = 0.5
"""Confidence below which a hit is more likely wrong than right."""


class Scored(Protocol):
    """A hit or result that can be ranked."""

    @property
    def confidence(self) -> float: ...

    @property
    def score(self) -> float:
        """Confidence x trust."""

    @property
    def warns(self) -> bool:
        """True for a warning of a step."""


S = TypeVar("S", bound=Scored)

_ASKS = re.compile(
    r"\b(?:how\s+(?:do|can|should|to)|should\s+(?:i|we)|what\s+(?:should|can|must)|steps?\s+(?:to|for)|runbook|procedure"
    r"|wie\s+(?:kann|soll|muss)|was\s+(?:soll|muss)|comment\s+(?:faire|puis)|cómo|come\s+(?:si|posso)|como\s+(?:faço|posso))\b",
    re.IGNORECASE,
)
_DEMANDS = re.compile(
    r"\s*(?:please\s+|can\s+you\s+|help\s+(?:me\s+)?(?:to\s+)?)?(?:fix|resolve|repair|recover|restart|restore|roll\s*back|drain|scale"
    r"|delete|remove|kill|free\s+up|clean\s+up|mitigate|remediate|unblock|beheben?|behebe|réparer|redémarrer)\b",
    re.IGNORECASE,
)
"""A question that begins with what is to be done: an error such as `failed to delete the pod` demands nothing."""


_ALERT_NAME = re.compile(r"(?=.*[a-z])[A-Z][A-Za-z0-9]*[A-Z][A-Za-z0-9]*")
_DIGIT = re.compile(r"\d")

_SEEKS_REPORTS = re.compile(
    r"\b(?:post-?mortems?|incidents?|outages?|tickets?|when\s+did|what\s+(?:changed|happened)|last\s+time|history|happened"
    r"|vorf(?:all|älle)|störungen|wann|passiert|pannes?|quand|incidentes?|cuándo|quando|historial)\b",
    re.IGNORECASE,
)


def seeks_reports(question: str) -> bool:
    """True if a question asks what happened, in words: which incident, when did, what changed, last time."""
    return bool(_SEEKS_REPORTS.search(question))


def calls_for_action(question: str) -> bool:
    """True if a question asks what to do, in words: how to, should we, which runbook, restart X. An alert, a symptom or an
    error message alone does not."""
    return bool(_ASKS.search(question) or _DEMANDS.match(question))


def in_order(scored: Sequence[S], *, last: Sequence[S] = ()) -> list[S]:
    """Ranks best first, a stable sort; `last` below all others."""
    return [*sorted(scored, key=_rank), *sorted(last, key=_rank)]


def ranked(question: str, judged: Sequence[Judged]) -> list[Judged]:
    """Ranks the hits of all tiers. Reports come after all instructions that are likely, as they repeat the question's words;
    if it asks for reports, the likely ones come first. For a question that asks to act, they come after all that may help,
    and none is surer than the best of these; hits from the internet come last."""
    if not calls_for_action(question):
        is_first = _reports if seeks_reports(question) else _instructs
        first = [hit for hit in judged if is_first(hit)]
        return in_order(first, last=[hit for hit in judged if not is_first(hit)])
    outside = [hit for hit in judged if hit.hit.record.facts.tier is Tier.INTERNET]
    inside = [hit for hit in judged if hit.hit.record.facts.tier is not Tier.INTERNET]
    helpful = [hit for hit in inside if not hit.is_report and hit.confidence >= WORTHLESS]
    most = max((hit.confidence for hit in helpful), default=1.0)
    reports = [replace(hit, confidence=min(hit.confidence, most)) for hit in inside if hit.is_report]
    others = [hit for hit in inside if not hit.is_report and hit.confidence < WORTHLESS]
    return [*in_order(helpful, last=[*reports, *others]), *in_order(outside)]


def _reports(hit: Judged) -> bool:
    """True for likely reports."""
    return hit.is_report and hit.confidence >= UNLIKELY


def _instructs(hit: Judged) -> bool:
    """True for likely instructions, from wherever but the internet."""
    is_ours = hit.hit.record.facts.tier is not Tier.INTERNET and not (hit.is_report or hit.warns)
    return is_ours and hit.confidence >= UNLIKELY


def _rank(hit: Scored) -> tuple[float, float]:
    """The negative score; a warning ranks behind the likely hits, an unlikely one behind all."""
    if not hit.warns:
        return -hit.score, 0.0
    return (-UNLIKELY if hit.confidence >= UNLIKELY else 1.0), -hit.score

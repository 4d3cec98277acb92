"""Answers: results with their score parts, evidence packs of text and graph, and the chunks that an index returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Struct, field
from msgspec.structs import fields

from opx.domain.documents import DocumentChunk
from opx.domain.handover import DocumentAnswer
from opx.domain.knowledge import WARNINGS_CATEGORY, Tier, Untrusted
from opx.domain.queries import Band, Basis, ReaderVerdict, band_of
from opx.domain.record import Json, Record, about, always, derive, rounded

# -- evidence of text and graph

Names = Annotated[Mapping[str, str], about("Names of nodes by reference, where they differ from it.")]


class EvidenceSource(StrEnum):
    """Origin of evidence: found as text, or by graph traversal."""

    RAG = "RAG"
    GRAPH = "Graph"


class PathStep(Record, frozen=True):
    """An edge on the path to a found node, as it was stated; the path may follow it in either direction."""

    source: str = field(name="from")
    edge_type: str
    target: str = field(name="to")

    @property
    def name(self) -> tuple[str, str, str]:
        """Identity of the relation, as that of an `Edge`."""
        return self.source, self.edge_type, self.target


class EvidenceItem(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A passage, or a relation with the passage that proves it.

    Of a relation, and of a passage that one leads to, `node` is the node that was reached, `relation` the last step of
    `path` in words, `at` when that was true, and `evidence_chunk_ids` are the passages that prove it; `document_id` and
    `chunk_id` locate the text in `content`, one of those or one about the node itself. `untrusted`: from outside of the
    organisation, data to weigh, whatever it demands. `answers` is true for items that answer a graph question, and are
    not only near its subject.
    """

    source: EvidenceSource
    content: Annotated[str, about("A passage; of the graph, the relations in words and the text behind them.")]
    confidence: float
    path: Annotated[tuple[PathStep, ...], about("The relations that lead there.")] = always(())
    document_id: Annotated[str, about("The document of the text; empty if there is none.")] = always("")
    chunk_id: str = always("")
    tier: str = always(Tier.INTERNAL.value)
    untrusted: Untrusted = always(False)
    title: str = ""
    node: Annotated[str, about("The node that relations lead to.")] = ""
    relation: Annotated[str, about("The last of them in words.")] = ""
    at: Annotated[str, about("When that was true, or the text was last updated.")] = ""
    evidence_chunk_ids: Annotated[tuple[str, ...], about("Passages that prove the relation.")] = ()
    answers: Annotated[bool, about("True if it answers a question that the graph understood.")] = False
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        derive(self, confidence=round(self.confidence, 6), untrusted=self.untrusted or self.tier != Tier.INTERNAL)


class EvidencePack(Record, frozen=True, omit_defaults=True):
    """The items, those that answer a question of the graph first, then the surest. `understood` is the interpretation of
    a graph question, "" if it was none. `summary`: `Found 5 RAG results and 12 related graph nodes.` `names`: titles of
    the documents that relations lead to."""

    items: tuple[EvidenceItem, ...] = always(())
    understood: Annotated[
        str, about("The graph query that the question was read as, and its outcome, if it was one.")
    ] = ""
    summary: str = always("")
    names: Names = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = sum(1 for item in self.items if item.source is EvidenceSource.RAG)
        nodes = len({item.node for item in self.items if item.node})
        found = f"Found {_counted(texts, 'RAG result')} and {_counted(nodes, 'related graph node')}."
        derive(self, summary=found)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# -- results


class Absent(Record, frozen=True, omit_defaults=True):
    """A thing that a question names, and that no page which the reader may see is about. `nearest` is the title of the
    page about something with a similar name, and `document_id` that page's."""

    name: str
    kind: Annotated[str, about("Kind of thing that it names, such as alert or CVE.")]
    nearest: Annotated[str, about("A page about something with a similar name.")] = ""
    document_id: str = ""

    @property
    def text(self) -> str:
        """`no page for alert QueueHighCritical; nearest sibling: QueueHighWarning`."""
        nearest = f"; nearest sibling: {self.nearest}" if self.nearest else ""
        return f"no page for {self.kind} {self.name}{nearest}"


class ScoreParts(Record, frozen=True):
    """Components of a hit's score. Ranks count from 1, None means that the leg didn't find it. Numbers are kept to six
    digits.

    `lexical_score` is BM25, `vector_score` a cosine; `fused` is the fused score; `confidence` estimates the probability
    that the hit's document answers the question. Where a model read that document, `verdict` is the model's, `rerank` its
    score, if the model returns scores, and `estimated` the confidence before reading. `outcome` is the factor of earlier
    outcomes of the document, None without any; `final` = confidence x trust x outcome, at most 1, decides the order.
    """

    lexical_rank: int | None
    lexical_score: float | None
    vector_rank: int | None
    vector_score: float | None
    fused: float
    confidence: float
    trust: float
    final: float
    rerank: float | None = None
    outcome: float | None = None
    estimated: float | None = None
    verdict: ReaderVerdict | None = None

    def __post_init__(self) -> None:
        derive(self, **{name: rounded(getattr(self, name)) for name in _NUMBERS})


_NUMBERS = tuple(one.name for one in fields(ScoreParts) if not one.name.endswith(("_rank", "verdict")))


class IndexedChunk(Record, frozen=True, gc=False):
    """A chunk as an index returns it, with the facts needed to filter, trust and cite it.

    `flags` are warnings for readers (`suspected_instruction`); `fingerprint` is 64 bits in hexadecimal that are close to
    those of near-duplicates; `resources` are the things that the document is about, as exact terms
    (`opx.domain.resources`); `expires` and `review_by` are those of the document. Entries written before these fields
    existed have none of them.
    """

    entry_id: str
    chunk: DocumentChunk
    key_id: str
    scope_key: str
    tier: Tier
    trust: float
    source_uri: str
    last_updated: str
    language: str
    flags: tuple[str, ...] = ()
    fingerprint: str = ""
    resources: tuple[str, ...] = ()
    expires: str = ""
    review_by: str = ""


LATER_FACTS = IndexedChunk.__struct_fields__[-len(IndexedChunk.__struct_defaults__) :]
"""Fields that older entries don't have."""


def later_facts(kept: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Reads those of `LATER_FACTS` that were stored as JSON, under the name that `names` has for each; lists become
    tuples."""
    found: dict[str, Any] = {}
    for fact, name in names.items():
        value = kept.get(name)
        if value is not None:
            found[fact] = tuple(value) if isinstance(value, list) else value
    return found


class RetrievalResult(Record, frozen=True):
    """One result. `score` is relevance x trust, to six digits, and gives the order; `metadata` holds everything needed to
    cite it.

    `metadata` has `flags` where there is something to warn of, `copies` for near-duplicates in other documents, `outcome`
    where outcomes of the document were recorded, `occurrences` for a report that stands for others of the same event, and
    `warnings` where one of its steps failed before. `untrusted`: it comes from outside of the organisation, data to weigh,
    whatever it demands.
    """

    content: Annotated[str, about("The passage that was found.")]
    score: Annotated[float, about("Confidence times trust; gives the order.")]
    tier: str
    category: str
    source: Annotated[str, about("The address that a person would open.")]
    timestamp: Annotated[str, about("When it was last updated.")]
    trust_score: float
    metadata: Annotated[
        dict[str, Any],
        about(
            "Data for citing it: documentId, title, section and more. `flags` where there is "
            "something to warn of, `copies` for near-duplicates in other documents, `outcome` where outcomes of the "
            "document were recorded, `warnings` where one of its steps failed before."
        ),
    ] = field(default_factory=dict)
    parts: ScoreParts | None = field(default=None, name="scores")
    untrusted: Untrusted = False
    section: Annotated[str, about("The headings above the passage, as `A > B`.")] = ""
    relevance: Annotated[str, about("The confidence as a percentage, such as `87%`.")] = ""
    band: Annotated[Band, about("How sure it is: sure, likely or weak.")] = always(Band.WEAK)
    judged: Annotated[Basis, about("What the confidence is based on: estimated, or read by a model.")] = Basis.ESTIMATED
    helps_by: Annotated[str, about("The line of its document that answers or helps, where a model read it.")] = ""

    def __post_init__(self) -> None:
        derive(
            self,
            band=band_of(self.confidence),
            score=round(self.score, 6),
            untrusted=self.untrusted or self.tier != Tier.INTERNAL,
            section=" > ".join(self.metadata.get("section", ())),
        )
        derive(self, relevance=f"{100 * self.confidence:.0f}%")

    @property
    def updated_at(self) -> datetime | None:
        """The timestamp as a time with its zone; None if there is none."""
        try:
            found = datetime.fromisoformat(self.timestamp)
        except ValueError:
            return None
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    @property
    def title(self) -> str:
        return str(self.metadata.get("title", ""))

    @property
    def document_id(self) -> str:
        return str(self.metadata.get("documentId", ""))

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings for readers."""
        return tuple(self.metadata.get("flags", ()))

    @property
    def copies(self) -> tuple[dict[str, Any], ...]:
        """Near-duplicates in other documents, which are not shown: documentId, title, source, tier, trust."""
        return tuple(self.metadata.get("copies", ()))

    @property
    def outcome(self) -> Mapping[str, Any] | None:
        """Recorded outcomes of the document, as `opx.domain.outcomes.OutcomeSummary`; None without any."""
        return self.metadata.get("outcome")

    @property
    def occurrences(self) -> str:
        """`at least 14 alike, from 2026-03-02 to 2026-03-09` for a report that stands for others of the same event."""
        return str(self.metadata.get("occurrences", {}).get("text", ""))

    @property
    def warnings(self) -> tuple[dict[str, Any], ...]:
        """Warnings about steps that were tried before, each as `opx.domain.learning.StepWarning.to_json`."""
        return tuple(self.metadata.get("warnings", ()))

    @property
    def is_report(self) -> bool:
        """True for internal text that nobody reviewed: mail, tickets, alerts and the like."""
        return self.untrusted and self.tier == Tier.INTERNAL

    @property
    def warns(self) -> bool:
        """True if it is a warning about a failed attempt."""
        return self.category == WARNINGS_CATEGORY

    @property
    def confidence(self) -> float:
        return self.parts.confidence if self.parts else self.score


class Results(list[RetrievalResult]):
    """Results that reach the requested confidence, and in `unconfirmed` the best of those that don't."""

    unconfirmed: tuple[RetrievalResult, ...] = ()


class TierStep(Record, frozen=True):
    """One tier in the routing of a query: whether it was searched, the reason, the number of its good results and the
    best confidence there, to six digits."""

    tier: str
    searched: bool
    reason: str
    good: int = 0
    best: float = 0.0

    def __post_init__(self) -> None:
        derive(self, best=round(self.best, 6))


class Answer(Record, frozen=True, omit_defaults=True):
    """The results of a query, with notes on their completeness and ranking.

    `results` reach the requested confidence; `unconfirmed` are the best of those that don't, as many as results are
    lacking, and `best_rejected` is the first of them where there is no result. All are empty where nothing is near the
    question. `absent` lists things that the question names and no page is about. `partial` is true when something that
    should have been searched was not; `notes` state what and why. `routing` has a step for each tier, in the order in
    which they were considered. `ranked_by` names the ranking: `fused`, or a reranker. `understood` is the parsed
    question: its terms and filters. `receipt_id` names the record of this answer, if there is one, and `receipt` can be
    kept as evidence of it (`opx.retrieval.receipts`). `evidence` is set if graph expansion was requested, `documents` if
    a budget was given for the handover. `outcomes` identifies the outcomes that moved scores: it changes with them, and
    is "" if none did."""

    query: str
    results: tuple[RetrievalResult, ...]
    partial: Annotated[bool, about("True if something could not be searched.")] = always(False)
    notes: Annotated[tuple[str, ...], about("Limits of the answer, and their reasons.")] = always(())
    best_rejected: Annotated[RetrievalResult | None, about("The nearest result, where none is good enough.")] = field(
        default=None, name="nearest"
    )
    unconfirmed: Annotated[tuple[RetrievalResult, ...], about("The best of those below the requested confidence.")] = ()
    absent: Annotated[tuple[Absent, ...], about("Things that the question names and no page is about.")] = ()
    timings_ms: dict[str, float] = always({})
    routing: tuple[TierStep, ...] = always(())
    ranked_by: str = always("fused")
    understood: dict[str, Any] = always({})
    receipt_id: Annotated[str, about("The record of this answer in the audit log.")] = ""
    receipt: Annotated[
        Mapping[str, Any] | None,
        about("If requested: evidence of the answer that can be kept and replayed."),
    ] = None
    evidence: EvidencePack | None = field(default=None, name="evidencePack")
    documents: Annotated[
        tuple[DocumentAnswer, ...],
        about("The documents of the results with the blocks that help, within the requested budget."),
    ] = ()
    outcomes: Annotated[str, about("Identifies the outcomes that moved scores, if any did.")] = ""

    def __post_init__(self) -> None:
        nearest = None if self.results else next(iter(self.unconfirmed), None)
        timings = {name: round(value, 3) for name, value in self.timings_ms.items()}
        derive(self, timings_ms=timings, best_rejected=nearest)

    def to_json(self) -> Json:
        """The camelCase form, without the receipt; `nearest` is there only when there is no result."""
        found = super().to_json()
        found.pop("receipt", None)
        return found


# -- found text


class Hit(Struct, frozen=True):
    """A found passage, identified by its document's key and its own id."""

    key_id: str
    chunk_id: str
    confidence: float


class FoundText(Struct, frozen=True):
    """A question, what was found as text, and the tiers that were searched. `hits` are the best passages, also those that
    are not good enough to be among the `results`."""

    text: str
    identifiers: Sequence[str]
    results: Sequence[RetrievalResult]
    hits: Sequence[Hit]
    tiers: frozenset[Tier]


Expanded = tuple[EvidencePack, tuple[str, ...]]
"""An evidence pack, and notes about it."""

ExpandGraph = Callable[[FoundText], Expanded]
"""Expands found text along the graph. Raises no `StoreUnavailableError`: missing parts are noted."""

"""What a question gets back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opx.domain.documents import DocumentChunk
from opx.domain.evidence_pack import EvidencePack
from opx.domain.knowledge import Tier
from opx.domain.learning import WARNINGS


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """Why a hit is where it is. Ranks count from 1, None means that the leg didn't find it.

    `lexical_score` is BM25, `vector_score` a cosine; `fused` is what the fusion gave; `confidence` estimates the
    probability that the hit answers the question; `outcome` is what earlier outcomes of the document multiply with, None
    where none was told; `final` = confidence x trust x outcome, at most 1, decides the order.
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

    def to_json(self) -> dict[str, float | int | None]:
        return {
            "lexicalRank": self.lexical_rank,
            "lexicalScore": _rounded(self.lexical_score),
            "vectorRank": self.vector_rank,
            "vectorScore": _rounded(self.vector_score),
            "fused": _rounded(self.fused),
            "rerank": _rounded(self.rerank),
            "confidence": _rounded(self.confidence),
            "trust": _rounded(self.trust),
            "outcome": _rounded(self.outcome),
            "final": _rounded(self.final),
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk as an index returns it: with what is needed to filter, trust and cite it.

    `flags` say what readers are to be warned of (`suspected_instruction`); `fingerprint` is 64 bits in hexadecimal that
    are close to those of chunks that say nearly the same; `expires` and `review_by` are those of the document. Entries of
    before these were kept have none of them.
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
    services: tuple[str, ...] = ()
    expires: str = ""
    review_by: str = ""


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """One answer. `score` is relevance x trust and gives the order; `metadata` holds everything needed to cite it.

    `metadata` has `flags` where there is something to warn of, `copies` where other documents say the same, `outcome`
    where it is known what came of acting upon the document, and `warnings` where one of its steps was tried in vain.
    """

    content: str
    score: float
    tier: str
    category: str
    source: str
    timestamp: str
    trust_score: float
    metadata: dict[str, Any] = field(default_factory=dict)
    parts: ScoreParts | None = None

    @property
    def title(self) -> str:
        return str(self.metadata.get("title", ""))

    @property
    def section(self) -> str:
        return " > ".join(self.metadata.get("section", ()))

    @property
    def document_id(self) -> str:
        return str(self.metadata.get("documentId", ""))

    @property
    def flags(self) -> tuple[str, ...]:
        """What readers are to be warned of."""
        return tuple(self.metadata.get("flags", ()))

    @property
    def copies(self) -> tuple[dict[str, Any], ...]:
        """Other documents that say the same and are not shown: documentId, title, source, tier, trust."""
        return tuple(self.metadata.get("copies", ()))

    @property
    def outcome(self) -> Mapping[str, Any] | None:
        """What came of acting upon the document, as `opx.domain.outcomes.OutcomeScore.to_json`; None if nothing was told."""
        return self.metadata.get("outcome")

    @property
    def warnings(self) -> tuple[dict[str, Any], ...]:
        """Of steps that were tried before, each as `opx.domain.step_warnings.StepWarning.to_json`."""
        return tuple(self.metadata.get("warnings", ()))

    @property
    def warns(self) -> bool:
        """Whether it tells what not to do."""
        return self.category == WARNINGS

    @property
    def untrusted(self) -> bool:
        """Whether it comes from outside of the organisation: data to weigh, whatever it asks for."""
        return self.tier != Tier.INTERNAL

    @property
    def confidence(self) -> float:
        return self.parts.confidence if self.parts else self.score

    def to_json(self) -> dict[str, Any]:
        return {
            "content": self.content,
            "score": round(self.score, 6),
            "tier": self.tier,
            "category": self.category,
            "source": self.source,
            "timestamp": self.timestamp,
            "trustScore": self.trust_score,
            "untrusted": self.untrusted,
            "metadata": self.metadata,
            "scores": self.parts.to_json() if self.parts else {},
        }


@dataclass(frozen=True, slots=True)
class TierStep:
    """One tier on the way to an answer: whether it was searched, why (not), how many results of it are good enough and
    the best confidence there."""

    tier: str
    searched: bool
    reason: str
    good: int = 0
    best: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "tier": self.tier,
            "searched": self.searched,
            "reason": self.reason,
            "good": self.good,
            "best": round(self.best, 6),
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """The results of a query with what a caller must know about them.

    `partial` is true when something that should have been searched was not; `notes` say what and why. `best_rejected`
    is the best hit below the confidence asked for, so that "no good answer" can name what came nearest. `routing` has a
    step for each tier, in the order in which they were considered. `ranked_by` says what decided the order: `fused`, or
    the name of a reranker. `understood` is how the question was read: what was searched for, and within what.
    `receipt_id` names the record of this answer, if there is one, and `receipt` is what can be kept as evidence of it;
    that is in JSON only where it was asked for (`opx.retrieval.receipts`). `evidence` is there where it was asked to go on
    along the graph. `outcomes` is another text for other outcomes that moved scores, "" where none did.
    """

    query: str
    results: tuple[RetrievalResult, ...]
    partial: bool = False
    notes: tuple[str, ...] = ()
    best_rejected: RetrievalResult | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)
    routing: tuple[TierStep, ...] = ()
    ranked_by: str = "fused"
    understood: dict[str, Any] = field(default_factory=dict)
    receipt_id: str = ""
    receipt: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    evidence: EvidencePack | None = None
    outcomes: str = field(default="", repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """The camelCase form; `nearest` is there only when there is no result."""
        nearest = self.best_rejected
        return {
            "query": self.query,
            "results": [result.to_json() for result in self.results],
            **({"nearest": nearest.to_json()} if nearest else {}),
            "partial": self.partial,
            "notes": list(self.notes),
            "routing": [step.to_json() for step in self.routing],
            "rankedBy": self.ranked_by,
            "understood": self.understood,
            **({"evidencePack": self.evidence.to_json()} if self.evidence else {}),
            **({"receiptId": self.receipt_id} if self.receipt_id else {}),
            "timingsMs": {name: round(value, 3) for name, value in self.timings_ms.items()},
        }

"""What a question has found as text, for those who go on from there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opx.domain.knowledge import Tier
from opx.domain.results import EvidencePack, RetrievalResult


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found, by its document's key and its own id."""

    key_id: str
    chunk_id: str
    confidence: float


@dataclass(frozen=True, slots=True)
class FoundText:
    """A question, what was found as text, and the tiers that were searched. `hits` are the best passages, also those that
    are not good enough to be among the `results`."""

    text: str
    identifiers: Sequence[str]
    results: Sequence[RetrievalResult]
    hits: Sequence[Hit]
    tiers: frozenset[Tier]


Expanded = tuple[EvidencePack, tuple[str, ...]]
"""The pack, and what to note about it."""

GoOn = Callable[[FoundText], Expanded]
"""Goes on along relations from what was found. Raises no `StoreUnavailableError`: what is missing is noted."""

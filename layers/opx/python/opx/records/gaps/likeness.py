"""When two questions ask for the same: by their words, or by the signs of their vectors.

A vector's signs take a 32nd of its room and are compared as one whole number. Of 80 questions about 20 things (four
wordings each) with the embedded model, clusters held questions about one thing only, and there were 29 of them. Questions
that differ in nothing but the name of a system ("restart billing", "restart checkout") are as near as paraphrases are
(docs/decisions/0032-receipts-and-gaps.md): known names of services keep them apart, nothing else does.
"""

from __future__ import annotations

from collections.abc import Sequence

from opx.domain.ids import stable_hash
from opx.domain.record import Record
from opx.text.fields import query_terms

MIN_AGREEMENT = 0.45
"""Of signs: 1 if all are the same, 0 if half of them are."""

MIN_SHARED_TERMS = 0.75
"""Of the terms of both questions together, where a vector is missing or is another model's."""

_ASKING = frozenset(
    """how what why when where which who whose doe did i me my we our us you your get got should must
    """.split()  # noqa: SIM905 - one word a line would be a page
)
"""Terms that say that something is asked, and not what."""


class Wording(Record, frozen=True):
    """A question as it was put. `signs` are of its vector by `model`, empty without one."""

    text: str
    terms_key: str
    signs: bytes = b""
    model: str = ""


def wording_of(text: str, vector: Sequence[float] | None = None, model: str = "") -> Wording:
    """The wording of a question; its text as it is."""
    key = stable_hash("terms", sorted(_terms(text)))
    return Wording(text, key) if vector is None else Wording(text, key, _signs(vector), model)


def likeness(one: Wording, other: Wording) -> float:
    """1 for the same terms, at least 0 where both ask for the same, below 0 where they don't."""
    if one.terms_key == other.terms_key:
        return 1.0
    if one.signs and other.signs and one.model == other.model:
        return _agreement(one.signs, other.signs) - MIN_AGREEMENT
    mine, theirs = _terms(one.text), _terms(other.text)
    return len(mine & theirs) / max(1, len(mine | theirs)) - MIN_SHARED_TERMS


def is_empty(text: str) -> bool:
    """Whether nothing is asked for."""
    return not query_terms(text)


def _terms(text: str) -> frozenset[str]:
    """All terms, if it has none but those of asking."""
    terms = frozenset(query_terms(text))
    return terms - _ASKING or terms


def _signs(vector: Sequence[float]) -> bytes:
    bits = 0
    for position, value in enumerate(vector):
        if value > 0:
            bits |= 1 << position
    return bits.to_bytes((len(vector) + 7) // 8, "little")


def _agreement(one: bytes, other: bytes) -> float:
    different = (int.from_bytes(one, "little") ^ int.from_bytes(other, "little")).bit_count()
    return 1 - 2 * different / (8 * max(len(one), len(other)))

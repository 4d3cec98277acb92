"""Models gaps: clusters of similar unanswered questions, with their wordings and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from opx.domain.ids import epoch_seconds, stable_hash
from opx.domain.record import Record, replace
from opx.domain.results import Absent
from opx.ports import Item
from opx.text.fields import query_terms

# -- similarity of wordings


MIN_AGREEMENT = 0.45
"""Least agreement of the vectors' signs: 1 if all are equal, 0 if half of them are."""

MIN_SHARED_TERMS = 0.75
"""Least share of common terms (Jaccard), used if a vector is missing or of another model."""

_EXAMINED = 10_000
"""Number of characters at the beginning that are examined."""

_REPLACED = "\ufffd"
"""Character in place of bytes that are no UTF-8."""

_QUESTION_TERMS = frozenset(
    """how what why when where which who whose doe did i me my we our us you your get got should must
    """.split()  # noqa: SIM905 - one word a line would be a page
)
"""Terms that mark a question without stating its subject."""


class Wording(Record, frozen=True):
    """The wording of a question. `signs` are the sign bits of its vector by `model`, empty without one."""

    text: str
    terms_key: str
    signs: bytes = b""
    model: str = ""


def wording_of(text: str, vector: Sequence[float] | None = None, model: str = "") -> Wording:
    """The wording of a question, with its text unchanged."""
    key = stable_hash("terms", sorted(_terms(text)))
    return Wording(text, key) if vector is None else Wording(text, key, _signs(vector), model)


def likeness(one: Wording, other: Wording) -> float:
    """Similarity of two questions: 1 for equal terms, at least 0 for the same intent, negative otherwise."""
    if one.terms_key == other.terms_key:
        return 1.0
    if one.signs and other.signs and one.model == other.model:
        return _agreement(one.signs, other.signs) - MIN_AGREEMENT
    mine, theirs = _terms(one.text), _terms(other.text)
    return len(mine & theirs) / max(1, len(mine | theirs)) - MIN_SHARED_TERMS


def is_empty(text: str) -> bool:
    """True if the text has no searchable terms."""
    return not query_terms(text)


def is_binary(text: str) -> bool:
    """True if most of the beginning of the text is not printable, as of a binary file."""
    letters = [letter for letter in text[:_EXAMINED] if not letter.isspace()]
    return 2 * sum(letter.isprintable() and letter != _REPLACED for letter in letters) < len(letters)


def _terms(text: str) -> frozenset[str]:
    """Terms without `_QUESTION_TERMS`, unless there are no others."""
    terms = frozenset(query_terms(text))
    return terms - _QUESTION_TERMS or terms


def _signs(vector: Sequence[float]) -> bytes:
    bits = 0
    for position, value in enumerate(vector):
        if value > 0:
            bits |= 1 << position
    return bits.to_bytes((len(vector) + 7) // 8, "little")


def _agreement(one: bytes, other: bytes) -> float:
    different = (int.from_bytes(one, "little") ^ int.from_bytes(other, "little")).bit_count()
    return 1 - 2 * different / (8 * max(len(one), len(other)))


# -- model


MAX_EXAMPLES = 5
MAX_CALLERS = 20
REPORT_SECONDS = 60
"""Seconds within which a report of a question counts only once, also together with the question itself."""
_FAR_OFF = 0.1
"""Weight of a question without any near document, mostly not about operations."""


class GapStatus(StrEnum):
    """Status of a gap. `CLOSED`: a document answers it, or an operator closed it. `IGNORED`: no document will be written."""

    OPEN = "open"
    CLOSED = "closed"
    IGNORED = "ignored"


class Nearest(Record, frozen=True, rename=None):
    """The best result that was not good enough. Items in the table use these field names."""

    document_id: str = ""
    title: str = ""
    category: str = ""
    author: str = ""
    confidence: float = 0.0
    services: tuple[str, ...] = ()


class Gap(Record, frozen=True):
    """A cluster of questions of one scope. `examples` are the first wordings, `callers` hashes of the first callers.

    `named` are the services that the questions name. `config` is the query configuration of the last one (as JSON).
    `missing` is the information that reporters missed. `absent` is an identifier without a page, if that is the gap, with
    the nearest name of the last answer. `settled_by` is the principal that closed or ignored it by hand, `owner` the one that
    it was assigned to, if it was. `revision` counts writes.
    """

    scope_key: str
    gap_id: str
    examples: tuple[Wording, ...]
    first_asked_at: str
    last_asked_at: str
    status: GapStatus = GapStatus.OPEN
    count: int = 1
    callers: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    nearest: Nearest = Nearest()
    config: Mapping[str, Any] = {}
    missing: tuple[str, ...] = ()
    absent: Absent | None = None
    because: str = ""
    closed_by: str = ""
    closed_by_title: str = ""
    closed_at: str = ""
    settled_by: str = ""
    owner: str = ""
    revision: int = 1

    @property
    def question(self) -> str:
        return self.examples[0].text

    @property
    def services(self) -> tuple[str, ...]:
        """Services named by the questions, or else those of the nearest document."""
        return self.named or self.nearest.services

    @property
    def weight(self) -> float:
        """Priority: frequency times nearness of existing knowledge."""
        return self.count * (_FAR_OFF + self.nearest.confidence)

    @property
    def may_be_alike(self) -> bool:
        """False if only the gap with its id can be the same as this new one: that of an absent identifier, unless its reader
        reports it."""
        return self.absent is None or bool(self.missing)

    def likeness(self, new: Gap) -> float:
        """Similarity of the closest example to a new gap's single question; negative for another intent.

        Gaps of absent identifiers are equal only by id; but a report in the words of an example belongs to this gap.
        """
        wording = new.examples[0]
        if self.absent or new.absent:
            is_reported = new.missing and self._has_words_of(wording)
            return 1.0 if is_reported else -1.0
        if new.named != self.named:
            return -1.0
        return max(likeness(wording, example) for example in self.examples)

    def _has_words_of(self, wording: Wording) -> bool:
        return wording.terms_key in {example.terms_key for example in self.examples}

    def counting(self, other: Gap) -> Gap:
        """This gap with another gap's single question counted. A closed gap is reopened: the question was not answered."""
        known = {example.terms_key for example in self.examples}
        fresh = [example for example in other.examples if example.terms_key not in known]
        examples = (*self.examples, *fresh)[:MAX_EXAMPLES]
        nearer = other.nearest if other.nearest.confidence >= self.nearest.confidence else self.nearest
        reopened = self.status is GapStatus.CLOSED
        found = replace(
            self,
            examples=examples,
            last_asked_at=max(self.last_asked_at, other.last_asked_at),
            status=GapStatus.OPEN if reopened else self.status,
            count=self.count + (not self._was_reported_of(other)),
            callers=tuple(dict.fromkeys((*self.callers, *other.callers)))[:MAX_CALLERS],
            named=tuple(sorted({*self.named, *other.named})),
            categories=tuple(sorted({*self.categories, *other.categories})),
            nearest=other.nearest if reopened else nearer,
            config=other.config,
            missing=tuple(dict.fromkeys((*self.missing, *other.missing)))[:MAX_EXAMPLES],
            absent=other.absent or (None if reopened else self.absent),
            revision=self.revision + 1,
        )
        return (
            replace(found, because="", closed_by="", closed_by_title="", closed_at="", settled_by="")
            if reopened
            else found
        )

    def _was_reported_of(self, other: Gap) -> bool:
        """True if another gap only repeats, as a report, the latest question or report of its caller."""
        seconds = (epoch_seconds(other.last_asked_at) or 0) - (epoch_seconds(self.last_asked_at) or 0)
        is_same = self._has_words_of(other.examples[0]) and set(other.callers) <= set(self.callers)
        return bool(other.missing) and is_same and seconds < REPORT_SECONDS


def to_item(gap: Gap, expires_at: int) -> Item:
    """The item of a gap: its JSON, with one list per field of its wordings."""
    item = gap.to_json()
    del item["examples"]
    return {
        **item,
        "statusKey": status_key(gap),
        "texts": [example.text for example in gap.examples],
        "termsKeys": [example.terms_key for example in gap.examples],
        "signs": [example.signs for example in gap.examples],
        "models": [example.model for example in gap.examples],
        "expiresAt": expires_at,
    }


def status_key(gap: Gap) -> str:
    """Key of a gap in the index by status."""
    return f"{gap.scope_key}#{gap.status}"


def from_item(item: Item) -> Gap:
    """The gap of an item."""
    wordings = zip(item["texts"], item["termsKeys"], item["signs"], item["models"], strict=True)
    examples = [
        {"text": text, "termsKey": key, "signs": bytes(signs), "model": model} for text, key, signs, model in wordings
    ]
    return Gap.from_json({**item, "examples": examples})

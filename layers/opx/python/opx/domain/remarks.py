"""What a reader of a document should know about how it was read."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from opx.domain.record import Record

MAX_REMARKS = 50


class RemarkKind(StrEnum):
    """Whether something was left out, changed, or looks wrong."""

    UNREAD_PART = "unread_part"
    """A page, picture or attachment that could not be read."""
    IRREGULAR = "irregular"
    """What doesn't keep to the rules of its format, and was read as far as it goes."""
    UNDESCRIBED_IMAGE = "undescribed_image"
    MASKED_SECRET = "masked_secret"  # noqa: S105 - a name, no secret
    SUSPECTED_INSTRUCTION = "suspected_instruction"
    """Text that seems to be aimed at a language model."""
    MISSING_CONTEXT = "missing_context"
    """Passages that should be found by what a model writes about them, and for which it wrote nothing."""
    MALFORMED_RELATION = "malformed_relation"
    """A line that looks like a relation and can't be understood; it stays text."""
    LEFT_OUT_OF_GRAPH = "left_out_of_graph"
    """More things or relations than are kept of one document."""
    EXPIRED = "expired"
    """It was past its day when it was taken in."""


class Remark(Record, frozen=True):
    """`text` says what and where, for people; it never quotes a secret."""

    kind: RemarkKind
    text: str


def bounded(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """At most `MAX_REMARKS`, each once; the last then says how many there are besides."""
    found = tuple(dict.fromkeys(remarks))
    if len(found) <= MAX_REMARKS:
        return found
    kept, left = found[: MAX_REMARKS - 1], len(found) - MAX_REMARKS + 1
    return (*kept, Remark(found[MAX_REMARKS - 1].kind, f"and {left} more remarks"))

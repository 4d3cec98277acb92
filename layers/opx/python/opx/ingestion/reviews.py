"""Reviews of documents, recorded in the metadata of their objects.

A review is of one content: another one is put without it, so that the new text's own day counts. The
same file that is ingested again leaves the object, and its review, as they are.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from opx.domain.documents import KnowledgeDocument
from opx.domain.provenance import CHANNEL_METADATA
from opx.domain.record import Record, about, replace
from opx.errors import InvalidInputError
from opx.ports import ObjectInfo, ObjectStore

REVIEW_METADATA = "opx-review"
"""Name of the object's user metadata with the `Review` as JSON."""


class Review(Record, frozen=True):
    """A review of the present content of a document. `until` is the day of the next one."""

    by: Annotated[str, about("The principal that reviewed it; empty if unknown.")]
    at: Annotated[str, about("When it was reviewed.")]
    until: Annotated[str, about("The day by which it is to be reviewed again.")]


def review_of(info: ObjectInfo, *, attested: bool) -> Review | None:
    """The review that an object records, None without one. Of an object that the installation didn't put, the principal is
    left out: anyone with a right to put objects may have named it."""
    text = info.metadata.get(REVIEW_METADATA)
    if not text:
        return None
    try:
        found = Review.from_json(msgspec.json.decode(text))
    except (msgspec.MsgspecError, InvalidInputError):  # of a newer release, or of another program
        return None
    return found if attested else Review("", found.at, found.until)


def reviewed(document: KnowledgeDocument, review: Review) -> KnowledgeDocument:
    """The document with the day of its next review, which comes before the day that it states itself."""
    return replace(document, reviewed_at=review.at, review_by=review.until)


def review_metadata(review: Review) -> dict[str, str]:
    """The metadata of an object that state its review."""
    return {REVIEW_METADATA: msgspec.json.encode(review).decode()}


def carried_metadata(store: ObjectStore, info: ObjectInfo) -> dict[str, str]:
    """The metadata with which the installation may put an object again: without a channel that it didn't state itself, and
    would attest by that, and without a review."""
    left_out = {REVIEW_METADATA, *(() if store.attests(info) else (CHANNEL_METADATA,))}
    return {name: value for name, value in info.metadata.items() if name not in left_out}

"""Documents that are compared with each other: which ones, and how they are listed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated

from opx.domain.documents import KnowledgeDocument
from opx.domain.record import Record, about
from opx.operations.context import Context
from opx.operations.documents import documents_within

MAX_DOCUMENTS = 2000
"""Documents that one call compares: each is read, on AWS in some 20 ms, several at a time. Finding its statements takes 2 to
11 ms of a processor."""


class SimilarDocument(Record, frozen=True):
    document_id: str
    title: str
    key: Annotated[str, about("The document's name in the corpus, in its scope.")]
    scope: str
    category: str
    owner: str
    last_updated: str


def described(document: KnowledgeDocument) -> dict[str, str]:
    """The fields of a `SimilarDocument`."""
    return {
        "document_id": document.document_id,
        "title": document.title,
        "key": document.source,
        "scope": document.scope.key,
        "category": document.category,
        "owner": document.owner,
        "last_updated": document.last_updated,
    }


def to_be_compared(context: Context, categories: Sequence[str]) -> tuple[list[KnowledgeDocument], bool]:
    """The current documents of these categories (sorted) that the caller may see, at most `MAX_DOCUMENTS`, and true if there
    are more."""
    found = list(islice(documents_within(context, categories), MAX_DOCUMENTS + 1))
    return found[:MAX_DOCUMENTS], len(found) > MAX_DOCUMENTS

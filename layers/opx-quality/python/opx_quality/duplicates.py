"""Documents that say nearly the same: pairs of them, for people who keep the knowledge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Annotated

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.queries import CATEGORY
from opx.domain.record import Record, about
from opx.domain.requests import Request, Text
from opx.errors import DamagedStoreError, ObjectNotFoundError
from opx.hygiene.near_duplicates import copies
from opx.ingestion.corpus.chunk_files import read_chunks
from opx.operations.context import Context
from opx.operations.paging import fitting
from opx.operations.registry import operation
from opx_quality.comparing import SimilarDocument, described, to_be_compared

MAX_CHUNKS = 50
"""Passages of a document that are compared."""
MAX_PAIRS = 200


class ListDuplicates(Request, frozen=True):
    category: Annotated[Text, about(CATEGORY)] = ""


class DuplicatePair(Record, frozen=True):
    """Two documents with passages that have nearly the same words. `first` is the more trusted one, or the older one."""

    first: SimilarDocument
    second: SimilarDocument
    passages: Annotated[int, about("Number of passages of the second that the first has, too.")]
    of: Annotated[int, about("Number of passages of the second.")]


class Duplicates(Record, frozen=True):
    pairs: tuple[DuplicatePair, ...]
    compared: Annotated[int, about("Number of documents that were compared.")]
    more: Annotated[bool, about("True if there are more documents or pairs: name a category.")]


@operation(http="GET /duplicates")
def list_duplicates(context: Context, request: ListDuplicates) -> Duplicates:
    """List pairs of current documents with passages that are nearly the same, those with the largest share first.

    Compares up to 2,000 documents that the caller may see. Raises `UnknownCategoryError`.
    """
    model = context.system.installation.knowledge
    paths = model.within(request.category) if request.category else sorted(model.categories)
    found, has_more = to_be_compared(context, paths)
    documents = sorted(found, key=lambda one: (-one.trust, one.created_at, one.key.id))
    counted = Counter((first, second) for first, second, _ in copies(_chunks(context, documents)))
    pairs = [_pair(documents[first], documents[second], count) for (first, second), count in counted.items()]
    pairs.sort(key=lambda one: (-one.passages / one.of, one.first.title, one.second.key))
    shown, more = fitting(iter(pairs), MAX_PAIRS)
    return Duplicates(shown, len(documents), more or has_more)


def _chunks(context: Context, documents: Sequence[KnowledgeDocument]) -> Iterator[tuple[int, DocumentChunk]]:
    """The first passages of documents, with the position of each document."""
    with ThreadPoolExecutor(context.system.storage.read_threads) as pool:
        each = pool.map(lambda one: _chunks_of(context, one), documents)
        for position, chunks in enumerate(each):
            yield from ((position, chunk) for chunk in chunks)


def _chunks_of(context: Context, document: KnowledgeDocument) -> list[DocumentChunk]:
    try:
        return list(islice(read_chunks(context.system.store, document.key, document.document_id), MAX_CHUNKS))
    except (ObjectNotFoundError, DamagedStoreError):  # it is being removed, or repaired
        return []


def _pair(first: KnowledgeDocument, second: KnowledgeDocument, passages: int) -> DuplicatePair:
    one, other = (SimilarDocument(**described(each)) for each in (first, second))
    return DuplicatePair(one, other, passages, max(1, min(second.chunk_count, MAX_CHUNKS)))

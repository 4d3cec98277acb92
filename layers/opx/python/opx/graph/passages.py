"""Reads the passages that are evidence of nodes and edges, for one reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass

from msgspec import UnsetType

from opx.domain.documents import KnowledgeDocument, RemarkKind
from opx.domain.graph import GraphEvidence
from opx.domain.record import like
from opx.domain.scopes import Reader
from opx.errors import DamagedStoreError, ObjectNotFoundError
from opx.graph.views import Passage
from opx.ingestion.corpus.catalog import Catalog
from opx.ports import ObjectStore
from opx.runtime.threads import Each

MOST_PASSAGES = 100
MOST_DOCUMENTS = 25
"""Documents whose chunk files are read for one answer. Evidence of further documents has its ids alone."""

A_STATEMENT = 2
"""Passages of one document that are read for one statement."""


Key = str | UnsetType

SUSPECTED = RemarkKind.SUSPECTED_INSTRUCTION.value


@dataclass(eq=False)
class PassageReader:
    """Reads the chunks that evidence names. Documents that are invisible to the reader, expired or deleted are left out."""

    catalog: Catalog
    store: ObjectStore
    reader: Reader
    _: KW_ONLY
    expired: Callable[[KnowledgeDocument], object]
    threads: int = 1

    def of(self, evidence: Iterable[GraphEvidence], *, most: int = MOST_PASSAGES) -> tuple[Passage, ...]:
        """Up to `most` passages in the order of the evidence, each once."""
        wanted: dict[tuple[str, Key], dict[str, None]] = {}
        order: dict[str, None] = {}
        for one in evidence:
            document = (one.document_id, one.key_id)
            if len(order) >= most:
                break
            if document in wanted or len(wanted) < MOST_DOCUMENTS:
                ids = dict.fromkeys(one.chunk_ids[:A_STATEMENT])
                wanted.setdefault(document, {}).update(ids)
                order.update(ids)
        read = Each(self.threads)(lambda one: self._of_document(*one[0], one[1]), list(wanted.items()))
        found = {passage.chunk_id: passage for some in read for passage in some}
        return tuple(found[chunk_id] for chunk_id in order if chunk_id in found)[:most]

    def _of_document(self, document_id: str, key_id: Key, chunk_ids: dict[str, None]) -> list[Passage]:
        from opx.ingestion.corpus.chunk_files import read_chunks

        document = self._visible(document_id, key_id)
        if document is None:
            return []
        found: list[Passage] = []
        try:
            for chunk in read_chunks(self.store, document.key, document_id):
                if chunk.chunk_id in chunk_ids:
                    found.append(_passage(document, chunk.chunk_id, " > ".join(chunk.section), chunk.content))
                if len(found) == len(chunk_ids):
                    break
        except (ObjectNotFoundError, DamagedStoreError):  # withdrawn since, with its statements; or to be repaired
            return found
        return found

    def _visible(self, document_id: str, key_id: Key) -> KnowledgeDocument | None:
        for document in self.catalog.find(document_id):
            if document.key.id == key_id and self.reader.may_see(document.key.scope):
                return None if self.expired(document) else document
        return None


def _passage(document: KnowledgeDocument, chunk_id: str, section: str, content: str) -> Passage:
    return like(
        Passage,
        document,
        chunk_id=chunk_id,
        section=section,
        source=document.source_uri,
        content=content,
        flags=(SUSPECTED,) if any(remark.kind == SUSPECTED for remark in document.remarks) else (),
    )

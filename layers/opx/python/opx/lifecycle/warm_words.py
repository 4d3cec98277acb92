"""Makes the segment of words that answers questions while the index wakes up, when the corpus has changed."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from opx.domain.documents import KnowledgeDocument
from opx.domain.knowledge import KnowledgeModel
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.errors import UnknownCategoryError
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.indexing.words import WordsManifest, WordsShelf
from opx.lifecycle.reindex.filling import SearchedDocuments
from opx.ports.search import CorpusVersion, WordsSegments
from opx.runtime.threads import Each

log = logging.getLogger(__name__)

WARM_WORDS = json.dumps({"do": "warm words"})
"""The message that requests a segment, if the corpus has changed since the last one."""

MOST_CHUNKS = 50_000
FIRST = "runbooks"
"""The categories whose documents come first, where not all fit."""

_AT_ONCE = 64


@dataclass(eq=False, kw_only=True)
class WarmWords:
    """Makes segments of the current versions that are searched, those of runbooks first, in each category the last updated
    first, until the segment is full."""

    catalog: Catalog
    documents: SearchedDocuments
    knowledge: KnowledgeModel
    shelf: WordsShelf
    segments: WordsSegments
    version: CorpusVersion
    threads: int = 1
    most_chunks: int = MOST_CHUNKS

    def make_if_changed(self, stop: Callable[[], bool] = lambda: False) -> WordsManifest | None:
        """Makes a segment and puts it into the store; None if the newest one has the present corpus. After `stop` returns
        True, no more documents are added. Raises `StoreUnavailableError`."""
        corpus, newest = self.version.current().version, self.shelf.newest()
        identity, budget = self.segments.identity, self.shelf.budget
        if newest and (newest.corpus, newest.identity, newest.budget) == (corpus, identity, budget):
            return None
        clients: set[str] = set()
        stopped = False

        def documents() -> Iterator[tuple[int, Sequence[IndexedChunk]]]:
            nonlocal stopped
            for document, chunks in self._read():
                if stopped := stop():
                    return
                clients.add(document.scope.client_id)
                yield document.version, chunks

        with tempfile.TemporaryDirectory(prefix="opx-words-") as made:
            folder = Path(made) / "words"
            count = self.segments.write(folder, documents(), chunks=self.most_chunks, size=budget)
            count = replace(count, whole=count.whole and not stopped)
            owners = tuple(sorted(clients - {""}))
            manifest = self.shelf.publish(folder, count, identity=identity, corpus=corpus, clients=owners)
        log.info("a segment of words has %d chunks of %d documents", count.chunks, count.documents)
        return manifest

    def _read(self) -> Iterator[tuple[KnowledgeDocument, Sequence[IndexedChunk]]]:
        """Documents with their chunks, in the order of the segment."""
        found = (one for path in self._categories() for one in self.catalog.in_category(path))
        searched = (one for one in found if one.chunk_count and self.documents.is_searched(one))
        while portion := list(islice(searched, _AT_ONCE)):
            for one in Each(self.threads)(self.documents.read, portion):
                yield one.document, list(one.indexed())

    def _categories(self) -> list[str]:
        first: tuple[str, ...] = ()
        with suppress(UnknownCategoryError):
            first = self.knowledge.within(FIRST)
        others = (path for path, one in sorted(self.knowledge.categories.items()) if one.embed)
        return list(dict.fromkeys((*first, *others)))


def make_on_message(body: str, words: Callable[[], WarmWords | None], stop: Callable[[], bool]) -> bool:
    """Makes a segment if a message requests that; returns True if so. Raises `StoreUnavailableError`: then retry."""
    try:
        if json.loads(body) != json.loads(WARM_WORDS):
            return False
    except (ValueError, RecursionError):
        return False
    maker = words()
    if maker is None:
        log.info("no words are kept here")
    elif maker.make_if_changed(stop) is None:
        log.info("the words are those of the corpus")
    return True

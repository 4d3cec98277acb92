"""The version of what is in one folder: the index counts its batches itself."""

from __future__ import annotations

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.ports.corpus_version import CorpusState


class IndexGeneration:
    """A `CorpusVersion` of an index. A batch is found as soon as it is counted."""

    def __init__(self, index: EmbeddedIndex) -> None:
        self._index = index

    def current(self) -> CorpusState:
        return CorpusState(self._index.version)

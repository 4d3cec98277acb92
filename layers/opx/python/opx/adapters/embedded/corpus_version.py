"""The version of what is in one folder: the index counts its batches itself."""

from __future__ import annotations

from typing import Protocol

from opx.ports.corpus_version import CorpusState


class Versioned(Protocol):
    """An index that counts its batches."""

    @property
    def version(self) -> str: ...


class IndexGeneration:
    """A `CorpusVersion` of an index. A batch is found as soon as it is counted."""

    def __init__(self, index: Versioned) -> None:
        self._index = index

    def current(self) -> CorpusState:
        return CorpusState(self._index.version)

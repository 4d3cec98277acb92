"""The embedded search index keeps the contract, and what only it promises: several processes, no torn state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx_testing.entries import VECTOR_DIMENSION
from opx_testing.search_index import SearchIndexContract


def an_index(folder: Path, model_id: str = "test-model") -> EmbeddedIndex:
    return EmbeddedIndex(folder, model_id=model_id, dimension=VECTOR_DIMENSION)


class TestEmbeddedIndex(SearchIndexContract):
    @pytest.fixture
    def index(self, tmp_path: Path) -> Iterator[EmbeddedIndex]:
        index = an_index(tmp_path)
        yield index
        index.close()

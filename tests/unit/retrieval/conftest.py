"""An empty index, with an embedder of words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from tests.support.fakes import WordsEmbedder


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    index = EmbeddedIndex(tmp_path / "index", model_id=WordsEmbedder.model_id, dimension=WordsEmbedder.dimension)
    yield index
    index.close()

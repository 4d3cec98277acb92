"""The embedded index keeps the contract, and segments of words find what it finds by words, for every filter."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.adapters.embedded.words import CHUNKS, OFFSETS, EmbeddedWords
from opx.domain.ids import day_number
from opx.domain.knowledge import Tier
from opx.domain.results import IndexedChunk
from opx.domain.scopes import Scope
from opx.errors import IndexUnavailableError
from opx.ports import IndexEntry, SearchEngine, SearchFilter, SearchRequest
from opx.ports.search import VersionName, WordsCount
from opx_testing.entries import EVERYONE, VECTOR_DIMENSION, an_entry
from opx_testing.search_index import SearchIndexContract
from opx_testing.searches import OPERATIONS_TEXTS, fill

ACME, SHOP = Scope("acme"), Scope("acme", project_id="shop")
SCOPES = (EVERYONE.scopes[0], ACME.key, SHOP.key)
EVERYTHING = 1_000, 10_000_000
SECOND: dict[str, Any] = {"source": "10.md", "index": 1, "title": "Two passages", "document_id": "0" * 32}


def every_version(names: Collection[VersionName]) -> Collection[VersionName]:
    return names


def a_corpus() -> list[IndexEntry]:
    """Documents of three scopes, with every facet that a filter has; of one document two chunks."""
    texts = [*OPERATIONS_TEXTS, *OPERATIONS_TEXTS]
    facets = [
        {"scope": (Scope(), ACME, SHOP)[number % 3], "tags": ("storage",) if number % 2 else (), "resources": ("db",)}
        for number in range(len(texts))
    ]
    made = [
        an_entry(
            text,
            source=f"{number}.md",
            title=f"Incident {number} disk" if number % 2 else f"Vorfall {number}",
            language="de" if number == 4 else "en",
            tier=Tier.INTERNET if number == 7 else Tier.INTERNAL,
            category="postmortems" if number > 6 else "runbooks/procedures",
            last_updated="2026-03-01T12:00:00Z" if number < 5 else "",
            **facet,  # type: ignore[arg-type]
        )
        for number, (text, facet) in enumerate(zip(texts, facets, strict=True))
    ]
    second = an_entry("A second passage about the disk. Größe 日本語", **SECOND)
    return [*made, an_entry("The first passage about the disk.", **{**SECOND, "index": 0}), second]


def by_document(entries: Sequence[IndexEntry]) -> Iterator[tuple[int, list[IndexedChunk]]]:
    for number, (_, some) in enumerate(groupby(entries, key=lambda one: one.indexed.chunk.document_id)):
        yield number, [one.indexed for one in some]


def written(folder: Path, entries: Sequence[IndexEntry], most: tuple[int, int] = EVERYTHING) -> WordsCount:
    return EmbeddedWords().write(folder, by_document(entries), chunks=most[0], size=most[1])


@pytest.fixture
def words(tmp_path: Path) -> SearchEngine:
    written(tmp_path / "words", a_corpus())
    return EmbeddedWords().open(tmp_path / "words", every_version)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    index = EmbeddedIndex(tmp_path / "index", model_id="test-model", dimension=VECTOR_DIMENSION)
    for _, some in groupby(a_corpus(), key=lambda one: one.indexed.chunk.document_id):
        fill(index, *some)
    yield index
    index.close()


DAY = day_number("2026-03-01T12:00:00Z")
FILTERS = [
    {},
    {"scopes": SCOPES[:1]},
    {"scopes": SCOPES[1:2]},
    {"scopes": ("client:other",)},
    {"categories": ("postmortems",)},
    {"tiers": ("internet",)},
    {"tags": ("storage",), "also_resources": ("db",)},
    {"resources": ("web",)},
    {"languages": ("de",)},
    {"updated_from": DAY, "updated_before": (DAY or 0) + 1},
    {"title_terms": (("disk",),), "excluded_terms": ("server",)},
    {"required_terms": (("log", "gateway"), ("reload", "pod"))},
]


@pytest.mark.parametrize("where", FILTERS, ids=str)
@pytest.mark.parametrize("depth", [3, 50])
def test_a_segment_answers_as_the_embedded_index_does(
    words: SearchEngine, index: EmbeddedIndex, where: dict[str, object], depth: int
) -> None:
    request = SearchRequest(
        SearchFilter(**{"scopes": SCOPES, **where}),  # type: ignore[arg-type]
        text="the disk of the server is full: read the log, renew the gateway",
        depth=depth,
        languages=("en", "de"),
    )
    found, expected = words.search(request), index.search(request)
    assert found.lexical == expected.lexical
    assert found.chunks == expected.chunks
    assert (found.term_frequencies, found.entry_count) == (expected.term_frequencies, expected.entry_count)
    assert words.entries_with(["disk", "gateway", "nothing"], request.filter.scopes) == index.entries_with(
        ["disk", "gateway", "nothing"], request.filter.scopes
    )


def test_a_question_without_words_finds_nothing(words: SearchEngine) -> None:
    assert words.search(SearchRequest(SearchFilter(SCOPES), text="")).chunks == {}


def test_versions_that_are_no_more_current_are_not_found_and_make_room_for_others(tmp_path: Path) -> None:
    entries = [an_entry(f"disk full on host {number}", source=f"{number}.md") for number in range(60)]
    written(tmp_path / "words", entries)
    last = entries[-1].indexed
    engine = EmbeddedWords().open(
        tmp_path / "words", lambda names: [one for one in names if one == (last.key_id, last.chunk.document_id, 59)]
    )
    found = engine.search(SearchRequest(EVERYONE, text="disk full on host", depth=3))
    assert [name for name, _ in found.lexical.hits] == [last.entry_id]
    assert list(found.chunks) == [last.entry_id]


def test_documents_are_left_out_whole_when_the_chunks_or_bytes_are_used_up(tmp_path: Path) -> None:
    entries = a_corpus()
    assert written(tmp_path / "all", entries) == WordsCount(11, 12, whole=True)
    assert written(tmp_path / "few", entries, (11, 10_000_000)) == WordsCount(10, 10, whole=False)
    assert not written(tmp_path / "small", entries * 3, (1_000, 400)).whole


@pytest.mark.parametrize("file", [CHUNKS, OFFSETS])
def test_a_damaged_segment_is_an_index_that_is_unavailable(tmp_path: Path, file: str) -> None:
    written(tmp_path / "words", a_corpus())
    (tmp_path / "words" / file).write_bytes(b"damaged!" * 20)
    with pytest.raises(IndexUnavailableError):
        EmbeddedWords().open(tmp_path / "words", every_version).search(SearchRequest(EVERYONE, text="disk"))


def an_index(folder: Path, model_id: str = "test-model") -> EmbeddedIndex:
    return EmbeddedIndex(folder, model_id=model_id, dimension=VECTOR_DIMENSION)


class TestEmbeddedIndex(SearchIndexContract):
    @pytest.fixture
    def index(self, tmp_path: Path) -> Iterator[EmbeddedIndex]:
        index = an_index(tmp_path)
        yield index
        index.close()

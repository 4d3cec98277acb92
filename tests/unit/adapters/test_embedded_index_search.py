"""The embedded index finds exactly what a plain scan would: in both legs, under any filter, ties included."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.adapters.embedded.vector_files import quantised, vectors_of
from opx.domain.documents import DocumentChunk
from opx.domain.ids import day_number, day_text
from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.ports import DocumentChange, IndexEntry, SearchFilter, SearchRequest
from opx.text.fields import analysed_fields
from opx_testing.entries import EVERYONE, VECTOR_DIMENSION, a_change, a_removal, an_entry, any_vector

SIZE = 1200
RARE = 6
"""Entries with the tag `rare`: 0.5 % of all."""

SCOPES = (Scope(), Scope("acme"), Scope("other", project_id="web"))
CATEGORIES = ("runbooks/procedures", "postmortems", "security/cve")
WORDS = ("disk", "pod", "gateway", "latency", "certificate", "replica", "queue", "the")
SERVICES = ("checkout", "web", "shop")
DAYS = tuple(range(20_000, 20_007))
EVERY_SCOPE = SearchFilter(scopes=tuple(scope.key for scope in SCOPES))
FILTERS = (
    EVERY_SCOPE,
    EVERYONE,
    SearchFilter(scopes=("client:acme",)),
    replace(EVERY_SCOPE, categories=("postmortems", "security/cve")),
    replace(EVERY_SCOPE, tiers=("specialized",), languages=("de",)),
    replace(EVERY_SCOPE, tags=("rare",)),
    replace(EVERYONE, tags=("rare", "odd"), categories=("runbooks/procedures",)),
    replace(EVERY_SCOPE, tags=("absent",)),
    SearchFilter(scopes=("client:nobody",)),
    replace(EVERY_SCOPE, resources=("checkout", "absent"), also_resources=("web", "shop")),
    replace(EVERY_SCOPE, updated_from=DAYS[2], updated_before=DAYS[5], also_tags=("odd",)),
    replace(EVERYONE, updated_before=DAYS[1]),
)
TERM_FILTERS = (
    replace(EVERY_SCOPE, required_terms=(("disk",), ("latenc", "absent"))),
    replace(EVERY_SCOPE, excluded_terms=("disk", "pod", "gateway")),
    replace(EVERYONE, title_terms=(("postmortem",),), required_terms=(("queue",),), excluded_terms=("disk",)),
    replace(EVERY_SCOPE, required_terms=(("queue",),), tags=("odd",), resources=("web",), updated_from=DAYS[3]),
    replace(EVERY_SCOPE, required_terms=(("absent",),)),
    SearchFilter(scopes=("client:nobody",), excluded_terms=("disk",)),
)


def a_collection(vectors_each: Sequence[int]) -> list[IndexEntry]:
    """Seeded documents of one to four chunks whose texts, vectors and facets are drawn at random, and how many vectors they
    have from `vectors_each`."""
    chance = random.Random(11)
    entries: list[IndexEntry] = []
    while len(entries) < SIZE:
        facets: dict[str, Any] = {
            "scope": chance.choice(SCOPES),
            "category": chance.choice(CATEGORIES),
            "tier": chance.choice((Tier.INTERNAL, Tier.SPECIALIZED)),
            "language": chance.choice(("en", "de")),
            "title": chance.choice(("Runbook", "Postmortem")),
            "resources": chance.sample(SERVICES, chance.randrange(3)),
            "last_updated": chance.choice(("", *map(day_text, DAYS))),
        }
        document = f"document {len(entries)}"
        tags = ["rare"] if len(entries) < RARE else []
        size = 1 if tags else chance.randrange(1, 5)
        for index in range(min(size, SIZE - len(entries))):
            text = " ".join(chance.choices(WORDS, k=chance.randrange(2, 12)))
            vectors = [any_vector(f"{document} {index} {at}") for at in range(chance.choice(vectors_each))]
            marked = (*tags, *(["odd"] if len(document) % 2 else []))
            own: dict[str, Any] = {"index": index, "tags": marked, "vectors": vectors}
            entries.append(an_entry(text, source=document, document_id=document, **own, **facets))
    return entries


def changes(entries: Sequence[IndexEntry]) -> Iterator[DocumentChange]:
    documents: dict[str, list[IndexEntry]] = {}
    for entry in entries:
        documents.setdefault(entry.indexed.key_id, []).append(entry)
    return (a_change(*document) for document in documents.values())


@pytest.fixture(scope="module", params=[(1,), (1, 1, 2, 3, 7)], ids=["one vector each", "one to seven vectors"])
def collection(request: pytest.FixtureRequest) -> list[IndexEntry]:
    return a_collection(request.param)


@pytest.fixture(scope="module", params=[10**6, 1], ids=["all rows scored", "by records"])
def index(
    request: pytest.FixtureRequest, collection: list[IndexEntry], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedIndex]:
    """An index of the collection that once held other entries too, so that there are dead rows and terms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opx.adapters.embedded.vectors._FEW_ROWS", request.param)
        index = EmbeddedIndex(tmp_path_factory.mktemp("index"), model_id="m", dimension=VECTOR_DIMENSION)
        dead = [an_entry(f"disk pod {n}", source="dead", index=n, document_id="dead") for n in range(300)]
        half = list(changes(collection))
        index.apply([*half[: len(half) // 2], a_change(*dead)])
        index.apply([DocumentChange(dead[0].indexed.key_id, "dead", (), [entry.indexed.entry_id for entry in dead])])
        index.apply(half[len(half) // 2 :])
        yield index
        index.close()


def passes(entry: IndexEntry, where: SearchFilter) -> bool:
    indexed, chunk = entry.indexed, entry.indexed.chunk
    return (
        indexed.scope_key in where.scopes
        and (not where.categories or chunk.category in where.categories)
        and (not where.tiers or indexed.tier.value in where.tiers)
        and (not where.languages or indexed.language in where.languages)
        and (not where.tags or not set(chunk.tags).isdisjoint(where.tags))
        and (not where.also_tags or not set(chunk.tags).isdisjoint(where.also_tags))
        and (not where.resources or not set(indexed.resources).isdisjoint(where.resources))
        and (not where.also_resources or not set(indexed.resources).isdisjoint(where.also_resources))
        and is_within(day_number(indexed.last_updated), where)
        and has_terms(entry, where)
    )


def is_within(day: int | None, where: SearchFilter) -> bool:
    if where.updated_from is None and where.updated_before is None:
        return True
    return day is not None and (where.updated_from or 0) <= day < (where.updated_before or 10**9)


def has_terms(entry: IndexEntry, where: SearchFilter) -> bool:
    title, whole = terms_of(entry.indexed.chunk, entry.indexed.language)
    return (
        all(title & set(group) for group in where.title_terms)
        and all(whole & set(group) for group in where.required_terms)
        and not whole & set(where.excluded_terms)
    )


@cache
def terms_of(chunk: DocumentChunk, language: str) -> tuple[frozenset[str], frozenset[str]]:
    """Those of the title, and all."""
    title, content = (frozenset(terms) for terms in analysed_fields(chunk, language).values())
    return title, title | content


@cache
def stored(vectors: tuple[tuple[float, ...], ...]) -> npt.NDArray[np.float64]:
    """Vectors as the index stores them."""
    rows = quantised(np.array(vectors, np.float32))
    return vectors_of(rows).astype(np.float64)


def cosine(entry: IndexEntry, query: Sequence[float]) -> float:
    """Of the nearest of its vectors."""
    return float((stored(tuple(map(tuple, entry.vectors))) @ np.array(query)).max())


def nearest(collection: Sequence[IndexEntry], query: Sequence[float], where: SearchFilter, depth: int) -> list[str]:
    """The expected vector leg, by a plain scan in double precision."""
    wanted = [entry for entry in collection if passes(entry, where)]
    scores = [cosine(entry, query) for entry in wanted]
    ranked = sorted(
        zip(scores, wanted, strict=True), key=lambda scored: (-round(scored[0], 6), scored[1].indexed.entry_id)
    )
    return [entry.indexed.entry_id for _, entry in ranked[:depth]]


class TestVectorLeg:
    @pytest.mark.parametrize("where", [*FILTERS, *TERM_FILTERS])
    @pytest.mark.parametrize("depth", [1, 10, 100])
    def test_is_what_a_scan_of_everything_finds(
        self, index: EmbeddedIndex, collection: list[IndexEntry], where: SearchFilter, depth: int
    ) -> None:
        entries = {entry.indexed.entry_id: entry for entry in collection}
        for number in range(8):
            query = any_vector(f"query {number}")
            hits = index.search(SearchRequest(where, vector=query, depth=depth)).vector.hits
            found = [entry for entry, _ in hits]
            expected = nearest(collection, query, where, depth)
            assert set(found) == set(expected)
            nearness = [cosine(entries[entry], query) for entry in found]
            assert [score for _, score in hits] == pytest.approx(nearness, abs=1e-5)
            assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)

    @pytest.mark.parametrize("where", TERM_FILTERS)
    def test_is_the_same_when_entries_with_the_terms_are_too_many_to_list(
        self, index: EmbeddedIndex, where: SearchFilter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        requests = [SearchRequest(where, vector=any_vector("q"), depth=depth) for depth in (1, 7, SIZE)]
        listed = [dict(index.search(request).vector.hits) for request in requests]
        monkeypatch.setattr("opx.adapters.embedded.search_index._LISTED_ENTRIES", -1)
        for request, expected in zip(requests, listed, strict=True):
            # A row's product may differ in its last bit with the number of rows that are multiplied at once.
            assert dict(index.search(request).vector.hits) == pytest.approx(expected, abs=2e-6)

    def test_filter_that_keeps_half_a_percent_finds_all_of_it(self, index: EmbeddedIndex) -> None:
        where = replace(EVERY_SCOPE, tags=("rare",))
        assert index.count(where) == RARE == SIZE * 0.005
        response = index.search(SearchRequest(where, text=" ".join(WORDS), vector=any_vector("q"), depth=50))
        assert len(response.vector.hits) == RARE
        assert {response.chunks[entry].chunk.tags[0] for entry, _ in response.lexical.hits} == {"rare"}


class TestSeveralVectors:
    @settings(max_examples=25, deadline=None)
    @given(
        documents=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=6),
        gone=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 3))),
        compacted=st.booleans(),
    )
    def test_remaining_entries_are_found_by_their_nearest_vector_after_removals(
        self, documents: list[list[int]], gone: set[tuple[int, int]], compacted: bool
    ) -> None:
        """`documents` are the numbers of vectors of their entries."""
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr("opx.adapters.embedded.index_writer._DEAD_ROWS_KEPT", -1 if compacted else 1000)
            index = EmbeddedIndex(Path(folder), model_id="m", dimension=VECTOR_DIMENSION)
            made = [windowed(n, counts) for n, counts in enumerate(documents)]
            index.apply(a_change(*entries) for entries in made)
            for n, entries in enumerate(made):
                superseded = [entry.indexed.entry_id for at, entry in enumerate(entries) if (n, at) in gone]
                index.apply([a_removal(entries[0], superseded)])
            stays = [entry for n, some in enumerate(made) for at, entry in enumerate(some) if (n, at) not in gone]
            for where in (EVERYONE, replace(EVERYONE, tags=("odd",)), replace(EVERYONE, required_terms=(("part1",),))):
                query = any_vector("q")
                found = dict(index.search(SearchRequest(where, vector=query)).vector.hits)
                expected = {entry.indexed.entry_id: cosine(entry, query) for entry in stays if passes(entry, where)}
                assert found == pytest.approx(expected, abs=1e-5)
                assert index.count(where) == len(expected)
            index.close()

    @pytest.mark.parametrize("vectors", [0, 70_000])
    def test_entry_without_a_vector_or_with_too_many_is_refused(self, tmp_path: Path, vectors: int) -> None:
        index = EmbeddedIndex(tmp_path, model_id="m", dimension=VECTOR_DIMENSION)
        wrong = IndexEntry(an_entry().indexed, [any_vector("x")] * vectors)
        with pytest.raises(ValueError, match="an entry has from 1 to 65535 vectors"):
            index.apply([a_change(an_entry("disk", source="other.md"), wrong)])
        assert index.count(EVERYONE) == 0
        index.close()


def windowed(number: int, counts: Sequence[int]) -> list[IndexEntry]:
    """The entries of a document, with so many vectors each."""
    return [
        an_entry(
            f"disk part{at}",
            source=f"{number}.md",
            index=at,
            document_id=f"document {number}",
            tags=("odd",) if number % 2 else (),
            vectors=[any_vector(f"{number} {at} {each}") for each in range(count)],
        )
        for at, count in enumerate(counts)
    ]


class TestLexicalLeg:
    @pytest.mark.parametrize("where", [*FILTERS, *TERM_FILTERS])
    @pytest.mark.parametrize("text", ["disk", "pod latency", "disk pod gateway certificate replica queue"])
    def test_filter_only_leaves_hits_out(
        self, index: EmbeddedIndex, collection: list[IndexEntry], where: SearchFilter, text: str
    ) -> None:
        allowed = {entry.indexed.entry_id for entry in collection if passes(entry, where)}
        of_scopes = SearchFilter(scopes=where.scopes)  # rarity counts within these
        everything = index.search(SearchRequest(of_scopes, text=text, depth=SIZE)).lexical.hits
        expected = [hit for hit in everything if hit[0] in allowed]
        for depth in (5, 60, SIZE):
            found = index.search(SearchRequest(where, text=text, depth=depth)).lexical.hits
            assert [score for _, score in found] == pytest.approx([score for _, score in expected[:depth]], rel=1e-5)
            assert {entry for entry, _ in found} <= allowed
            assert len(found) == len(expected[:depth])

    def test_all_of_the_scopes_with_any_of_the_words_are_found(
        self, index: EmbeddedIndex, collection: list[IndexEntry]
    ) -> None:
        for where in (EVERYONE, SearchFilter(scopes=("client:acme",))):
            having = {
                one.indexed.entry_id for one in collection if passes(one, where) and "disk" in one.indexed.chunk.text
            }
            found = index.search(SearchRequest(where, text="disk", depth=SIZE)).lexical.hits
            assert {entry for entry, _ in found} == having

    def test_entries_of_others_move_no_score_and_no_count(self, tmp_path: Path) -> None:
        mine = [
            an_entry(f"disk {word} of node", source=f"{n}") for n, word in enumerate(("full", "slow", "full", "gone"))
        ]
        theirs = [an_entry("disk full on node", source=f"their {n}", scope=Scope("other")) for n in range(40)]
        alone, among = (EmbeddedIndex(tmp_path / name, model_id="m", dimension=VECTOR_DIMENSION) for name in ("a", "b"))
        alone.apply([a_change(one) for one in mine])
        among.apply([a_change(one) for one in (*mine, *theirs)])
        request = SearchRequest(EVERYONE, text="full disk slow absent")
        expected, found = alone.search(request), among.search(request)
        assert (found.term_frequencies, found.entry_count) == (expected.term_frequencies, expected.entry_count)
        assert [entry for entry, _ in found.lexical.hits] == [entry for entry, _ in expected.lexical.hits]
        assert [s for _, s in found.lexical.hits] == pytest.approx([s for _, s in expected.lexical.hits], rel=1e-5)
        alone.close()
        among.close()

    def test_words_that_mostly_others_use_are_still_found(self, tmp_path: Path) -> None:
        index = EmbeddedIndex(tmp_path, model_id="m", dimension=VECTOR_DIMENSION)
        crowd = [an_entry("disk " * 9, source=f"{n}", category="postmortems") for n in range(400)]
        mine = [an_entry(f"once the disk among other words {n}", source=f"mine {n}") for n in range(30)]
        fill = [an_entry(f"nothing of it {n}", source=f"fill {n}") for n in range(400)]
        index.apply(a_change(entry) for entry in (*crowd, *mine, *fill))
        where = replace(EVERYONE, categories=("runbooks/procedures",))
        found = index.search(SearchRequest(where, text="disk", depth=20)).lexical.hits
        assert len(found) == 20
        assert {entry for entry, _ in found} <= {entry.indexed.entry_id for entry in mine}
        index.close()


class TestTies:
    @pytest.mark.parametrize("depth", [1, 3, 7])
    @pytest.mark.parametrize("several", [1, 3])
    def test_ties_at_the_depth_are_broken_by_id(self, tmp_path: Path, depth: int, several: int) -> None:
        one = any_vector("same")
        twins = [an_entry("disk full", source=f"{n}", vectors=[one] * (1 + n % several)) for n in range(12)]
        ordered = sorted(entry.indexed.entry_id for entry in twins)
        for folder, some in (("one", twins), ("other", twins[::-1])):
            index = EmbeddedIndex(tmp_path / folder, model_id="m", dimension=VECTOR_DIMENSION)
            index.apply(a_change(entry) for entry in some)
            response = index.search(SearchRequest(EVERYONE, "disk", one, depth))
            assert [entry for entry, _ in response.lexical.hits] == ordered[:depth]
            assert [entry for entry, _ in response.vector.hits] == ordered[:depth]
            assert sorted(response.chunks) == ordered[:depth]
            index.close()


def test_response_names_no_chunk_that_is_not_a_hit(index: EmbeddedIndex) -> None:
    response = index.search(SearchRequest(EVERY_SCOPE, "disk pod", any_vector("q"), 9))
    assert set(response.chunks) == {entry for leg in (response.lexical, response.vector) for entry, _ in leg.hits}


def test_query_of_many_terms_is_answered_by_its_first(index: EmbeddedIndex) -> None:
    text = "disk " + " ".join(f"filler{n}" for n in range(3000)) + " pod"
    response = index.search(SearchRequest(EVERY_SCOPE, text, depth=5))
    assert response.lexical.hits == index.search(SearchRequest(EVERY_SCOPE, "disk", depth=5)).lexical.hits
    assert len(response.term_frequencies) == 256

"""Contract of writing to a `SearchIndex`, and of what it holds afterwards: a part of `SearchIndexContract`."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.ports import DocumentChange, HeldDocument, IndexEntry, SearchIndex, SearchRequest
from opx_testing.entries import EVERYONE, a_change, a_removal, a_unit_vector, an_entry, any_vector
from opx_testing.searches import (
    SCORE_TOLERANCE,
    an_operations_corpus,
    by_vector,
    fill,
    ids_of,
    lexical,
    lexical_ids,
    vector_ids,
)


def _held(entry: IndexEntry, entries: int) -> HeldDocument:
    one = entry.indexed
    return HeldDocument(one.scope_key, one.key_id, one.chunk.document_id, one.chunk.category, entries)


class IndexWritingContract:
    """Fixture: `index`, an empty `SearchIndex`."""

    # -- writing ---------------------------------------------------------------------------------------------------

    def test_references_come_back_per_change_and_entry(self, index: SearchIndex) -> None:
        document = [an_entry(f"part {n}", index=n, document_id="d") for n in range(3)]
        other = an_entry("other", source="other.md")
        references = index.apply([a_change(*document), a_change(other)])
        assert [len(of_change) for of_change in references] == [3, 1]
        assert len({reference for of_change in references for reference in of_change}) == 4
        if index.derives_ids:
            assert references == [ids_of(*document), ids_of(other)]

    def test_references_of_a_key_are_those_that_apply_gave(self, index: SearchIndex) -> None:
        document = [an_entry(f"part {n}", index=n, document_id="d") for n in range(3)]
        applied, _ = index.apply([a_change(*document), a_change(an_entry("other", source="other.md"))])
        assert sorted(index.references(document[0].indexed.key_id)) == sorted(applied)

    def test_applying_a_change_again_gives_the_same_hits(self, index: SearchIndex) -> None:
        corpus = an_operations_corpus()
        fill(index, *corpus)
        fill(index, *corpus)
        query = any_vector("q")
        assert sorted(lexical_ids(index, "disk log gateway database")) == sorted(ids_of(*corpus))
        assert sorted(vector_ids(index, query)) == sorted(ids_of(*corpus))

    def test_applying_a_change_again_stores_nothing_twice_where_ids_are_derived(self, index: SearchIndex) -> None:
        if not index.derives_ids:
            pytest.skip("this service assigns ids")
        corpus = an_operations_corpus()
        assert fill(index, *corpus) == fill(index, *corpus)
        assert index.count(EVERYONE) == len(corpus)

    def test_applying_an_entry_again_replaces_every_field(self, index: SearchIndex) -> None:
        old = an_entry("disk full", tags=("a",), vector=a_unit_vector(1))
        new = IndexEntry(
            replace(
                old.indexed,
                trust=0.5,
                language="de",
                chunk=replace(
                    old.indexed.chunk, content="pod", metadata=replace(old.indexed.chunk.metadata, tags=("b",))
                ),
            ),
            (a_unit_vector(0, 1),),
        )
        (superseded,) = fill(index, old)
        index.apply([a_change(new, superseded=superseded)])
        assert lexical(index, "pod").chunks == {new.indexed.entry_id: new.indexed}
        assert lexical_ids(index, "disk") == []
        assert lexical_ids(index, "pod", replace(EVERYONE, tags=("a",))) == []
        assert by_vector(index, a_unit_vector(0, 1)).vector.hits[0][1] == pytest.approx(1, abs=SCORE_TOLERANCE)

    def test_replacing_a_document_leaves_only_the_new_entries(self, index: SearchIndex) -> None:
        old = [an_entry(f"old disk part {n}", index=n, document_id="old") for n in range(4)]
        new = [an_entry(f"new disk part {n}", index=n, document_id="new") for n in range(2)]
        (superseded,) = index.apply([a_change(*old)])
        index.apply([a_change(*new, superseded=superseded)])
        assert sorted(lexical_ids(index, "disk part")) == sorted(ids_of(*new))
        assert sorted(vector_ids(index, any_vector("q"))) == sorted(ids_of(*new))
        assert index.count(EVERYONE) == len(new)

    def test_entry_that_is_new_and_superseded_stays(self, index: SearchIndex) -> None:
        kept, dropped = an_entry("kept disk", index=0, document_id="d"), an_entry("dropped", index=1, document_id="d")
        (superseded,) = index.apply([a_change(kept, dropped)])
        index.apply([a_change(kept, superseded=superseded)])
        assert lexical_ids(index, "kept dropped") == ids_of(kept)

    def test_entry_that_a_later_change_brings_back_stays(self, index: SearchIndex) -> None:
        entry = an_entry("disk full")
        (superseded,) = fill(index, entry)
        index.apply([a_removal(entry, superseded), a_change(entry)])
        assert lexical_ids(index, "disk") == ids_of(entry)

    def test_superseded_references_that_do_not_exist_are_ignored(self, index: SearchIndex) -> None:
        entry = an_entry("disk full")
        index.apply([a_change(entry, superseded=("0" * 32, "never-there"))])
        assert lexical_ids(index, "disk") == ids_of(entry)

    def test_change_without_entries_removes_the_document(self, index: SearchIndex) -> None:
        gone, stays = an_entry("disk full"), an_entry("disk empty", source="other.md")
        superseded, _ = fill(index, gone, stays)
        assert index.apply([a_removal(gone, superseded)]) == [[]]
        assert lexical_ids(index, "disk") == ids_of(stays)
        assert vector_ids(index, any_vector("q")) == ids_of(stays)
        assert index.references(gone.indexed.key_id) == []

    def test_removing_twice_does_nothing(self, index: SearchIndex) -> None:
        entry = an_entry("disk full")
        (superseded,) = fill(index, entry)
        index.apply([a_removal(entry, superseded)])
        index.apply([a_removal(entry, superseded)])
        assert index.count(EVERYONE) == 0

    def test_same_text_under_two_keys_is_two_entries(self, index: SearchIndex) -> None:
        one, two = an_entry("disk full", source="one.md"), an_entry("disk full", source="two.md")
        superseded, _ = fill(index, one, two)
        assert one.indexed.chunk.chunk_id == two.indexed.chunk.chunk_id
        assert sorted(lexical_ids(index, "disk")) == sorted(ids_of(one, two))
        index.apply([a_removal(one, superseded)])
        assert lexical_ids(index, "disk") == ids_of(two)

    def test_large_document_from_a_generator_is_taken_whole(self, index: SearchIndex) -> None:
        size = 2000

        def entries() -> Iterator[IndexEntry]:
            return (an_entry(f"disk part{n}", index=n, document_id="large") for n in range(size))

        key = an_entry().indexed.key_id
        (references,) = index.apply(change for change in [DocumentChange(key, "large", entries())])
        assert len(set(references)) == size
        assert index.count(EVERYONE) == size
        assert sorted(index.references(key)) == sorted(references)
        assert lexical_ids(index, f"part{size - 1}", depth=1) == ids_of(
            an_entry(f"disk part{size - 1}", index=size - 1, document_id="large")
        )

    # -- what there is ---------------------------------------------------------------------------------------------

    def test_empty_index_holds_nothing(self, index: SearchIndex) -> None:
        assert index.held() == []

    def test_held_documents_come_in_order_with_how_many_entries_they_have(self, index: SearchIndex) -> None:
        parts = [an_entry(f"part {n}", index=n, document_id="d") for n in range(3)]
        others = [an_entry("x", source=f"{n}.md", scope=Scope("acme"), document_id="e") for n in range(2)]
        index.apply([a_change(*parts), *(a_change(other) for other in others)])
        expected = [_held(parts[0], 3), *(_held(other, 1) for other in others)]
        assert index.held() == sorted(expected)

    def test_held_documents_come_page_by_page(self, index: SearchIndex) -> None:
        fill(index, *(an_entry("disk", source=f"{n}.md") for n in range(5)))
        everything = index.held()
        pages = [index.held(limit=2)]
        while len(pages[-1]) == 2:
            pages.append(index.held(after=pages[-1][-1], limit=2))
        assert [len(page) for page in pages] == [2, 2, 1]
        assert [one for page in pages for one in page] == everything
        assert index.held(after=everything[-1]) == []

    def test_replaced_and_removed_documents_are_not_held(self, index: SearchIndex) -> None:
        old, new = an_entry("old", document_id="old"), an_entry("new", document_id="new")
        gone = an_entry("gone", source="gone.md")
        first, second = fill(index, old, gone)
        index.apply([a_change(new, superseded=first), a_removal(gone, second)])
        assert index.held() == [_held(new, 1)]

    def test_versions_of_a_document_that_are_both_there_are_both_held(self, index: SearchIndex) -> None:
        old, new = an_entry("old", document_id="old"), an_entry("new", document_id="new")
        fill(index, old)
        index.apply([a_change(new)])
        assert index.held() == [_held(new, 1), _held(old, 1)]

    def test_inputs_are_not_changed(self, index: SearchIndex) -> None:
        entry = an_entry("disk full", tags=("a",))
        superseded = ["unknown"]
        before = copy.deepcopy(entry)
        index.apply([a_change(entry, superseded=superseded)])
        query = any_vector("q")
        index.search(SearchRequest(EVERYONE, text="disk", vector=query))
        assert entry == before
        assert superseded == ["unknown"]
        assert query == any_vector("q")

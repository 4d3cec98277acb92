"""Contract of `SearchEngine`, for any source of chunks, with legs or one list.

An adapter's test class inherits this one and provides the fixtures `engine` and `put`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from opx.domain.ids import day_number
from opx.domain.knowledge import Tier
from opx.domain.queries import MAX_QUERY_CHARACTERS
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.ports import IndexEntry, SearchEngine, SearchFilter, SearchRequest, SearchResponse
from opx.retrieval.judging_records import packed_record, stored_record
from opx_testing.entries import EVERYONE, a_unit_vector, an_entry, any_vector

Put = Callable[..., object]
"""Makes entries, each a document of its own, searchable."""


def search(engine: SearchEngine, text: str, where: SearchFilter = EVERYONE, depth: int = 50) -> SearchResponse:
    """With words and a vector; every list that comes back has chunks for its hits, and no error."""
    response = engine.search(SearchRequest(where, text=text, vector=any_vector("q"), depth=depth))
    lists = [response.fused] if response.fused else [response.lexical, response.vector]
    assert all(not leg.error for leg in lists)
    assert {entry for leg in lists for entry, _ in leg.hits} == set(response.chunks)
    return response


def found(engine: SearchEngine, text: str, where: SearchFilter = EVERYONE, depth: int = 50) -> list[str]:
    """Ids of what every list of the answer holds, sorted."""
    response = search(engine, text, where, depth)
    lists = [response.fused] if response.fused else [response.lexical, response.vector]
    (ids,) = {tuple(sorted(entry for entry, _ in leg.hits)) for leg in lists}
    return list(ids)


def ids(*entries: IndexEntry) -> list[str]:
    return sorted(entry.indexed.entry_id for entry in entries)


class SearchEngineContract:
    """Fixtures: `engine`, an empty `SearchEngine`, and `put`, after which what was put is found."""

    def test_nothing_is_found_where_nothing_is(self, engine: SearchEngine) -> None:
        assert found(engine, "disk full") == []

    def test_chunks_come_back_as_they_were_put(self, engine: SearchEngine, put: Put) -> None:
        one = an_entry(
            "disk full\n\n  Größe 日本語",
            tags=("a", "b"),
            trust=0.95,
            section=("A", "B > C"),
            index=3,
            flags=("suspected_instruction", "other"),
            fingerprint="00ff00ff00ff00ff",
            resources=("checkout", "B > C"),
        )
        two = an_entry("disk down", source="two.md", section=(), tier=Tier.INTERNET, trust=0.55, language="de")
        put(one, two)
        assert search(engine, "disk").chunks == {entry.indexed.entry_id: entry.indexed for entry in (one, two)}

    def test_judging_records_are_those_of_the_chunks(self, engine: SearchEngine, put: Put) -> None:
        put(an_entry("disk full on db-01", tags=("a", "b")), an_entry("disk voll", source="two.md", language="de"))
        response = search(engine, "disk")
        expected = {entry: stored_record(one, packed_record(one)) for entry, one in response.chunks.items()}
        assert {**expected, **response.records} == expected

    def test_same_text_under_two_keys_is_found_twice(self, engine: SearchEngine, put: Put) -> None:
        one, two = an_entry("disk full", source="one.md"), an_entry("disk full", source="two.md")
        put(one, two)
        assert found(engine, "disk") == ids(one, two)

    def test_depth_bounds_the_hits(self, engine: SearchEngine, put: Put) -> None:
        put(*(an_entry("disk " * (n + 1), source=f"{n}.md") for n in range(9)))
        assert len(search(engine, "disk", depth=4).chunks) <= 8
        response = engine.search(SearchRequest(EVERYONE, text="disk", depth=4))
        assert len((response.fused or response.lexical).hits) == 4

    def test_ties_are_in_the_order_of_the_ids(self, engine: SearchEngine, put: Put) -> None:
        twins = [an_entry("disk full", source=f"{n}.md", vector=a_unit_vector(1)) for n in range(12)]
        put(*twins)
        response = search(engine, "disk")
        assert [entry for entry, _ in (response.fused or response.lexical).hits] == ids(*twins)

    def test_long_question_is_answered(self, engine: SearchEngine, put: Put) -> None:
        needle = an_entry("the needle is in the stack")
        put(needle)
        text = "needle " + " ".join(f"word{n}" for n in range(2000))
        assert found(engine, text[:MAX_QUERY_CHARACTERS]) == ids(needle)

    def test_indexing_and_searching_leave_the_entry_unchanged(self, engine: SearchEngine, put: Put) -> None:
        entry = an_entry("disk full", tags=("a",))
        before = copy.deepcopy(entry)
        put(entry)
        search(engine, "disk")
        assert entry == before

    # -- filters

    def test_other_scopes_never_appear(self, engine: SearchEngine, put: Put) -> None:
        mine, theirs = Scope("acme", project_id="web"), Scope("acme", project_id="shop")
        own = an_entry("disk full", scope=mine)
        put(own, an_entry("disk full", scope=theirs), an_entry("disk full"))
        assert search(engine, "disk", SearchFilter(scopes=(mine.key,))).chunks == {own.indexed.entry_id: own.indexed}

    def test_several_scopes_are_searched_together(self, engine: SearchEngine, put: Put) -> None:
        mine = Scope("acme", group_id="shops")
        own, everyones = an_entry("disk full", scope=mine), an_entry("disk full")
        put(own, everyones, an_entry("disk full", scope=Scope("other")))
        assert found(engine, "disk", SearchFilter(scopes=(mine.key, Scope().key))) == ids(own, everyones)

    def test_scope_is_not_matched_by_its_beginning(self, engine: SearchEngine, put: Put) -> None:
        put(an_entry("disk full", scope=Scope("acme", project_id="web")))
        assert found(engine, "disk", SearchFilter(scopes=("client:acme",))) == []

    @pytest.mark.parametrize(
        "part",
        [
            {"categories": ("security/cve", "linux/docs")},
            {"tiers": ("specialized",)},
            {"tags": ("kernel", "absent")},
            {"tags": ("absent", "b", "c", "d", "e", "f", "kernel")},
            {"languages": ("de",)},
            {"resources": ("checkout", "absent")},
            {"resources": ("a", "b", "c", "d", "e", "checkout"), "tags": ("a", "b", "c", "d", "e", "kernel")},
            {"tags": ("patch",), "also_tags": ("kernel",)},
            {"resources": ("checkout",), "also_resources": ("web", "absent")},
            {"updated_from": day_number("2026-05-31")},
            {"updated_from": day_number("2026-05-01"), "updated_before": day_number("2026-06-01")},
            {"tiers": ("specialized",), "tags": ("kernel",), "categories": ("security/cve",), "languages": ("de",)},
        ],
    )
    def test_filter_keeps_what_matches_each_part(self, engine: SearchEngine, put: Put, part: dict[str, Any]) -> None:
        wanted = an_entry(
            "disk full",
            source="wanted.md",
            category="security/cve",
            tier=Tier.SPECIALIZED,
            tags=("kernel", "patch"),
            language="de",
            resources=("checkout", "web"),
            last_updated="2026-05-31T23:59:59Z",
        )
        put(
            wanted,
            an_entry("disk full"),
            an_entry("disk full", source="tagged.md", tags=("patch",), resources=("shop",)),
        )
        assert found(engine, "disk", replace(EVERYONE, **part)) == ids(wanted)

    def test_days_are_bounded_from_the_first_on_and_before_the_end(self, engine: SearchEngine, put: Put) -> None:
        days = ("2025-12-31", "2026-01-01", "2026-01-31T10:00:00Z", "2026-02-01")
        entries = [an_entry("disk full", source=f"{n}.md", last_updated=day) for n, day in enumerate(days)]
        put(*entries, an_entry("disk full", source="undated.md", last_updated=""))
        first, end = day_number("2026-01-01"), day_number("2026-02-01")
        assert found(engine, "disk", replace(EVERYONE, updated_from=first, updated_before=end)) == ids(*entries[1:3])
        assert found(engine, "disk", replace(EVERYONE, updated_before=first)) == ids(entries[0])
        assert found(engine, "disk", replace(EVERYONE, updated_from=end)) == ids(entries[3])

    def test_days_before_1970_are_days(self, engine: SearchEngine, put: Put) -> None:
        old, new = (an_entry("disk full", source=f"{day}.md", last_updated=day) for day in ("1969-07-20", "1970-01-01"))
        put(old, new)
        assert found(engine, "disk", replace(EVERYONE, updated_from=0)) == ids(new)
        assert found(engine, "disk", replace(EVERYONE, updated_from=-165, updated_before=0)) == ids(old)

    @pytest.mark.parametrize(
        "part",
        [
            {"title_terms": (("absent", "postmortem"),)},
            {"required_terms": (("sectionword",), ("full", "absent"))},
            {"required_terms": (("archiv",),), "excluded_terms": ("absent", "kafka")},
            {"title_terms": (("postmortem",), ("disk",)), "required_terms": (("archiv",),), "tags": ("kernel",)},
            {"resources": ("checkout",), "excluded_terms": ("kafka",), "updated_from": 0},
        ],
    )
    def test_filter_keeps_what_has_the_terms(self, engine: SearchEngine, put: Put, part: dict[str, Any]) -> None:
        wanted = an_entry(
            "disk full of archives",
            source="wanted.md",
            title="Postmortem of a disk",
            section=("Sectionword",),
            resources=("checkout",),
            tags=("kernel",),
        )
        text = "disk full of archives of Kafka, says the postmortem"
        put(wanted, an_entry(text, resources=("checkout",), tags=("kernel",)))
        assert found(engine, "disk", replace(EVERYONE, **part)) == ids(wanted)

    def test_terms_of_other_scopes_find_nothing(self, engine: SearchEngine, put: Put) -> None:
        put(an_entry("disk full of archives", title="Postmortem", scope=Scope("acme")))
        for part in (
            {"title_terms": (("postmortem",),)},
            {"required_terms": (("archiv",),)},
            {"excluded_terms": ("x",)},
        ):
            assert found(engine, "disk", replace(EVERYONE, **part)) == []

    def test_filter_by_document(self, engine: SearchEngine, put: Put) -> None:
        one, two, three = (an_entry(f"disk {n}", source=f"{n}.md") for n in range(3))
        put(one, two, three)
        where = replace(EVERYONE, document_ids=tuple(e.indexed.chunk.document_id for e in (one, three)))
        assert found(engine, "disk", where) == ids(one, three)

    def test_every_part_of_a_filter_must_match(self, engine: SearchEngine, put: Put) -> None:
        put(an_entry("disk full", tags=("kernel",), tier=Tier.INTERNAL))
        assert found(engine, "disk", replace(EVERYONE, tags=("kernel",), tiers=("specialized",))) == []

    def test_all_parts_of_a_filter_together_find_what_matches_them(self, engine: SearchEngine, put: Put) -> None:
        entry = an_entry("disk full", tags=("kernel",))
        put(entry)
        chunk = entry.indexed.chunk
        where = SearchFilter(
            EVERYONE.scopes, (chunk.category,), ("internal",), ("kernel", "b"), (chunk.document_id,), ("en", "de")
        )
        assert found(engine, "disk", where) == ids(entry)

    def test_filter_is_applied_before_the_best_hits_are_chosen(self, engine: SearchEngine, put: Put) -> None:
        crowd = [an_entry("disk disk disk", source=f"{n}.md", vector=any_vector("q")) for n in range(99)]
        text = "a long text in which the disk is named once among many other words"
        last = an_entry(text, source="last.md", tags=("rare",), vector=a_unit_vector(-1))
        put(*crowd, last)
        assert found(engine, "disk", replace(EVERYONE, tags=("rare",)), depth=1) == ids(last)

    def test_filter_values_are_not_analysed(self, engine: SearchEngine, put: Put) -> None:
        entry = an_entry("disk full", tags=("Über Größe*",), category="runbooks/procedures")
        put(entry)
        assert found(engine, "disk", replace(EVERYONE, tags=("Über Größe*",))) == ids(entry)
        assert found(engine, "disk", replace(EVERYONE, tags=("über größe*",))) == []
        assert found(engine, "disk", replace(EVERYONE, categories=("runbooks",))) == []

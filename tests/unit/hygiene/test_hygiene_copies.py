"""Near-duplicate hits are shown once, with the sources of the others."""

from __future__ import annotations

from pathlib import Path

from opx.domain.queries import Fusion, QueryConfig
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.domain.scopes import Identity
from opx.hygiene.near_duplicates import fingerprint
from opx.ports import IndexEntry, SearchResponse
from opx.retrieval.hybrid import FusedHit, fused_hits, groups_of_copies
from opx_testing.entries import an_entry
from tests.support.agent_calls import a_system
from tests.unit.hygiene.test_hygiene_near_duplicates import TEXT, edited
from tests.unit.retrieval.test_hybrid import POD, a_response


def an_original(content: str = TEXT, source: str = "a.md", trust: float = 1.0, title: str = "Lag") -> IndexEntry:
    entry = an_entry(content, source=source, trust=trust, title=title)
    return replace(entry, indexed=replace(entry.indexed, fingerprint=fingerprint(entry.indexed.chunk.text)))


COPY = edited(TEXT, 0.05)
TITLE = "Lag of the standby"
ANY = QueryConfig(min_confidence=0.0)


def hits(response: SearchResponse, per_document: int = 10) -> tuple[FusedHit, ...]:
    return fused_hits(response, Fusion.MIN_MAX, per_document).hits


def chunks(*entries: IndexEntry) -> list[IndexedChunk]:
    return [entry.indexed for entry in entries]


class TestGroups:
    def test_copies_are_with_the_first_of_them(self) -> None:
        found = chunks(an_original(), POD, an_original(COPY, "b.md"), an_original(TEXT, "c.md"))
        assert groups_of_copies(found) == [[0, 2, 3], [1]]

    def test_nothing_has_no_groups(self) -> None:
        assert groups_of_copies([]) == []

    def test_chunks_without_a_fingerprint_have_copies_of_the_same_document_alone(self) -> None:
        old = [replace(indexed, fingerprint="") for indexed in chunks(an_original(), an_original(TEXT, "b.md"))]
        other = replace(an_original(COPY, "c.md").indexed, fingerprint="")
        assert groups_of_copies([*old, other]) == [[0, 1], [2]]

    def test_close_fingerprints_alone_are_not_enough(self) -> None:
        one, other = chunks(an_original(), an_original(f"{TEXT} CVE-2024-1", "b.md"))
        assert groups_of_copies([one, replace(other, fingerprint=one.fingerprint)]) == [[0], [1]]


class TestHits:
    def test_best_of_equally_trusted_copies_is_shown_with_the_others(self) -> None:
        first, second = an_original(), an_original(COPY, "b.md")
        (shown, other) = hits(a_response([(first, 9.0), (second, 8.0), (POD, 1.0)]))
        assert (shown.indexed, shown.copies) == (first.indexed, (second.indexed,))
        assert (other.indexed, other.copies) == (POD.indexed, ())

    def test_most_trusted_copy_is_shown_in_the_place_of_the_best(self) -> None:
        blog, ours = an_original(COPY, "blog.md", trust=0.5), an_original(trust=1.0)
        found = hits(a_response([(blog, 9.0), (POD, 5.0), (ours, 1.0)]))
        assert [hit.indexed for hit in found] == [ours.indexed, POD.indexed]
        assert found[0].copies == (blog.indexed,)
        assert found[0].fused > found[1].fused

    def test_a_document_of_which_enough_is_shown_is_not_kept_out_by_its_copies(self) -> None:
        copies = [an_original(TEXT, f"{n}.md") for n in range(5)]
        found = hits(a_response([(entry, 9.0) for entry in copies] + [(POD, 1.0)]), per_document=1)
        assert [len(hit.copies) for hit in found] == [4, 0]

    def test_levels_of_every_fusion_are_those_of_the_best_copies(self) -> None:
        blog, ours = an_original(COPY, "blog.md", trust=0.5), an_original(trust=1.0)
        response = a_response([(blog, 9.0), (POD, 5.0), (ours, 1.0)])
        expected = fused_hits(response, Fusion.MIN_MAX, 9).levels
        for method in Fusion:
            assert fused_hits(response, method, 9).levels == expected


class TestAnswers:
    def test_provenance_of_copies_is_in_the_result(self, tmp_path: Path) -> None:
        corpus = {
            f"documents/runbooks/{name}.md": f"# {TITLE}\n\n{text}\n" for name, text in (("a", TEXT), ("b", COPY))
        }
        with a_system(tmp_path, corpus) as system:
            results = system.questions.search(Identity()).query(TITLE, ANY)
        found = [result for result in results if result.title == TITLE]
        assert len(found) == 1
        (copy,) = found[0].copies
        assert set(copy) == {"documentId", "title", "source", "tier", "trust"}
        assert copy["documentId"] != found[0].document_id
        assert {copy["tier"], copy["trust"]} == {"internal", 1.0}
        assert copy["source"] != found[0].source

    def test_copy_of_another_client_is_not_named(self, tmp_path: Path) -> None:
        corpus = {f"{owner}documents/runbooks/lag.md": f"# {TITLE}\n\n{TEXT}\n" for owner in ("", "clients/acme/")}
        with a_system(tmp_path, corpus) as system:
            everyone = system.questions.search(Identity()).query(TITLE, ANY)[0]
            acme = system.questions.search(Identity("acme")).query(TITLE, ANY)[0]
        assert everyone.copies == ()
        assert len(acme.copies) == 1

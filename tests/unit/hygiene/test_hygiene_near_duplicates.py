"""Copies with small edits are recognised, not texts of one template; such hits are shown once, with their sources."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec import Struct

from opx.domain.documents import DocumentChunk
from opx.domain.queries import Fusion, QueryConfig
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.domain.scopes import Identity
from opx.hygiene.near_duplicates import BITS, MAX_DISTANCE, GroupsOfCopies, are_copies, copy_marks, fingerprint
from opx.ports import IndexEntry, SearchResponse
from opx.retrieval.hybrid import Candidates, FusedHit, fused_hits, groups_of_copies
from opx_testing.entries import a_chunk, an_entry
from tests.support.agent_calls import a_system
from tests.support.judging_support import a_fused_hit
from tests.unit.retrieval.test_hybrid import POD, a_response

TEXT = (
    "The alert fires when the replication lag of a standby stays above five minutes for a quarter of an hour. Look at the "
    "network between both sites first, then at long running queries on the standby, because they hold back replay. If the "
    "lag keeps growing, pause reporting jobs and ask the storage team whether a snapshot is being taken. Once it is back "
    "to normal, resume the jobs one by one, and write down in the ticket what was paused and for how long it was so."
)


def chunk(
    content: str = TEXT, *, title: str = "Replication lag", section: tuple[str, ...] = ("Steps",)
) -> DocumentChunk:
    return a_chunk(content, title=title, section=section)


def edited(text: str, share: float, seed: str = "edit") -> str:
    """The text with so many of its plain words replaced by others."""
    chosen = random.Random(seed)
    words = text.split(" ")
    plain = [at for at, word in enumerate(words) if word.isalpha() and word.islower() and len(word) > 3]
    for at in chosen.sample(plain, max(1, round(share * len(words)))):
        words[at] = chosen.choice(["daily", "service", "carefully", "quickly", "server", "cluster"])
    return " ".join(words)


def distance(one: str, other: str) -> int:
    return (int(one, 16) ^ int(other, 16)).bit_count()


def are_near_duplicates(one: DocumentChunk, other: DocumentChunk) -> bool:
    return are_copies(one, other)


def are_alike(one: str, other: str) -> bool:
    return are_near_duplicates(chunk(one), chunk(other))


class TestFingerprint:
    def test_is_the_same_everywhere(self) -> None:
        assert fingerprint("Restart the service, then watch its log.") == "52aacbcf306687e6"

    def test_has_64_bits_and_a_text_without_words_has_none(self) -> None:
        assert len(fingerprint(TEXT)) * 4 == BITS
        assert fingerprint(" \n--- ") == ""

    def test_case_and_punctuation_do_not_count(self) -> None:
        assert fingerprint("Disk full: (delete logs)!") == fingerprint("disk FULL delete logs")

    @pytest.mark.parametrize("share", [0.01, 0.05, 0.1])
    def test_edited_copies_are_close(self, share: float) -> None:
        found = [distance(fingerprint(TEXT), fingerprint(edited(TEXT, share, str(seed)))) for seed in range(20)]
        assert sum(bits <= MAX_DISTANCE for bits in found) >= 18

    def test_other_texts_are_far(self) -> None:
        other = "Renew the certificate of the gateway, reload it, and check with a browser that the new one is served."
        assert distance(fingerprint(TEXT), fingerprint(other)) > MAX_DISTANCE

    def test_very_long_text_does_not_overflow(self) -> None:
        assert len(fingerprint(" ".join(f"word{n}" for n in range(60_000)))) == 16


class TestNearDuplicates:
    @pytest.mark.parametrize("share", [0.01, 0.05, 0.1])
    def test_copy_with_a_few_other_words_is_one(self, share: float) -> None:
        assert all(are_alike(TEXT, edited(TEXT, share, str(seed))) for seed in range(20))

    def test_copy_with_half_of_its_words_changed_is_none(self) -> None:
        assert not are_alike(TEXT, edited(TEXT, 0.4))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("CVE-2024-23113", "CVE-2024-23114"),
            ("db-01", "db-02"),
            ("web01.example.com", "web02.example.com"),
            ("version 9.2", "version 9.3"),
            ("port 5432", "port 5433"),
            ("KubePodNotReady", "KubePodCrashLooping"),
            ("pg_stat_replication", "pg_stat_activity"),
            ("ORA-01555", "ORA-01556"),
            ("do not restart it", "do restart it"),
            ("always enable it", "always disable it"),
            ("if the lag is > 5", "if the lag is < 5"),
        ],
    )
    def test_texts_with_different_distinctive_words_are_no_near_duplicates(self, one: str, other: str) -> None:
        assert not are_alike(f"{TEXT} {one}.", f"{TEXT} {other}.")
        assert are_alike(f"{TEXT} {one}.", f"{TEXT}  {one}.")

    def test_short_texts_have_to_be_equal(self) -> None:
        assert are_alike("Restart the pod.", "restart  the\npod.")
        assert not are_alike("Restart the pod.", "Restart the node.")

    @pytest.mark.parametrize(
        ("one", "other"), [("AWS memory", "AWS storage"), ("No pviews yesterday", "No upviews yesterday")]
    )
    def test_similar_texts_under_other_headings_are_none(self, one: str, other: str) -> None:
        similar = edited(TEXT, 0.05)
        assert not are_near_duplicates(chunk(title=one), chunk(similar, title=other))
        assert not are_near_duplicates(chunk(section=(one,)), chunk(similar, section=(other,)))

    def test_equal_texts_under_other_headings_are_near_duplicates_if_they_are_long_enough(self) -> None:
        assert are_near_duplicates(chunk(title="Lag"), chunk(title="Standby falls behind"))
        assert not are_near_duplicates(chunk("Restart it.", title="Pod"), chunk("Restart it.", title="Node"))

    def test_equal_texts_about_other_identifiers_are_none(self) -> None:
        one, other = (chunk(title=name, section=(name, "Impact")) for name in ("NodeReceiveErrs", "NodeTransmitErrs"))
        assert not are_near_duplicates(one, other)
        plain = [chunk(title="Errors", section=(name, "Impact")) for name in ("NodeReceiveErrs", "NodeTransmitErrs")]
        assert are_near_duplicates(*plain)

    def test_headings_may_be_written_otherwise(self) -> None:
        similar = chunk(edited(TEXT, 0.05), title="ReplicationLag", section=("Runbook", "Steps"))
        assert are_near_duplicates(chunk(title="Replication lag"), similar)

    def test_order_of_the_two_does_not_matter(self) -> None:
        for other in (edited(TEXT, 0.05), TEXT + " port 1", "short"):
            assert are_alike(TEXT, other) == are_alike(other, TEXT)


def some_copies(chosen: random.Random) -> list[DocumentChunk]:
    """Chunks of which some are copies: edited, spaced otherwise, under other headings, with an identifier more."""
    texts = [TEXT, edited(TEXT, 0.3), "Restart the pod."]
    titles, sections = ["Replication lag", "ReplicationLag", "Standby"], [("Steps",), ("Impact", "Steps"), ("Impact",)]
    found = []
    for seed in range(40):
        text = chosen.choice(texts)
        text = edited(text, 0.05, str(seed)) if chosen.random() < 0.3 and len(text) > 100 else text
        text = chosen.choice([text, text.upper(), text.replace(" ", "\n  "), f"{text} db-{chosen.randrange(2)}"])
        found.append(chunk(text, title=chosen.choice(titles), section=chosen.choice(sections)))
    return found


@pytest.mark.parametrize("seed", range(10))
def test_a_chunk_is_grouped_with_the_first_that_it_is_a_copy_of(seed: int) -> None:
    chunks = some_copies(random.Random(seed))
    marks = [copy_marks(one, fingerprint(one.own_text)) for one in chunks]
    firsts: list[int] = []
    expected = []
    for at, one in enumerate(chunks):
        close = [
            first for first in firsts if (marks[first].fingerprint ^ marks[at].fingerprint).bit_count() <= MAX_DISTANCE
        ]
        group = next((first for first in close if are_near_duplicates(one, chunks[first])), at)
        expected.append(group)
        firsts += [at] if group == at else []
    groups = GroupsOfCopies()
    placed = [groups.place(mark, Held(one), at) for at, (one, mark) in enumerate(zip(chunks, marks, strict=True))]
    assert placed == expected
    assert 3 < len(set(expected)) < len(chunks)


def an_original(content: str = TEXT, source: str = "a.md", trust: float = 1.0, title: str = "Lag") -> IndexEntry:
    entry = an_entry(content, source=source, trust=trust, title=title)
    return replace(entry, indexed=replace(entry.indexed, fingerprint=fingerprint(entry.indexed.chunk.text)))


COPY = edited(TEXT, 0.05)
TITLE = "Lag of the standby"
ANY = QueryConfig(min_confidence=0.0)


def hits(response: SearchResponse, per_document: int = 10) -> tuple[FusedHit, ...]:
    return fused_hits(Candidates.of(response), Fusion.MIN_MAX, per_document).hits


def chunks(*entries: IndexEntry) -> list[IndexedChunk]:
    return [entry.indexed for entry in entries]


class Held(Struct):
    chunk: DocumentChunk


def copies_of(hit: FusedHit) -> list[IndexedChunk]:
    return [copy.indexed for copy in hit.copies]


def groups_of(chunks: list[IndexedChunk]) -> list[list[int]]:
    return groups_of_copies([a_fused_hit(one) for one in chunks])


class TestGroups:
    def test_copies_are_with_the_first_of_them(self) -> None:
        found = chunks(an_original(), POD, an_original(COPY, "b.md"), an_original(TEXT, "c.md"))
        assert groups_of(found) == [[0, 2, 3], [1]]

    def test_nothing_has_no_groups(self) -> None:
        assert groups_of([]) == []

    def test_chunks_without_a_fingerprint_have_copies_of_the_same_document_alone(self) -> None:
        old = [replace(indexed, fingerprint="") for indexed in chunks(an_original(), an_original(TEXT, "b.md"))]
        other = replace(an_original(COPY, "c.md").indexed, fingerprint="")
        assert groups_of([*old, other]) == [[0, 1], [2]]

    def test_close_fingerprints_alone_are_not_enough(self) -> None:
        one, other = chunks(an_original(), an_original(f"{TEXT} CVE-2024-1", "b.md"))
        assert groups_of([one, replace(other, fingerprint=one.fingerprint)]) == [[0], [1]]


class TestHits:
    def test_best_of_equally_trusted_copies_is_shown_with_the_others(self) -> None:
        first, second = an_original(), an_original(COPY, "b.md")
        (shown, other) = hits(a_response([(first, 9.0), (second, 8.0), (POD, 1.0)]))
        assert (shown.indexed, copies_of(shown)) == (first.indexed, [second.indexed])
        assert (other.indexed, other.copies) == (POD.indexed, ())

    def test_most_trusted_copy_is_shown_in_the_place_of_the_best(self) -> None:
        blog, ours = an_original(COPY, "blog.md", trust=0.5), an_original(trust=1.0)
        found = hits(a_response([(blog, 9.0), (POD, 5.0), (ours, 1.0)]))
        assert [hit.indexed for hit in found] == [ours.indexed, POD.indexed]
        assert copies_of(found[0]) == [blog.indexed]
        assert found[0].fused > found[1].fused

    def test_a_document_of_which_enough_is_shown_is_not_kept_out_by_its_copies(self) -> None:
        copies = [an_original(TEXT, f"{n}.md") for n in range(5)]
        found = hits(a_response([(entry, 9.0) for entry in copies] + [(POD, 1.0)]), per_document=1)
        assert [len(hit.copies) for hit in found] == [4, 0]

    def test_levels_of_every_fusion_are_those_of_the_best_copies(self) -> None:
        blog, ours = an_original(COPY, "blog.md", trust=0.5), an_original(trust=1.0)
        response = a_response([(blog, 9.0), (POD, 5.0), (ours, 1.0)])
        expected = fused_hits(Candidates.of(response), Fusion.MIN_MAX, 9).levels
        for method in Fusion:
            assert fused_hits(Candidates.of(response), method, 9).levels == expected


class TestAnswers:
    def test_provenance_of_copies_is_in_the_result(self, tmp_path: Path) -> None:
        corpus = {
            f"documents/runbooks/{name}.md": f"# {TITLE}\n\n{text}\n" for name, text in (("a", TEXT), ("b", COPY))
        }
        with a_system(tmp_path, corpus) as system:
            results = system.questions.for_reader(Identity()).query(TITLE, ANY)
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
            everyone = system.questions.for_reader(Identity()).query(TITLE, ANY)[0]
            acme = system.questions.for_reader(Identity("acme")).query(TITLE, ANY)[0]
        assert everyone.copies == ()
        assert len(acme.copies) == 1

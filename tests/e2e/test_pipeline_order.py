"""Events come at least once, in any order, and at the same time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import permutations

import pytest

from opx.ingestion.events import EventOutcome
from opx.ports import SearchRequest
from tests.e2e.systems import EVERYTHING, SystemUnderTest, created, deleted, with_leases
from tests.support.fakes import WordsEmbedder

DISK = "documents/runbooks/disk.md"
SIDECAR = DISK + ".metadata.json"


def text(number: int) -> str:
    return f"# Disk\n\nthis is version{number} of the text\n"


def results(outcomes: Sequence[EventOutcome]) -> list[str]:
    return [outcome.result.value for outcome in outcomes]


class TestRepeated:
    def test_event_that_comes_again_is_skipped(self, system: SystemUnderTest) -> None:
        system.put_silently(DISK, text(1))
        assert results(system.deliver(created(DISK, 5))) == ["ingested"]
        assert results(system.deliver(created(DISK, 5))) == ["skipped"]
        system.assert_consistent(DISK)

    def test_event_twice_in_a_batch_is_applied_once(self, either: SystemUnderTest) -> None:
        either.put_silently(DISK, text(1))
        assert results(either.deliver(created(DISK, 5), created(DISK, 5))) == ["ingested", "skipped"]

    def test_same_event_in_two_threads_at_once_is_applied_once(self, system: SystemUnderTest) -> None:
        with_leases(system).put_silently(DISK, text(1))
        ready = threading.Barrier(2)
        outcomes: list[EventOutcome] = []

        def work() -> None:
            ready.wait()
            outcomes.extend(system.deliver(created(DISK, 5)))

        threads = [threading.Thread(target=work) for _ in range(2)]
        assert system.services.ingestion.worker
        assert system.services.index
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        first, second = sorted(results(outcomes))
        assert (first, second) in [("ingested", "retry"), ("ingested", "skipped")]
        assert [version.version for version in system.versions(DISK)] == [1]
        system.assert_consistent(DISK)

    def test_event_without_a_sequencer_is_always_applied(self, either: SystemUnderTest) -> None:
        for number in (1, 2):
            either.put_silently(DISK, text(number))
            assert results(either.deliver(created(DISK, 0))) == ["ingested"]


class TestOrder:
    @pytest.mark.parametrize("order", list(permutations([1, 2, 3]))[1:], ids=str)
    def test_events_of_three_versions_in_any_order_give_the_last_text(
        self, embedded: SystemUnderTest, order: Sequence[int]
    ) -> None:
        embedded.put_silently(DISK, text(3))
        for number in order:
            embedded.deliver(created(DISK, number))
        assert embedded.texts() == [text(3).strip()]
        embedded.assert_consistent(DISK)

    def test_reversed_events_of_versions_that_were_read_in_between_give_the_last_text(
        self, system: SystemUnderTest
    ) -> None:
        system.put_silently(DISK, text(1))
        system.deliver(created(DISK, 1))
        system.put_silently(DISK, text(3))
        outcomes = [system.deliver(created(DISK, number))[0] for number in (3, 2, 1)]
        assert results(outcomes) == ["ingested", "skipped", "skipped"]
        assert system.texts() == [text(3).strip()]

    def test_longer_sequencer_is_later(self, either: SystemUnderTest) -> None:
        either.put_silently(DISK, text(1))
        assert results(either.deliver(created(DISK, 0xFF))) == ["ingested"]
        either.put_silently(DISK, text(2))
        assert results(either.deliver(created(DISK, 0x100))) == ["ingested"]

    def test_late_creation_does_not_bring_a_deleted_document_back(self, either: SystemUnderTest) -> None:
        either.put_silently(DISK, text(1))
        either.deliver(created(DISK, 1))
        either.silent.delete(DISK)
        assert results(either.deliver(deleted(DISK, 3), created(DISK, 2))) == ["deleted", "skipped"]
        assert either.entries() == []

    def test_late_deletion_leaves_a_document_that_was_put_again(self, either: SystemUnderTest) -> None:
        either.put_silently(DISK, text(1))
        assert results(either.deliver(created(DISK, 3), deleted(DISK, 2))) == ["ingested", "skipped"]
        assert either.texts() == [text(1).strip()]

    def test_deletion_of_what_was_put_again_reads_what_is_there(self, either: SystemUnderTest) -> None:
        either.put_silently(DISK, text(1))
        either.deliver(created(DISK, 1))
        either.put_silently(DISK, text(2))
        assert results(either.deliver(deleted(DISK, 2), created(DISK, 3))) == ["ingested", "unchanged"]
        assert either.texts() == [text(2).strip()]

    def test_sidecar_has_an_order_of_its_own(self, either: SystemUnderTest) -> None:
        either.put_silently(DISK, text(1))
        either.deliver(created(DISK, 9))
        either.put_silently(SIDECAR, '{"metadataAttributes": {"tags": ["linux"]}}')
        assert results(either.deliver(created(SIDECAR, 2))) == ["ingested"]
        assert either.document(DISK).tags == ("linux",)


class TestReaders:
    def test_every_search_sees_exactly_one_version(self, embedded: SystemUnderTest) -> None:
        embedded.put(DISK, text(0))
        embedded.work()
        seen: list[set[str]] = []
        done = threading.Event()
        vector = WordsEmbedder().embed_query("anything")

        def read() -> None:
            while not done.is_set():
                found = embedded.services.index.search(SearchRequest(EVERYTHING, text="text", vector=vector))
                legs = {entry for leg in (found.lexical, found.vector) for entry, _ in leg.hits}
                seen.append({found.chunks[entry].chunk.content for entry in legs})

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for number in range(1, 9):
                embedded.put(DISK, text(number))
                embedded.work()
        finally:
            done.set()
            reader.join()
        assert {len(contents) for contents in seen} == {1}
        assert len({content for contents in seen for content in contents}) > 1

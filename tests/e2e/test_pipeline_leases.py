"""Workers that are slow, that die, and that come too late."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import boto3
import pytest

from opx.errors import ConditionFailedError
from opx.ingestion.corpus.claims import BusyError, Claims
from opx.ingestion.events import Result, parse_event
from opx.ports import DocumentChange, Vectors
from opx.ports.tables import KEYS
from tests.e2e.systems import BACKENDS, LEASE_SECONDS, SystemUnderTest, a_system, created, key_of, with_leases
from tests.support.fakes import WordsEmbedder

DISK = "documents/runbooks/disk.md"
CPU = "documents/runbooks/cpu.md"


class InterruptibleEmbedder(WordsEmbedder):
    """Calls `meanwhile` once, in the middle of an embedding."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] | None = None

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            meanwhile()
        return super().embed_documents(texts)


@pytest.fixture
def embedder() -> InterruptibleEmbedder:
    return InterruptibleEmbedder()


@pytest.fixture(params=BACKENDS)
def leased(
    request: pytest.FixtureRequest, tmp_path: Path, aws: boto3.Session, embedder: InterruptibleEmbedder
) -> Iterator[SystemUnderTest]:
    with a_system(request.param, tmp_path, aws, embedder=embedder) as made:
        yield with_leases(made)


def text(number: int) -> str:
    return f"# Disk\n\nthis is version{number} of the text\n"


def abandoned_claim(system: SystemUnderTest, key: str, number: int) -> None:
    """The claim of a worker that died after it."""
    system.services.corpus.catalog.claim(key_of(key), parse_event(created(key, number)))


class TestBusy:
    def test_document_of_another_worker_is_retried_and_no_failure(self, leased: SystemUnderTest) -> None:
        leased.put_silently(DISK, text(1))
        abandoned_claim(leased, DISK, 1)
        for receives in (1, 2, 3, 4, 5):
            (outcome,) = leased.deliver(created(DISK, 1), receives=receives)
            assert (outcome.result, outcome.error) == (Result.RETRY, None)
        assert leased.reasons() == {}

    def test_pauses_for_a_busy_document_grow(self, leased: SystemUnderTest) -> None:
        abandoned_claim(leased, DISK, 1)
        delays = [leased.deliver(created(DISK, 1), receives=n)[0].delay_seconds for n in (1, 2, 3, 30)]
        assert delays == [5, 10, 20, 900]

    def test_busy_document_does_not_stop_the_others(self, leased: SystemUnderTest) -> None:
        for key in (DISK, CPU):
            leased.put_silently(key, text(1))
        abandoned_claim(leased, DISK, 1)
        outcomes = leased.deliver(created(DISK, 1), created(CPU, 1))
        assert [outcome.result for outcome in outcomes] == ["retry", "ingested"]

    def test_claim_of_a_dead_worker_is_taken_over_when_its_lease_ends(self, leased: SystemUnderTest) -> None:
        leased.put_silently(DISK, text(1))
        abandoned_claim(leased, DISK, 1)
        leased.lease_over()
        (outcome,) = leased.deliver(created(DISK, 1), receives=2)
        assert outcome.result is Result.INGESTED
        leased.assert_consistent(DISK)


class TestTooLate:
    def test_worker_that_lost_its_claim_while_embedding_writes_nothing(
        self, leased: SystemUnderTest, embedder: InterruptibleEmbedder
    ) -> None:
        leased.put_silently(DISK, text(1))

        def take_over() -> None:
            leased.lease_over()
            leased.put_silently(DISK, text(2))
            assert leased.deliver(created(DISK, 2))[0].result is Result.INGESTED

        embedder.meanwhile = take_over
        (outcome,) = leased.deliver(created(DISK, 1))
        assert (outcome.result, outcome.error) == (Result.RETRY, None)
        assert leased.texts() == [text(2).strip()]
        leased.assert_consistent(DISK)

    def test_lost_claim_does_not_stop_the_other_documents_of_the_batch(
        self, leased: SystemUnderTest, embedder: InterruptibleEmbedder
    ) -> None:
        for key in (DISK, CPU):
            leased.put_silently(key, text(1))

        def take_over() -> None:
            leased.lease_over()
            leased.deliver(created(DISK, 2))

        embedder.meanwhile = take_over
        outcomes = leased.deliver(created(DISK, 1), created(CPU, 1))
        assert [outcome.result for outcome in outcomes] == ["retry", "ingested"]
        leased.assert_consistent(DISK, CPU)

    @pytest.mark.parametrize("first", [0, 1], ids=["replacing", "new"])
    @pytest.mark.parametrize("now", ["other", "same", "gone", "before"])
    def test_worker_that_lost_its_claim_while_writing_undoes_it(
        self, leased: SystemUnderTest, monkeypatch: pytest.MonkeyPatch, first: int, now: str
    ) -> None:
        if not first:
            leased.put_silently(DISK, text(0))
            leased.deliver(created(DISK, 1))
        leased.put_silently(DISK, text(1))
        contents = {"other": text(2), "same": text(1), "before": text(0), "gone": None}[now]

        def take_over() -> None:
            leased.lease_over()
            if contents is None:
                leased.silent.delete(DISK)
            else:
                leased.put_silently(DISK, contents)
            leased.deliver(created(DISK, 3))

        before_next_apply(leased, monkeypatch, take_over)
        (outcome,) = leased.deliver(created(DISK, 2))
        assert (outcome.result, outcome.error) == (Result.RETRY, None)
        if now in ("other", "gone"):  # the owner of equal entries is unknown
            assert text(1).strip() not in leased.texts()
        leased.deliver(created(DISK, 2), receives=2)
        assert leased.texts() == ([] if contents is None else [contents.strip()])
        if contents is not None:
            leased.assert_consistent(DISK)

    def test_late_failure_does_not_count_against_the_new_version(
        self, leased: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        leased.put_silently(DISK, b"\x00\x01")
        read = leased.services.ingestion.pipeline.reader.sidecar

        def slow(key: str) -> object:
            monkeypatch.undo()
            leased.lease_over()
            leased.put_silently(DISK, text(2))
            leased.deliver(created(DISK, 2))
            leased.put_silently(DISK, b"\x00\x01")
            return read(key)

        monkeypatch.setattr(leased.services.ingestion.pipeline.reader, "sidecar", slow)
        (outcome,) = leased.deliver(created(DISK, 1))
        assert outcome.result is Result.RETRY
        assert leased.reasons() == {}


class TestLostUpdates:
    """Two workers read the item of a key, and both write it."""

    def test_claim_on_an_item_that_was_finished_meanwhile_is_refused(
        self, leased: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        leased.put_silently(DISK, text(1))
        abandoned_claim(leased, DISK, 1)
        claims = Claims(leased.services.tables.table(KEYS), clock=leased.time.clock, lease_seconds=LEASE_SECONDS)
        stale = claims.head(key_of(DISK))
        leased.lease_over()
        leased.deliver(created(DISK, 1))
        monkeypatch.setattr(claims, "head", lambda key: stale)
        with pytest.raises(BusyError):
            claims.claim(key_of(DISK), parse_event(created(DISK, 2)))
        leased.assert_consistent(DISK)

    def test_claim_on_a_free_item_that_was_changed_meanwhile_is_refused(
        self, leased: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        leased.put_silently(DISK, text(1))
        leased.deliver(created(DISK, 1))
        claims = Claims(leased.services.tables.table(KEYS), clock=leased.time.clock, lease_seconds=LEASE_SECONDS)
        stale = claims.head(key_of(DISK))
        leased.put_silently(DISK, text(2))
        leased.deliver(created(DISK, 2))
        monkeypatch.setattr(claims, "head", lambda key: stale)
        with pytest.raises(BusyError):
            claims.claim(key_of(DISK), parse_event(created(DISK, 3)))
        leased.assert_consistent(DISK)

    def test_lost_claim_cannot_be_renewed(self, leased: SystemUnderTest) -> None:
        catalog = leased.services.corpus.catalog
        claim = catalog.claim(key_of(DISK), parse_event(created(DISK, 1)))
        leased.lease_over()
        abandoned_claim(leased, DISK, 2)
        with pytest.raises(ConditionFailedError):
            catalog.claims.start_writing(claim, "d")
        assert not catalog.claims.release(claim, applied=True)


def before_next_apply(system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    """Do something after the worker noted that it writes and before the index has it."""
    index = system.services.index
    apply = index.apply

    def slow(changes: Sequence[DocumentChange]) -> list[list[str]]:
        monkeypatch.setattr(index, "apply", apply)
        meanwhile()
        return apply(changes)

    monkeypatch.setattr(index, "apply", slow)

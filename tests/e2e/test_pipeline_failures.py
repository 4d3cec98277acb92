"""Documents that can't be ingested are listed with the reason, and transient failures are retried."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import boto3
import pytest

from opx.errors import EmbeddingError, IndexUnavailableError, StoreUnavailableError
from opx.ingestion.events import Result
from opx.ports import DocumentChange, Vectors
from tests.e2e.systems import SystemUnderTest, a_system, created
from tests.support.archive_support import tagged
from tests.support.fakes import WordsEmbedder

DISK = "documents/runbooks/disk.md"
CPU = "documents/runbooks/cpu.md"
GOOD = "# Disk full\n\nFind the biggest directories with du.\n"
SIDECAR = DISK + ".metadata.json"

UNUSABLE = {
    "empty": ("documents/a.md", b"", "the file is empty"),
    "binary": ("documents/a.md", bytes(range(256)), "binary data"),
    "not-utf-8": ("documents/a.md", b"# Caf\xe9\n\ntext\n", "not valid UTF-8 at byte 5"),
    "front-matter": ("documents/a.md", b"---\ntags: [a\n---\n# T\n\ntext\n", "front matter is not valid YAML"),
    "only-front-matter": ("documents/a.md", b"---\ntitle: T\n---\n", "no text below it"),
    "blank": ("documents/a.md", b"  \n\n", "nothing but white space"),
    "unknown-category": ("documents/a.md", b"---\ncategory: nope\n---\n# T\n\ntext\n", "unknown category 'nope'"),
    "deep-json": ("documents/operations/incidents/a.json", b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "nested deeper"),
    "broken-json": ("documents/operations/incidents/a.json", b'{"title": ', "not valid JSON"),
    "bad-date": ("documents/a.md", b"---\ncreated: 2025-13-01\n---\n# T\n\ntext\n", "2025-13-01"),
}


class TestUnusable:
    @pytest.mark.parametrize("kind", UNUSABLE)
    def test_unusable_file_is_listed_with_the_reason(self, embedded: SystemUnderTest, kind: str) -> None:
        key, data, reason = UNUSABLE[kind]
        embedded.put(key, data)
        embedded.put(DISK, GOOD)
        failed, good = sorted(embedded.work(), key=lambda outcome: outcome.result != Result.FAILED)
        assert (failed.result, failed.object_key, good.result) == ("failed", key, "ingested")
        assert reason in failed.reason
        assert embedded.reasons() == {key: failed.reason}
        assert embedded.entries(key) == []

    def test_unusable_file_is_listed_on_aws_too(self, either: SystemUnderTest) -> None:
        either.put(DISK, b"\x00\x01")
        either.work()
        assert "binary data" in either.reasons()[DISK]

    def test_unknown_category_lists_the_allowed_ones(self, embedded: SystemUnderTest) -> None:
        embedded.put(DISK, "---\ncategory: nope\n---\n# T\n\ntext\n")
        embedded.work()
        assert "allowed: evidence/agent_runs, " in embedded.reasons()[DISK]

    def test_file_over_the_limit_is_listed_without_being_read(
        self, embedded: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        embedded.put(DISK, b"a" * 110_000_000)
        monkeypatch.setattr(embedded.services.store, "open", None)
        embedded.work()
        assert "has 110,000,000 bytes, the limit is 104,857,600" in embedded.reasons()[DISK]

    def test_html_is_ingested_without_its_scripts(self, either: SystemUnderTest) -> None:
        page = "<html><head><title>Disk</title><script>evil()</script></head><body><p>Free space.</p></body></html>"
        either.put("documents/runbooks/disk.html", page)
        (outcome,) = either.work()
        assert (outcome.result, outcome.title) == ("ingested", "Disk")
        assert either.texts() == ["Free space."]

    def test_unusable_sidecar_fails_the_document_and_leaves_the_old_one(self, either: SystemUnderTest) -> None:
        either.put(DISK, GOOD)
        either.work()
        either.put(SIDECAR, "{")
        either.work()
        assert SIDECAR in either.reasons()[DISK]
        assert either.texts() == [GOOD.strip()]

    def test_unusable_version_leaves_the_old_one_searchable(self, either: SystemUnderTest) -> None:
        either.put(DISK, GOOD)
        either.work()
        either.put(DISK, b"\xff\xfe\xff")
        either.work()
        assert list(either.reasons()) == [DISK]
        either.assert_consistent(DISK)

    @pytest.mark.parametrize(
        "body", ["", "nonsense", "[]", "{}", '{"source": "aws.s3", "detail-type": "Object Created"}']
    )
    def test_message_that_is_no_event_fails_alone(
        self, embedded: SystemUnderTest, body: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        embedded.put_silently(DISK, GOOD)
        with caplog.at_level(logging.WARNING):
            garbage, good = embedded.deliver(body, created(DISK, 1))
        assert (garbage.result, good.result) == ("failed", "ingested")
        assert garbage.reason
        assert garbage.reason in caplog.text

    @pytest.mark.parametrize(
        "key", ["clients/../documents/a.md", "clients/a b/documents/a.md", "clients//documents/a.md"]
    )
    def test_object_of_no_possible_client_fails_alone(self, embedded: SystemUnderTest, key: str) -> None:
        embedded.put_silently(DISK, GOOD)
        refused, good = embedded.deliver(created(key, 1), created(DISK, 1))
        assert (refused.result, good.result) == ("failed", "ingested")
        assert list(embedded.reasons()) == [key]

    def test_mistake_in_a_parser_fails_the_document_alone(
        self, embedded: SystemUnderTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        sidecar = embedded.services.ingestion.pipeline.reader.sidecar

        def mistaken(key: str) -> object:
            if key == DISK:
                raise ZeroDivisionError("unforeseen")
            return sidecar(key)

        monkeypatch.setattr(embedded.services.ingestion.pipeline.reader, "sidecar", mistaken)
        embedded.put(DISK, GOOD)
        embedded.put(CPU, GOOD)
        assert sorted(outcome.result for outcome in embedded.work()) == ["failed", "ingested"]
        assert "ZeroDivisionError('unforeseen')" in embedded.reasons()[DISK]
        assert "Traceback" in caplog.text


class TestCategory:
    def test_category_comes_from_the_folder(self, either: SystemUnderTest) -> None:
        either.put("documents/teams/web/postmortems/a.md", "# A\n\ntext\n")
        either.work()
        assert either.document("documents/teams/web/postmortems/a.md").category == "postmortems"

    def test_the_folder_wins_over_front_matter(self, either: SystemUnderTest) -> None:
        either.put(DISK, "---\ncategory: postmortems\n---\n# A\n\ntext\n")
        either.work()
        assert either.document(DISK).category == "runbooks/procedures"

    def test_sidecar_wins_over_front_matter(self, either: SystemUnderTest) -> None:
        either.put(SIDECAR, '{"metadataAttributes": {"category": "vendor/linux"}}')
        either.put(DISK, "---\ncategory: postmortems\n---\n# A\n\ntext\n")
        either.work()
        assert (either.document(DISK).category, either.document(DISK).trust) == ("vendor/linux", 0.9)

    def test_uploader_wins_over_the_sidecar(self, either: SystemUnderTest) -> None:
        either.put(SIDECAR, '{"metadataAttributes": {"category": "vendor/linux"}}')
        either.put(DISK, "# A\n\ntext\n", '{"category": "security/cve"}')
        either.work()
        assert either.document(DISK).category == "security/cve"

    def test_default_category_is_for_all_others(self, either: SystemUnderTest) -> None:
        either.put("documents/misc/a.md", "# A\n\ntext\n")
        either.work()
        assert either.document("documents/misc/a.md").category == "runbooks/procedures"

    def test_category_without_embedded_fields_is_kept_with_a_note_that_it_is_not_searched(
        self, either: SystemUnderTest
    ) -> None:
        key = "documents/operations/baselines/cpu.md"
        either.put(key, "# CPU\n\nmean 12 percent\n")
        (outcome,) = either.work()
        assert (outcome.result, outcome.reason) == (
            "ingested",
            "kept, but operations/baselines is not searched by text",
        )
        assert len(either.chunks(key)) == 1
        assert either.entries() == []


class TestSidecar:
    def test_sidecar_created_changed_and_deleted_shows_in_the_facets(self, either: SystemUnderTest) -> None:
        either.put(DISK, GOOD)
        either.work()
        before = either.document(DISK).document_id
        for tags in ('["linux"]', '["windows"]'):
            either.put(SIDECAR, f'{{"metadataAttributes": {{"tags": {tags}}}}}')
            either.work()
            assert [list(entry.chunk.tags) for entry in either.entries()] == [[tags[2:-2]]]
        either.delete(SIDECAR)
        either.work()
        assert [entry.chunk.tags for entry in either.entries()] == [()]
        assert (either.document(DISK).document_id, either.document(DISK).version) == (before, 1)
        assert list(tagged(either.services.corpus.catalog, "windows")) == []

    def test_sidecar_without_a_document_is_skipped(self, either: SystemUnderTest) -> None:
        either.put(SIDECAR, '{"metadataAttributes": {"tags": ["linux"]}}')
        assert [outcome.result for outcome in either.work()] == ["skipped"]
        assert either.reasons() == {}


class FailingEmbedder(WordsEmbedder):
    """Fails `left` times, for texts that contain `word`."""

    def __init__(self, left: int = 0, word: str = "") -> None:
        self.left = left
        self.word = word

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        if self.left and any(self.word in text for text in texts):
            self.left -= 1
            raise EmbeddingError("the model is throttled")
        return super().embed_documents(texts)


class TestTransient:
    @pytest.mark.parametrize("part", ["embedder", "index", "store"])
    def test_three_failures_make_a_failed_item(
        self, either: SystemUnderTest, part: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = broken(either, part, monkeypatch)
        either.put(DISK, GOOD)
        (outcome,) = either.work()
        assert (outcome.result, outcome.reason) == ("failed", "down")
        assert either.reasons() == {DISK: "down"}
        assert len(calls) == 3
        (item,) = either.services.corpus.failures.items()
        assert item.attempts == 3

    def test_two_failures_are_forgotten(self, tmp_path: Path, aws: boto3.Session) -> None:
        with a_system("embedded", tmp_path, aws, embedder=FailingEmbedder(2)) as system:
            system.put(DISK, GOOD)
            assert [outcome.result for outcome in system.work()] == ["ingested"]
            assert system.reasons() == {}
            system.assert_consistent(DISK)

    def test_pauses_double(self, tmp_path: Path, aws: boto3.Session) -> None:
        with a_system("embedded", tmp_path, aws, embedder=FailingEmbedder(2), retry_base_seconds=1.0) as system:
            system.put_silently(DISK, GOOD)
            delays = [system.deliver(created(DISK, 1), receives=n)[0].delay_seconds for n in (1, 2)]
            assert delays == [1, 2]

    def test_busy_deliveries_leave_all_attempts(self, tmp_path: Path, aws: boto3.Session) -> None:
        with a_system("embedded", tmp_path, aws, embedder=FailingEmbedder(2)) as system:
            system.put_silently(DISK, GOOD)
            results = [system.deliver(created(DISK, 1), receives=n)[0].result for n in (7, 8, 9)]
            assert results == ["retry", "retry", "ingested"]

    def test_text_that_always_fails_does_not_fail_its_batch(self, tmp_path: Path, aws: boto3.Session) -> None:
        with a_system("embedded", tmp_path, aws, embedder=FailingEmbedder(99, "poison")) as system:
            system.put(DISK, "# Bad\n\npoison\n")
            system.put(CPU, GOOD)
            assert sorted(outcome.result for outcome in system.work()) == ["failed", "ingested"]
            assert list(system.reasons()) == [DISK]
            system.assert_consistent(CPU)

    @pytest.mark.parametrize("system", ["nextgen"], indirect=True)
    def test_half_written_version_is_removed_before_the_index_shows_it(
        self, system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        index = system.services.index
        apply = index.apply
        with monkeypatch.context() as outage:

            def half(changes: Iterable[DocumentChange]) -> list[list[str]]:
                apply(changes)
                raise IndexUnavailableError("down")

            outage.setattr(index, "apply", half)
            system.put_silently(DISK, GOOD)
            system.deliver(created(DISK, 1))
        with monkeypatch.context() as lag:
            lag.setattr(index, "references", lambda key_id: [])
            system.put_silently(DISK, GOOD + "And more.\n")
            system.deliver(created(DISK, 2))
        system.assert_consistent(DISK)

    def test_failed_item_that_is_retried_leaves_the_list(
        self, either: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as outage:
            broken(either, "index", outage)
            either.put(DISK, GOOD)
            either.work()
        (item,) = either.services.corpus.failures.items()
        either.services.queue.send(item.event)
        assert [outcome.result for outcome in either.work()] == ["ingested"]
        assert either.reasons() == {}
        either.assert_consistent(DISK)

    def test_failed_item_has_all_its_attempts_again(
        self, either: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = broken(either, "index", monkeypatch)
        either.put(DISK, GOOD)
        either.work()
        (item,) = either.services.corpus.failures.items()
        either.services.queue.send(item.event)
        either.work()
        assert len(calls) == 6

    def test_later_success_of_the_object_removes_the_failure(self, either: SystemUnderTest) -> None:
        either.put(DISK, b"\x00")
        either.work()
        assert list(either.reasons()) == [DISK]
        either.put(DISK, GOOD)
        either.work()
        assert either.reasons() == {}

    def test_failure_of_a_deleted_object_is_removed(self, either: SystemUnderTest) -> None:
        either.put(DISK, b"\x00")
        either.work()
        either.delete(DISK)
        either.work()
        assert either.reasons() == {}

    def test_old_event_does_not_remove_a_failure(self, either: SystemUnderTest) -> None:
        either.put_silently(DISK, GOOD)
        either.deliver(created(DISK, 5))
        either.put_silently(DISK, b"\x00")
        either.deliver(created(DISK, 6))
        either.deliver(created(DISK, 5))
        assert list(either.reasons()) == [DISK]

    def test_claim_that_fails_gives_back_those_before_it(
        self, system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for key in (DISK, CPU):
            system.put_silently(key, GOOD)
        claim = system.services.corpus.catalog.claim
        with monkeypatch.context() as outage:

            def failing(key: object, event: object) -> object:
                if key.source == CPU:  # type: ignore[attr-defined]
                    raise StoreUnavailableError("down")
                return claim(key, event)  # type: ignore[arg-type]

            outage.setattr(system.services.corpus.catalog, "claim", failing)
            outcomes = system.deliver(created(DISK, 1), created(CPU, 1))
            assert [outcome.result for outcome in outcomes] == ["retry", "retry"]
        outcomes = system.deliver(created(DISK, 1), created(CPU, 1))
        assert [outcome.result for outcome in outcomes] == ["ingested", "ingested"]

    def test_catalog_that_fails_in_the_middle_of_a_group_is_repaired(
        self, system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for key in (DISK, CPU):
            system.put_silently(key, GOOD)
        finish = system.services.corpus.catalog.finish
        with monkeypatch.context() as outage:

            def failing(claim: object, *rest: object, **more: object) -> None:
                finish(claim, *rest, **more)  # type: ignore[arg-type]
                if claim.key.source == CPU:  # type: ignore[attr-defined]
                    raise StoreUnavailableError("down")

            outage.setattr(system.services.corpus.catalog, "finish", failing)
            assert {outcome.result for outcome in system.deliver(created(DISK, 1), created(CPU, 1))} == {"retry"}
        system.deliver(created(DISK, 1), created(CPU, 1), receives=2)
        system.assert_consistent(DISK, CPU)


def broken(system: SystemUnderTest, part: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let a part fail; the list grows with its calls."""
    calls: list[str] = []
    services = system.services
    target, name, error = {
        "embedder": (services.ingestion.pipeline.embedder, "embed_each", EmbeddingError("down")),
        "index": (services.index, "apply", IndexUnavailableError("down")),
        "store": (services.store, "open", StoreUnavailableError("down")),
    }[part]

    def failing(*_: object, **__: object) -> object:
        calls.append(name)
        raise error

    monkeypatch.setattr(target, name, failing)
    return calls

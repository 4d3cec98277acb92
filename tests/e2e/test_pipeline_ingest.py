"""Ingestion of documents that are put, changed and deleted."""

from __future__ import annotations

import json

import pytest

from opx.ingestion.events import Result
from tests.e2e.systems import SystemUnderTest, chunk_key, created, key_of
from tests.support.archive_support import tagged

DISK = "documents/runbooks/disk.md"
CPU = "documents/runbooks/cpu.md"
DISK_TEXT = "---\ntags: [linux, storage]\n---\n# Disk full\n\nFind the biggest directories with du.\n"


class TestPut:
    def test_document_is_found_by_its_words(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        (outcome,) = system.work()
        assert (outcome.result, outcome.object_key, outcome.title, outcome.chunks) == ("ingested", DISK, "Disk full", 1)
        assert system.found("biggest directories") == [system.document(DISK).location]

    def test_entry_has_scope_tier_trust_and_tags(self, system: SystemUnderTest) -> None:
        key = "clients/acme/projects/shop/documents/security/cve/pay.md"
        system.put(key, "---\ntags: [payments]\n---\n# Pay\n\nThe payment service leaks memory.\n")
        system.work()
        (entry,) = system.entries(key)
        assert (entry.scope_key, entry.tier, entry.trust) == ("client:acme/project:shop", "specialized", 0.95)
        assert (entry.chunk.category, entry.chunk.tags) == ("security/cve", ("payments",))

    def test_document_is_hidden_from_other_scopes(self, system: SystemUnderTest) -> None:
        system.put("clients/acme/documents/runbooks/a.md", "# Vault\n\nUnseal the vault.\n")
        system.work()
        assert system.found("vault", ["global", "client:other"]) == []
        assert len(system.found("vault", ["client:acme"])) == 1

    def test_chunk_file_has_the_entries_of_the_index(self, system: SystemUnderTest) -> None:
        system.put(DISK, "# Disk\n\n" + "".join(f"## Part {n}\n\n{'Free some space. ' * 60}\n\n" for n in range(4)))
        system.work()
        assert len(system.chunks(DISK)) == 4
        system.assert_consistent(DISK)

    def test_chunk_file_is_named_by_the_document_id(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.work()
        document_id = system.document(DISK).document_id
        with system.silent.open(chunk_key(DISK, document_id)) as stream:
            (line,) = stream.read().splitlines()
        assert json.loads(line)["documentId"] == document_id

    def test_catalog_has_the_version_and_an_item_a_tag(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.work()
        catalog = system.services.corpus.catalog
        document = system.document(DISK)
        assert (document.version, document.state, document.chunk_count) == (1, "current", 1)
        assert [*tagged(catalog, "linux"), *tagged(catalog, "storage")] == [document, document]
        assert list(catalog.in_category("runbooks/procedures")) == [document]

    def test_two_documents_of_one_batch_are_both_found(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.put(CPU, "# High load\n\nLook at the run queue.\n")
        assert [outcome.result for outcome in system.work()] == ["ingested", "ingested"]
        system.assert_consistent(DISK, CPU)


class TestChange:
    def test_new_text_replaces_the_old_one_in_the_index(self, system: SystemUnderTest) -> None:
        system.put(DISK, "# Disk\n\nthe first text\n")
        system.work()
        system.put(DISK, "# Disk\n\nthe second text\n")
        system.work()
        assert system.texts() == ["# Disk\n\nthe second text"]
        system.assert_consistent(DISK)

    def test_shorter_text_leaves_no_chunk_of_the_longer_one(self, system: SystemUnderTest) -> None:
        first = "# Disk\n\n" + "".join(f"## Part {n}\n\n{f'step {n} ' * 100}\n\n" for n in range(5))
        system.put(DISK, first)
        system.work()
        system.put(DISK, first[: first.index("## Part 2")])
        system.work()
        assert len(system.entries()) == 2
        system.assert_consistent(DISK)

    def test_old_version_stays_readable(self, system: SystemUnderTest) -> None:
        system.put(DISK, "# Disk\n\nthe first text\n")
        system.work()
        old = system.document(DISK).document_id
        system.put(DISK, "# Disk\n\nthe second text\n")
        system.work()
        new, superseded = system.versions(DISK)
        assert (superseded.document_id, superseded.state, superseded.version) == (old, "superseded", 1)
        assert (new.version, new.state) == (2, "current")
        assert [chunk.content for chunk in system.chunks(DISK, old)] == ["# Disk\n\nthe first text\n"]

    def test_superseded_version_leaves_the_tags_index(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.work()
        system.put(DISK, DISK_TEXT + "And more.\n")
        system.work()
        assert [document.version for document in tagged(system.services.corpus.catalog, "linux")] == [2]

    def test_other_tags_keep_the_document_id_and_replace_the_facets(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.work()
        before = system.document(DISK)
        system.put(DISK, DISK_TEXT.replace("linux", "windows"))
        system.work()
        after = system.document(DISK)
        assert (after.document_id, after.version, after.tags) == (before.document_id, 1, ("windows", "storage"))
        assert [entry.chunk.tags for entry in system.entries()] == [("windows", "storage")]
        system.assert_consistent(DISK)

    def test_removed_tag_finds_the_document_no_more(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.work()
        system.put(DISK, DISK_TEXT.replace("linux", "windows"))
        system.work()
        catalog = system.services.corpus.catalog
        assert list(tagged(catalog, "linux")) == []
        assert [document.key for document in tagged(catalog, "windows")] == [key_of(DISK)]

    def test_text_that_returns_is_a_new_version_with_the_old_id(self, system: SystemUnderTest) -> None:
        ids = []
        for text in ("one", "two", "one"):
            system.put(DISK, f"# Disk\n\n{text}\n")
            system.work()
            ids.append(system.document(DISK).document_id)
        assert ids[0] == ids[2] != ids[1]
        assert [(v.version, v.state) for v in system.versions(DISK)] == [
            (3, "current"),
            (2, "superseded"),
            (1, "superseded"),
        ]
        assert system.texts() == ["# Disk\n\none"]
        system.assert_consistent(DISK)

    def test_same_object_again_is_unchanged(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.work()
        system.put(DISK, DISK_TEXT)
        (outcome,) = system.work()
        assert (outcome.result, outcome.document_id) == ("unchanged", system.document(DISK).document_id)
        assert len(list(system.versions(DISK))) == 1

    def test_other_category_moves_the_document(self, system: SystemUnderTest) -> None:
        system.put(DISK, "# Disk\n\ntext\n", '{"category": "postmortems"}')
        system.work()
        system.put(DISK, "# Disk\n\ntext\n", '{"category": "runbooks/architecture"}')
        system.work()
        assert list(system.services.corpus.catalog.in_category("postmortems")) == []
        assert [entry.chunk.category for entry in system.entries()] == ["runbooks/architecture"]

    def test_category_that_is_not_searched_takes_the_document_out(self, system: SystemUnderTest) -> None:
        system.put(DISK, "# Disk\n\ntext\n")
        system.work()
        system.put(DISK, "# Disk\n\ntext\n", '{"category": "operations/baselines"}')
        (outcome,) = system.work()
        assert (outcome.result, outcome.chunks) == (Result.INGESTED, 0)
        assert system.entries() == []


class TestSameText:
    def test_text_under_two_keys_is_two_documents(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.put(CPU, DISK_TEXT)
        assert [outcome.result for outcome in system.work()] == ["ingested", "ingested"]
        first, second = system.document(DISK), system.document(CPU)
        assert first.document_id == second.document_id
        assert len(system.found("directories")) == 2
        assert len(list(system.services.corpus.catalog.find(first.document_id))) == 2

    def test_deleting_one_leaves_the_other_searchable(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.put(CPU, DISK_TEXT)
        system.work()
        system.delete(DISK)
        system.work()
        assert system.found("directories") == [system.document(CPU).location]
        assert [document.key for document in tagged(system.services.corpus.catalog, "linux")] == [key_of(CPU)]
        system.assert_consistent(CPU)

    def test_changing_one_leaves_the_other(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.put(CPU, DISK_TEXT)
        system.work()
        system.put(DISK, "# Disk\n\nsomething else\n")
        system.work()
        assert system.found("directories") == [system.document(CPU).location]
        system.assert_consistent(DISK, CPU)

    def test_same_text_in_two_scopes_stays_apart(self, system: SystemUnderTest) -> None:
        mine, theirs = "clients/acme/documents/runbooks/a.md", "clients/other/documents/runbooks/a.md"
        system.put(mine, DISK_TEXT)
        system.put(theirs, DISK_TEXT)
        system.work()
        system.delete(theirs)
        system.work()
        assert system.found("directories", ["client:acme"]) == [system.document(mine).location]
        assert system.found("directories", ["client:other"]) == []


class TestDelete:
    def test_deleted_document_leaves_the_index(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.work()
        system.delete(DISK)
        (outcome,) = system.work()
        assert (outcome.result, outcome.document_id) == ("deleted", system.document(DISK).document_id)
        assert system.entries() == []
        assert system.services.corpus.catalog.all_references(key_of(DISK).id) == []

    def test_deleted_document_stays_readable_as_deleted(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.work()
        system.delete(DISK)
        system.work()
        assert system.document(DISK).state == "deleted"
        assert len(system.chunks(DISK)) == 1
        assert list(tagged(system.services.corpus.catalog, "linux")) == []

    def test_document_that_comes_back_is_found_again(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.work()
        system.delete(DISK)
        system.work()
        system.put(DISK, DISK_TEXT)
        system.work()
        assert [(v.version, v.state) for v in system.versions(DISK)] == [(2, "current"), (1, "deleted")]
        system.assert_consistent(DISK)

    def test_file_deleted_before_its_event_is_skipped(self, system: SystemUnderTest) -> None:
        system.put(DISK, DISK_TEXT)
        system.delete(DISK)
        assert {(outcome.result, outcome.reason) for outcome in system.work()} == {("skipped", "the object is gone")}
        assert system.entries() == []


class TestRules:
    @pytest.mark.parametrize("tokens", [120, 300])
    def test_other_chunking_replaces_all_chunks_of_the_same_text(self, system: SystemUnderTest, tokens: int) -> None:
        system.put_silently(DISK, "# Disk\n\n" + "Free some space on the volume. " * 200)
        system.deliver(created(DISK, 1))
        before = len(system.entries())
        rechunked(system, tokens).deliver(created(DISK, 2))
        assert len(system.entries()) > before
        system.assert_consistent(DISK)

    def test_other_chunking_of_a_twin_leaves_nothing_behind(self, system: SystemUnderTest) -> None:
        for key in (DISK, CPU):
            system.put_silently(key, "# Disk\n\n" + "Free some space on the volume. " * 200)
            system.deliver(created(key, 1))
        rechunked(system, 100).deliver(created(DISK, 2))
        system.silent.delete(CPU)
        system.deliver(created(CPU, 2))
        assert system.entries(CPU) == []
        system.assert_consistent(DISK)


def rechunked(system: SystemUnderTest, tokens: int) -> SystemUnderTest:
    """The same system after its settings were changed."""
    from opx.ingestion.pipeline import ChunkingRules, IngestionPipeline
    from opx.ingestion.reading import DocumentReader
    from opx.ingestion.worker import IngestionWorker, RetryRules

    services = system.services
    pipeline = IngestionPipeline(
        store=services.store,
        reader=DocumentReader(
            services.store, services.installation.knowledge, max_bytes=2**25, clock=system.time.clock
        ),
        catalog=services.corpus.catalog,
        embedder=services.indexing.document_embedder,
        index=services.index,
        rules=ChunkingRules(tokens, 0),
        unit_of_work=services.tables.unit_of_work,
    )
    services.ingestion.pipeline = pipeline
    services.ingestion.worker = IngestionWorker(pipeline, services.corpus.failures, RetryRules())
    return system

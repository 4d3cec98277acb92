"""From an object to a document: what wins where several say something."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.domain.documents import DocumentKey, KnowledgeDocument, RemarkKind
from opx.domain.ids import day_number, document_id, iso_time
from opx.domain.provenance import Provenance
from opx.domain.scopes import Scope
from opx.errors import ObjectNotFoundError, UnknownCategoryError, UnparsableDocumentError
from opx.ingestion.channels import ChannelRules
from opx.ingestion.files import OBJECT_METADATA
from opx.ingestion.reading import DocumentReader
from opx.ports import ObjectStore
from opx.runtime.knowledge_file import load_knowledge
from opx_testing.fake_time import FakeTime

SOURCE = "documents/runbooks/disk-full_now.md"
LIMIT = 1000


class Reading:
    """Reads objects of a folder, or of another store. `provenance` is that of the last document read."""

    provenance: Provenance

    def __init__(
        self,
        folder: Path,
        *,
        store: ObjectStore | None = None,
        channels: ChannelRules = ChannelRules(),  # noqa: B008 (frozen)
        limit: int = LIMIT,
    ) -> None:
        self.store = store or FolderObjectStore(folder)
        self.reader = DocumentReader(
            self.store, load_knowledge(None), max_bytes=limit, clock=FakeTime().clock, channels=channels
        )

    def read(
        self, text: str = "# Disk\n\ntext\n", *, source: str = SOURCE, uploaded: str = "", sidecar: str = ""
    ) -> tuple[KnowledgeDocument, str]:
        info = self.store.put(source, text.encode(), metadata={OBJECT_METADATA: uploaded} if uploaded else {})
        if sidecar:
            self.store.put(source + ".metadata.json", sidecar.encode())
        with self.reader.read(DocumentKey(Scope(), source), info) as found:
            self.provenance = found.provenance
            return found.document, "".join(line.text for line in found.lines())


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path)


class TestTitle:
    def test_first_heading_is_the_title(self, reading: Reading) -> None:
        assert reading.read("intro\n\n# Disk  full\n\n# Other\n")[0].title == "Disk full"

    def test_a_title_is_kept_as_written(self, reading: Reading) -> None:
        assert reading.read("# `SELECT *` is slow\n")[0].title == "`SELECT *` is slow"

    def test_front_matter_wins_over_the_heading(self, reading: Reading) -> None:
        assert reading.read("---\ntitle: Mine\n---\n# Disk\n")[0].title == "Mine"

    def test_uploader_wins_over_the_front_matter(self, reading: Reading) -> None:
        assert reading.read("---\ntitle: Mine\n---\n# Disk\n", uploaded='{"title": "Theirs"}')[0].title == "Theirs"

    def test_file_name_is_the_last_resort(self, reading: Reading) -> None:
        assert reading.read("text\n")[0].title == "disk full now"

    def test_uploaded_name_gives_title_and_format(self, reading: Reading) -> None:
        document, text = reading.read("<p>Free space.</p>", uploaded='{"name": "my-volume.html"}')
        assert (document.title, text) == ("my volume", "Free space.\n")

    def test_generic_title_is_completed_by_its_path(self, reading: Reading) -> None:
        document, _ = reading.read("# Troubleshooting\n", source="documents/docs/kafka/consumer/troubleshooting.md")
        assert document.title == "Troubleshooting (kafka consumer)"

    def test_category_in_the_path_does_not_complete_a_title(self, reading: Reading) -> None:
        assert reading.read("# Steps\n", source="documents/runbooks/procedures/abc.md")[0].title == "Steps (abc)"

    def test_declared_title_that_is_generic_is_completed_too(self, reading: Reading) -> None:
        source = "documents/services/checkout/index.md"
        assert reading.read("---\ntitle: README\n---\nx\n", source=source)[0].title == "README (checkout)"
        assert reading.read("text\n", source=source, uploaded='{"title": "Runbook"}')[0].title == "Runbook (checkout)"

    def test_title_without_a_word_of_an_identifier_is_completed_by_it(self, reading: Reading) -> None:
        assert reading.read("# Quorum is lost\n", source="documents/a/etcdMembersDown.md")[0].title == (
            "Quorum is lost (etcdMembersDown)"
        )

    def test_secret_of_a_path_gets_into_no_title(self, reading: Reading) -> None:
        secret = "ghp_" + "a1B2c3D4e5F6" * 3
        assert secret not in reading.read("# README\n", source=f"documents/{secret}/README.md")[0].title


class TestIdentity:
    def test_id_depends_on_title_category_and_text_alone(self, reading: Reading) -> None:
        first = reading.read(source="documents/runbooks/a.md", sidecar='{"metadataAttributes": {"tags": ["x"]}}')[0]
        second = reading.read(source="documents/runbooks/b.md")[0]
        assert first.document_id == second.document_id
        other = [reading.read("# Disk\n\ntext2\n"), reading.read("# Disc\n\ntext\n")]
        other.append(reading.read(uploaded='{"category": "postmortems"}'))
        assert len({first.document_id, *(document.document_id for document, _ in other)}) == 4

    def test_completed_title_does_not_change_the_id(self, reading: Reading) -> None:
        documents = [
            reading.read("# README\n\ntext\n", source=f"documents/{at}/README.md")[0] for at in ("cart", "ledger")
        ]
        assert [document.title for document in documents] == ["README (cart)", "README (ledger)"]
        expected = document_id("README", documents[0].category, documents[0].content_hash)
        assert {document.document_id for document in documents} == {expected}

    def test_line_ends_and_byte_order_mark_do_not_matter(self, reading: Reading) -> None:
        assert reading.read("\ufeff# Disk\r\n\r\ntext\r\n")[0].document_id == reading.read()[0].document_id


class TestLanguage:
    GERMAN = "# Platte voll\n\nDie Festplatte ist voll. Löschen Sie alte Protokolle, dann starten Sie den Dienst neu.\n"

    def test_language_is_that_of_the_text(self, reading: Reading) -> None:
        assert reading.read(self.GERMAN)[0].language == "de"
        assert reading.read()[0].language == "en"

    def test_declared_language_wins(self, reading: Reading) -> None:
        assert reading.read("---\nlanguage: nl\n---\n" + self.GERMAN)[0].language == "nl"
        assert reading.read(self.GERMAN, sidecar='{"metadataAttributes": {"language": "fr-CA"}}')[0].language == "fr"

    def test_only_code_is_taken_for_english(self, reading: Reading) -> None:
        assert reading.read("```\nder die das und nicht\n```\n")[0].language == "en"

    def test_the_text_is_read_whole_afterwards(self, reading: Reading) -> None:
        assert reading.read(self.GERMAN)[1] == self.GERMAN


class TestMetadata:
    def test_sidecar_and_upload_are_put_over_the_front_matter(self, reading: Reading) -> None:
        document, _ = reading.read(
            "---\nauthor: a\nversion: 1.10\nseverity: low\n---\n# T\n\nx\n",
            sidecar='{"metadataAttributes": {"author": "b", "severity": "high"}}',
            uploaded='{"author": "c"}',
        )
        assert (document.author, document.metadata.version, document.severity) == ("c", "1.10", "high")

    def test_times_default_to_now(self, reading: Reading) -> None:
        document, _ = reading.read()
        assert (document.created_at, document.last_updated) == ("2023-11-14T22:13:20Z",) * 2

    def test_source_uri_defaults_to_the_location(self, reading: Reading) -> None:
        document, _ = reading.read()
        assert document.source_uri == document.location
        assert document.location == document.key.scope.prefix + document.source

    @pytest.mark.parametrize("uploaded", ["{", "[]", '"x"', "[" * 1300])
    def test_unusable_upload_metadata_are_refused(self, reading: Reading, uploaded: str) -> None:
        with pytest.raises(UnparsableDocumentError, match=OBJECT_METADATA):
            reading.read(uploaded=uploaded)

    def test_unknown_category_of_the_upload_is_refused(self, reading: Reading) -> None:
        with pytest.raises(UnknownCategoryError, match="allowed: "):
            reading.read(uploaded='{"category": "nope"}')

    @pytest.mark.parametrize("sidecar", ["{", '{"metadataAttributes": {"tags": [[5]]}}', "x" * 20_000])
    def test_unusable_sidecar_is_refused(self, reading: Reading, sidecar: str) -> None:
        with pytest.raises(UnparsableDocumentError, match=r"metadata"):
            reading.read(sidecar=sidecar)


class TestSize:
    def test_object_over_the_limit_is_refused(self, reading: Reading) -> None:
        with pytest.raises(UnparsableDocumentError, match=r"has 1,001 bytes, the limit is 1,000"):
            reading.read("a" * (LIMIT + 1))

    def test_object_at_the_limit_is_read(self, reading: Reading) -> None:
        assert reading.read("a" * LIMIT)[1] == "a" * LIMIT

    def test_lines_of_a_long_text_are_the_same_as_those_kept(self, tmp_path: Path) -> None:
        reading = Reading(tmp_path)
        reading.reader.max_bytes = 10_000_000
        text = "# T\n\n" + "a line of text\n" * 100_000 + "b" * 200_000
        assert reading.read(text)[1] == text

    def test_object_that_went_away_is_not_found(self, reading: Reading) -> None:
        info = reading.store.put(SOURCE, b"x")
        reading.store.delete(SOURCE)
        with pytest.raises(ObjectNotFoundError), reading.reader.read(DocumentKey(Scope(), SOURCE), info):
            pass


class TestAttributes:
    def attributes(self, reading: Reading, front_matter: str) -> object:
        info = reading.store.put(SOURCE, f"---\n{front_matter}\n---\n# Disk\n\ntext\n".encode())
        with reading.reader.read(DocumentKey(Scope(), SOURCE), info) as found:
            return found.document.attributes

    def test_fields_that_mean_nothing_to_the_catalog_are_kept_as_they_are_written(self, reading: Reading) -> None:
        found = self.attributes(reading, "depends_on: [payments, redis]\nowner: sre\nsince: 2024-01-02\ntitle: Mine")
        assert found == {"depends_on": ["payments", "redis"], "owner": "sre", "since": "2024-01-02"}

    def test_keys_that_are_no_text_are_named_by_it(self, reading: Reading) -> None:
        assert self.attributes(reading, "1: one") == {"1": "one"}

    def test_values_that_are_mappings_are_left_out(self, reading: Reading) -> None:
        assert self.attributes(reading, "owner: {name: sre}\nalerts: [{a: b}, DiskFull]") == {"alerts": ["DiskFull"]}

    def test_secrets_in_them_are_masked(self, reading: Reading) -> None:
        assert "AKIA" not in str(self.attributes(reading, "owner: AKIAIOSFODNN7EXAMPL3"))


class TestExpiry:
    def test_an_expired_document_gets_a_remark(self, reading: Reading) -> None:
        document, _ = reading.read("---\nexpires: 2001-02-03\n---\n# Disk\n\ntext\n")
        assert [(remark.kind, "2001-02-03" in remark.text) for remark in document.remarks] == [
            (RemarkKind.EXPIRED, True)
        ]

    def test_an_old_page_of_the_internet_is_kept_for_as_long_as_its_copy_is_young(self, reading: Reading) -> None:
        source = "documents/web/stack_overflow/disk.md"
        document, _ = reading.read("---\nlast_updated: 2009-08-07\n---\n# Disk\n\ntext\n", source=source)
        today = iso_time(FakeTime().clock())[:10]
        assert (day_number(document.expires) or 0) - (day_number(today) or 0) == 90
        assert document.remarks == ()

    def test_other_documents_get_no_expiry_of_their_own(self, reading: Reading) -> None:
        assert reading.read()[0].expires == ""

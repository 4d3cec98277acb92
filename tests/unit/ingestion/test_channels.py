"""Trust belongs to the channel by which a document came; what it states about itself never raises it."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import pytest

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.domain.documents import KnowledgeDocument
from opx.domain.provenance import UNKNOWN_UPLOAD, Channel, ChannelKind
from opx.errors import KnowledgeConfigError, UnparsableDocumentError
from opx.ingestion.channels import Arrival, ChannelRules, arrival_of, channel_metadata, read_channel_rules
from opx.ports import ObjectStore
from opx.runtime.knowledge_file import load_knowledge
from opx_aws.object_store import S3ObjectStore
from tests.unit.ingestion.test_reading import Reading

BLOG, KEY = "documents/web/blogs/x.md", "documents/web/blogs/x.md"
KNOWLEDGE = load_knowledge()
DEFAULTS = Path("corpus/knowledge.yaml").read_text(encoding="utf-8")
WEBHOOK = Channel(ChannelKind.WEBHOOK, "status", "statuspage", "signature of the webhook's secret")
RUNBOOKS, LINUX = KNOWLEDGE.category("runbooks/procedures"), KNOWLEDGE.category("vendor/linux")


def page(**fields: str) -> str:
    return "---\n" + "".join(f"{name}: {value}\n" for name, value in fields.items()) + "---\n# Disk full\n"


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path)


def read(reading: Reading, text: str, source: str = BLOG) -> KnowledgeDocument:
    return reading.read(text, source=source)[0]


class TestFolders:
    @pytest.mark.parametrize("below", ["runbooks", "runbooks/procedures", "postmortems", "a/vendor/linux"])
    def test_a_folder_within_one_of_the_internet_raises_nothing(self, reading: Reading, below: str) -> None:
        assert read(reading, "# X\n", f"documents/web/blogs/{below}/x.md").category == "web/blogs"

    def test_an_internal_category_of_less_trust_is_still_a_more_trusted_tier(self, reading: Reading) -> None:
        found = read(reading, page(category="workplace/mail"), "documents/vendor/linux/x.md")
        assert (found.category, found.tier) == ("vendor/linux", "specialized")


class TestClaims:
    def test_what_a_page_from_outside_states_is_a_claim(self, reading: Reading) -> None:
        reading.read(page(owner="sre", author="root", source_uri="https://wiki.internal/x"), source=BLOG)
        assert reading.provenance.claims == ("title", "source", "owner", "author", "expires")

    def test_what_our_own_pages_state_is_none(self, reading: Reading) -> None:
        reading.read(page(owner="sre"), source="documents/runbooks/x.md")
        assert reading.provenance.claims == ()

    def test_a_time_of_change_in_the_future_does_not_keep_a_page_from_outside(self, reading: Reading) -> None:
        now = read(reading, "# X\n").last_updated
        assert read(reading, page(updated="2999-01-01")).last_updated == now

    def test_a_claim_of_ten_kilobytes_is_refused_by_its_name(self, tmp_path: Path) -> None:
        reading = Reading(tmp_path, limit=20_000)
        with pytest.raises(UnparsableDocumentError, match="metadata field 'author' has 10000 characters; at most 500"):
            read(reading, page(author="x" * 10_000))


class TestRules:
    @pytest.mark.parametrize(
        ("source", "category"),
        [
            ("documents/partners/a/x.md", "web/blogs"),
            ("documents/partners/x.md", "vendor/linux"),
            ("documents/x.md", None),
        ],
    )
    def test_the_longest_beginning_of_an_uploads_name_counts(self, source: str, category: str | None) -> None:
        names = {"documents/partners/": LINUX, "documents/partners/a/": KNOWLEDGE.category("web/blogs")}
        found = ChannelRules({ChannelKind.UPLOAD: names}).limit(UNKNOWN_UPLOAD, source)
        assert (found.path if found else None) == category

    def test_a_rule_for_a_name_counts_before_that_for_all(self) -> None:
        rules = ChannelRules({ChannelKind.WEBHOOK: {"status": LINUX, "*": RUNBOOKS}})
        assert rules.limit(WEBHOOK, KEY) is LINUX
        assert rules.limit(Channel(ChannelKind.WEBHOOK, "other"), KEY) is RUNBOOKS
        assert rules.limit(Channel(ChannelKind.SOURCE, "status"), KEY) is None

    def test_a_document_is_no_more_trusted_than_its_channel(self, tmp_path: Path) -> None:
        rules = ChannelRules({ChannelKind.UPLOAD: {"documents/": LINUX}})
        reading = Reading(tmp_path, channels=rules)
        document, _ = reading.read(page(category="runbooks/procedures"), source="documents/x.md")
        assert (document.category, document.tier) == ("vendor/linux", "specialized")
        assert [one.text for one in document.remarks] == [
            "the category runbooks/procedures is above what upload may claim, which is vendor/linux"
        ]
        assert reading.provenance.at_most == "vendor/linux"

    @pytest.mark.parametrize(
        ("section", "problem"),
        [
            ("post: {}", r":\d+: unknown kind of channel 'post'; allowed: upload, command"),
            ("upload: {documents/a/: nonsense}", r":\d+: unknown category 'nonsense'"),
            ("webhook: {nope: web/blogs}", r":\d+: channel 'nope' isn't declared; there are: none"),
            ("stream: {nope: web/blogs}", r":\d+: channel 'nope' isn't declared"),
        ],
    )
    def test_a_mistake_is_named_with_file_and_line(self, tmp_path: Path, section: str, problem: str) -> None:
        file = tmp_path / "knowledge.yaml"
        file.write_text(DEFAULTS.replace("\nchannels: {}", f"\nchannels: {{{section}}}"), encoding="utf-8")
        with pytest.raises(KnowledgeConfigError, match=problem):
            read_channel_rules(KNOWLEDGE, file)

    def test_rules_are_read(self, tmp_path: Path) -> None:
        file = tmp_path / "knowledge.yaml"
        rules = "\nchannels: {upload: {documents/a/: web/blogs}, source: {feed: vendor/linux}}"
        file.write_text(DEFAULTS.replace("\nchannels: {}", rules), encoding="utf-8")
        found = read_channel_rules(KNOWLEDGE, file)
        assert found.limit(Channel(ChannelKind.SOURCE, "feed"), KEY) == LINUX
        assert read_channel_rules(KNOWLEDGE).at_most == {}


class TestAttestation:
    @pytest.fixture
    def bucket(self, aws: boto3.Session) -> S3ObjectStore:
        client = aws.client("s3")
        client.create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        return S3ObjectStore("corpus", client)

    @pytest.fixture(params=["folder", "bucket"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
        if request.param == "folder":
            return FolderObjectStore(tmp_path / "corpus")
        found: ObjectStore = request.getfixturevalue("bucket")
        return found

    def arrival(self, store: ObjectStore) -> Arrival:
        info = store.head(KEY)
        assert info
        return arrival_of(store, info)

    @pytest.mark.parametrize("size", [10, 9 * 1024 * 1024])
    def test_what_the_installation_puts_has_its_channel(self, store: ObjectStore, size: int) -> None:
        store.put(KEY, b"x" * size, metadata=channel_metadata(WEBHOOK))
        assert self.arrival(store) == Arrival(WEBHOOK, attested=True)

    def test_a_channel_that_an_uploader_states_is_none(self, bucket: S3ObjectStore, aws: boto3.Session) -> None:
        aws.client("s3").put_object(Bucket="corpus", Key=KEY, Body=b"x", Metadata=channel_metadata(WEBHOOK))
        assert self.arrival(bucket) == Arrival(UNKNOWN_UPLOAD, attested=False)

    def test_nor_is_one_that_is_copied_from_another_object(self, bucket: S3ObjectStore, aws: boto3.Session) -> None:
        bucket.put("documents/runbooks/a.md", b"x", metadata=channel_metadata(WEBHOOK))
        aws.client("s3").copy_object(Bucket="corpus", Key=KEY, CopySource="corpus/documents/runbooks/a.md")
        assert self.arrival(bucket) == Arrival(UNKNOWN_UPLOAD, attested=False)

    def test_nor_after_the_object_was_replaced(self, bucket: S3ObjectStore, aws: boto3.Session) -> None:
        bucket.put(KEY, b"x", metadata=channel_metadata(WEBHOOK))
        aws.client("s3").put_object(Bucket="corpus", Key=KEY, Body=b"y", Metadata=channel_metadata(WEBHOOK))
        assert self.arrival(bucket) == Arrival(UNKNOWN_UPLOAD, attested=False)

    def test_a_channel_of_a_newer_release_is_unknown(self, tmp_path: Path) -> None:
        store = FolderObjectStore(tmp_path)
        store.put(KEY, b"x", metadata={"opx-channel": '{"kind": "telepathy"}'})
        assert self.arrival(store) == Arrival(UNKNOWN_UPLOAD, attested=True)

    def test_an_uploaders_metadata_do_not_raise_trust_in_a_bucket(self, bucket: S3ObjectStore, tmp_path: Path) -> None:
        reading = Reading(tmp_path, store=bucket)
        stated = json.dumps({"category": "runbooks/procedures"})
        document, _ = reading.read("# X\n", source=BLOG, uploaded=stated)
        assert (document.category, document.tier) == ("web/blogs", "internet")
        assert document.remarks[0].text.startswith("its object's metadata has the category runbooks/procedures")

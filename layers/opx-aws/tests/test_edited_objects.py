"""Edits and reviews of objects in a bucket: the installation attests nothing that others put."""

from __future__ import annotations

import json

import boto3
import pytest

from opx.domain.knowledge import KnowledgeModel
from opx.domain.provenance import CHANNEL_METADATA, Channel, ChannelKind
from opx.domain.scopes import Scope
from opx.errors import ConditionFailedError, InvalidInputError
from opx.ingestion.channels import Arrival, arrival_of, channel_metadata
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus_writer import CorpusWriter
from opx.ingestion.files import OBJECT_METADATA
from opx.ingestion.originals import MAGIC
from opx.ingestion.reviews import Review, review_of
from opx.ports import ObjectInfo
from opx_aws.object_store import S3ObjectStore, S3UploadSigner

KEY = "documents/runbooks/disk.md"
EDITOR = Channel(ChannelKind.API, "", "ada", "token")
FORGED = channel_metadata(Channel(ChannelKind.COMMAND, "", "root", "rights of the home's owner"))
REVIEW = Review("ada", "2026-03-31T10:00:00Z", "2026-09-27")
FACTS = {"category": "runbooks/procedures", "tags": ["disk"], "lastUpdated": "2020-01-01"}


@pytest.fixture
def bucket(aws: boto3.Session) -> str:
    aws.client("s3").create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return "corpus"


@pytest.fixture
def store(aws: boto3.Session, bucket: str) -> S3ObjectStore:
    return S3ObjectStore(bucket, aws.client("s3"))


@pytest.fixture
def writer(store: S3ObjectStore) -> CorpusWriter:
    catalog = Catalog.__new__(Catalog)  # edits and reviews don't read it
    return CorpusWriter(
        store=store,
        catalog=catalog,
        knowledge=KnowledgeModel({}, ""),
        fingerprint=lambda *_: "",
        scope=Scope(),
        channel=EDITOR,
    )


def put_by_somebody(aws: boto3.Session, bucket: str, text: bytes) -> None:
    """With a right to put objects, and none to tag them."""
    metadata = {**FORGED, OBJECT_METADATA: json.dumps(FACTS)}
    aws.client("s3").put_object(Bucket=bucket, Key=KEY, Body=text, Metadata=metadata)


def stored(store: S3ObjectStore) -> ObjectInfo:
    info = store.head(KEY)
    assert info is not None
    return info


def facts_of(info: ObjectInfo) -> object:
    return json.loads(info.metadata[OBJECT_METADATA])


def test_a_review_attests_no_channel_that_somebody_stated(
    aws: boto3.Session, bucket: str, store: S3ObjectStore, writer: CorpusWriter
) -> None:
    put_by_somebody(aws, bucket, b"# Disk\n")
    before = arrival_of(store, stored(store))
    writer.put_review(KEY, REVIEW, "")
    info = stored(store)
    assert (arrival_of(store, info), before.attested, CHANNEL_METADATA in info.metadata) == (before, False, False)
    assert (facts_of(info), review_of(info, attested=False)) == (FACTS, Review("", REVIEW.at, REVIEW.until))


def test_a_review_keeps_the_channel_and_the_content(store: S3ObjectStore, writer: CorpusWriter) -> None:
    channel = Channel(ChannelKind.SOURCE, "wiki")
    etag = store.put(KEY, b"# Disk\n", metadata=channel_metadata(channel)).etag
    writer.put_review(KEY, REVIEW, "")
    info = stored(store)
    assert (info.etag, arrival_of(store, info)) == (etag, Arrival(channel, attested=True))
    assert review_of(info, attested=True) == REVIEW


def test_an_edit_is_of_its_editor_and_takes_no_category_from_others(
    aws: boto3.Session, bucket: str, store: S3ObjectStore, writer: CorpusWriter
) -> None:
    put_by_somebody(aws, bucket, b"# Disk\n")
    writer.put_text(KEY, "# Disk full\n", etag=stored(store).etag)
    info = stored(store)
    assert arrival_of(store, info) == Arrival(EDITOR, attested=True)
    assert facts_of(info) == {"tags": ["disk"]}
    writer.put_text(KEY, "# Disk is full\n", etag=info.etag)
    assert facts_of(stored(store)) == {"tags": ["disk"]}


def test_an_edit_keeps_the_category_of_the_installation_and_no_review(
    store: S3ObjectStore, writer: CorpusWriter
) -> None:
    metadata = {**channel_metadata(EDITOR), OBJECT_METADATA: json.dumps(FACTS)}
    store.put(KEY, b"# Disk\n", metadata=metadata)
    writer.put_review(KEY, REVIEW, "")
    writer.put_text(KEY, "# Disk full\n", etag=stored(store).etag)
    assert facts_of(stored(store)) == {"category": "runbooks/procedures", "tags": ["disk"]}
    assert review_of(stored(store), attested=True) is None


def test_an_edit_has_the_digest_of_its_bytes(aws: boto3.Session, bucket: str, writer: CorpusWriter) -> None:
    """As a signed upload has: the same file is known as unchanged then."""
    import hashlib

    writer.put_text(KEY, "# Disk\n", etag="")
    assert S3UploadSigner(bucket, aws.client("s3")).sha256_of(KEY) == hashlib.sha256(b"# Disk\n").hexdigest()


def test_neither_replaces_what_was_put_meanwhile(store: S3ObjectStore, writer: CorpusWriter) -> None:
    read = store.put(KEY, b"# Disk\n")
    store.put(KEY, b"# Newer\n")
    with pytest.raises(ConditionFailedError):
        writer.put_text(KEY, "# Mine\n", etag=read.etag)
    with pytest.raises(ConditionFailedError):
        writer.put_review(KEY, REVIEW, "0" * 64)
    with store.open(KEY) as stream:
        assert stream.read() == b"# Newer\n"


def test_an_encrypted_original_is_not_put_again(store: S3ObjectStore, writer: CorpusWriter) -> None:
    before = store.put(KEY, MAGIC + b"x" * 50)
    with pytest.raises(InvalidInputError, match="encrypted"):
        writer.put_review(KEY, REVIEW, "")
    assert stored(store) == before

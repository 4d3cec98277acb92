"""Objects of another bucket as a source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from opx.connectors import files as s3_prefix
from opx.connectors.connector import Connector
from opx.errors import InvalidInputError, SourceRefusedError, SourceUnavailableError
from opx.settings import Settings
from opx.system import bootstrap
from opx_aws.object_store import S3ObjectStore
from tests.support.workplace_support import a_connector, documents_of, named, pulled, resumed_after_each

if TYPE_CHECKING:
    import boto3
    from mypy_boto3_s3 import S3Client

BUCKET = "team-notes"


@pytest.fixture
def client(aws: boto3.Session) -> S3Client:
    client = aws.client("s3")
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return client


def put(client: S3Client, **objects: bytes) -> None:
    for name, data in objects.items():
        client.put_object(Bucket=BUCKET, Key=f"notes/{name}", Body=data)


def connector(client: S3Client, bucket: str = BUCKET, **options: Any) -> Connector[Any]:
    known = options.pop("known", ())
    tools = {"buckets": lambda name: S3ObjectStore(name, client)}
    return a_connector("s3_prefix", known=known, tools=tools, **{"bucket": bucket, "prefix": "notes/", **options})


def from_now(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_objects_of_formats_that_are_read_become_documents(client: S3Client) -> None:
    put(client, **{"a.md": b"# A", "deep/b.html": b"<p>b</p>", "c.mp4": b"0", "a.md.metadata.json": b"{}", "e.md": b""})
    client.put_object(Bucket=BUCKET, Key="elsewhere/x.md", Body=b"x")
    pages = pulled(connector(client))
    found = documents_of(pages)
    assert {key: each.content for key, each in found.items()} == {"a.md": b"# A", "deep/b.html": b"<p>b</p>"}
    assert found["deep/b.html"].metadata["source_uri"] == "s3://team-notes/notes/deep/b.html"
    assert found["deep/b.html"].metadata["title"] == "b"
    assert pages[-1].complete


def test_unchanged_object_is_named_but_not_read(client: S3Client, monkeypatch: pytest.MonkeyPatch) -> None:
    put(client, **{"a.md": b"a", "b.md": b"b"})
    opened: list[str] = []
    real = S3ObjectStore.open

    def opening(store: S3ObjectStore, key: str) -> BinaryIO:
        opened.append(key)
        return real(store, key)

    monkeypatch.setattr(S3ObjectStore, "open", opening)
    pages = pulled(connector(client, known=["a.md"]), since=from_now(2))
    assert opened == ["notes/b.md"]
    assert named(pages) == {"a.md", "b.md"}


def test_object_put_since_the_last_pull_is_read_again(client: S3Client) -> None:
    put(client, **{"a.md": b"a"})
    assert set(documents_of(pulled(connector(client, known=["a.md"]), since=from_now(-2)))) == {"a.md"}


def test_an_upload_that_began_before_the_last_pull_is_read(client: S3Client) -> None:
    put(client, **{"a.md": b"a"})
    assert set(documents_of(pulled(connector(client, known=["a.md"]), since=from_now(0.5)))) == {"a.md"}


def test_a_pull_that_stops_after_any_page_goes_on_there(client: S3Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_prefix, "LISTED", 3)
    put(client, **{f"n{number}.md": b"x" for number in range(10)})
    for rest, both in resumed_after_each(connector(client)):
        assert len(both) == 10
        assert len(named(rest)) < 10


def test_large_objects_are_pages_of_their_own(client: S3Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_prefix, "PAGE_BYTES", 4)
    put(client, **{f"n{number}.md": b"12345" for number in range(4)})
    for _, both in resumed_after_each(connector(client)):
        assert len(both) == 4


def test_an_object_that_is_too_large_is_refused(client: S3Client) -> None:
    put(client, **{"a.md": b"x" * 100, "b.md": b"x"})
    pages = pulled(connector(client, max_object_bytes=10))
    assert [each.key for page in pages for each in page.refused] == ["a.md"]
    assert set(documents_of(pages)) == {"b.md"}


def test_an_empty_prefix_is_a_whole_listing(client: S3Client) -> None:
    assert [page.complete for page in pulled(connector(client))] == [True]


def test_a_missing_bucket_is_reported(client: S3Client) -> None:
    with pytest.raises(SourceUnavailableError, match="NoSuchBucket"):
        pulled(connector(client, "other-notes"))
    assert "NoSuchBucket" in connector(client, "other-notes").check().reason
    assert connector(client).health_check()


@pytest.mark.parametrize("bucket", ["", "A", "a/b", "s3://notes"])
def test_invalid_bucket_name_is_refused(client: S3Client, bucket: str) -> None:
    with pytest.raises(InvalidInputError, match="bucket"):
        connector(client, bucket)


def test_the_corpus_itself_is_no_source() -> None:
    with bootstrap(Settings(backend="aws", corpus_bucket=BUCKET), aws=never) as services:
        own = a_connector("s3_prefix", tools={"buckets": services.storage.other_bucket}, bucket=BUCKET)
        with pytest.raises(InvalidInputError, match="is the corpus itself"):
            pulled(own)
        assert "is the corpus itself" in own.check().reason


def never(*_: object, **__: object) -> Any:
    raise AssertionError("nothing is asked")


def test_on_one_machine_buckets_are_not_read(tmp_path: Any) -> None:
    with bootstrap(Settings(home=str(tmp_path))) as services:
        mailbox = a_connector("s3_prefix", tools={"buckets": services.storage.other_bucket}, bucket="team-notes")
        with pytest.raises(SourceRefusedError, match="OPX_BACKEND=aws"):
            pulled(mailbox)

"""S3's behaviour beyond the contract: objects of other programs, errors, and broken connections."""

from __future__ import annotations

import io
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.response import StreamingBody
from urllib3.exceptions import ReadTimeoutError as BrokenConnection

from opx.errors import StoreUnavailableError
from opx_aws.object_store import BodyStream, S3ObjectStore, from_headers, to_headers


@pytest.fixture
def client(aws: boto3.Session) -> Any:
    client = aws.client("s3")
    client.create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return client


def test_location_is_an_s3_uri(client: Any) -> None:
    assert S3ObjectStore("corpus", client).put("a/b.md", b"text").location == "s3://corpus/a/b.md"


def test_object_of_another_program_is_read_even_under_a_key_that_put_refuses(client: Any) -> None:
    client.put_object(Bucket="corpus", Key="a//b.md", Body=b"text", Metadata={"author": "ada"})
    store = S3ObjectStore("corpus", client)
    info = store.head("a//b.md")
    assert info is not None
    assert dict(info.metadata) == {"author": "ada"}
    assert store.open("a//b.md").read() == b"text"
    assert [listed.key for listed in store.list()] == ["a//b.md"]


def test_plain_metadata_are_readable_for_other_programs(client: Any) -> None:
    S3ObjectStore("corpus", client).put("a", b"text", metadata={"author": "Ada Lovelace", "documentTitle": "Größe"})
    headers = client.head_object(Bucket="corpus", Key="a")["Metadata"]
    assert headers["author"] == "Ada Lovelace"
    assert set(headers) == {"author", "opx-metadata"}


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("=?UTF-8?Q?Gr=C3=B6=C3=9Fe?=", "Größe"),
        ("=?UTF-8?B?R3LDtsOfZQ==?=", "Größe"),
        ("=?no-such-charset?Q?x?=", "=?no-such-charset?Q?x?="),
        ("=?", "=?"),
    ],
)
def test_metadata_of_another_program_are_decoded_where_they_are_encoded_words(header: str, value: str) -> None:
    assert from_headers({"title": header}) == {"title": value}


@pytest.mark.parametrize("value", ["", " a", "a ", "a  b", "a\tb", "=?x", "é"])
def test_value_that_a_header_may_change_is_encoded(value: str) -> None:
    assert set(to_headers({"title": value, "plain": "a b"})) == {"plain", "opx-metadata"}


def test_headers_are_ascii_and_small_enough() -> None:
    headers = to_headers({"title": "é" * 690})
    assert all((name + value).isascii() for name, value in headers.items())
    assert sum(len(name) + len(value) for name, value in headers.items()) <= 2048


def test_missing_bucket_is_unavailable(aws: boto3.Session) -> None:
    store = S3ObjectStore("no-such-bucket", aws.client("s3"))
    for call in (lambda: store.put("a", b""), lambda: store.open("a"), lambda: list(store.list())):
        with pytest.raises(StoreUnavailableError, match="NoSuchBucket"):
            call()


def test_upload_that_breaks_leaves_no_parts_behind(client: Any) -> None:
    class Broken(io.RawIOBase):
        left = 10

        def read(self, size: int = -1, /) -> bytes:
            self.left -= 1
            if not self.left:
                raise ValueError("broke")
            return b"x" * 1024 * 1024

    with pytest.raises(ValueError, match="broke"):
        S3ObjectStore("corpus", client).put("a", Broken())  # type: ignore[arg-type]
    assert "Uploads" not in client.list_multipart_uploads(Bucket="corpus")


def test_connection_that_breaks_while_reading_is_unavailable() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise BrokenConnection(None, "", "timed out")  # type: ignore[arg-type]

    with BodyStream(StreamingBody(Broken(), 10), "s3://corpus/a") as stream:
        with pytest.raises(StoreUnavailableError, match="s3://corpus/a") as caught:
            stream.read(5)
        assert isinstance(caught.value.__cause__, ReadTimeoutError)


def test_body_that_ends_too_early_is_unavailable() -> None:
    stream = BodyStream(StreamingBody(io.BytesIO(b"half"), 8), "s3://corpus/a")
    with stream, pytest.raises(StoreUnavailableError):
        stream.readall()


def test_many_objects_are_deleted_a_thousand_a_request(client: Any) -> None:
    sizes: list[int] = []
    client.meta.events.register(
        "provide-client-params.s3.DeleteObjects", lambda params, **_: sizes.append(len(params["Delete"]["Objects"]))
    )
    store = S3ObjectStore("corpus", client)
    store.put("bulk/job/shards/00007.jsonl", b"{}")
    store.delete_many(f"bulk/job/shards/{number:05}.jsonl" for number in range(2_500))
    assert sorted(sizes) == [500, 1000, 1000]
    assert store.head("bulk/job/shards/00007.jsonl") is None


def test_objects_that_can_not_be_deleted_are_an_error(client: Any) -> None:

    def refuse(parsed: dict[str, object], **_: object) -> None:
        parsed["Errors"] = [{"Key": "a", "Code": "AccessDenied"}]

    client.meta.events.register("after-call.s3.DeleteObjects", refuse)
    with pytest.raises(StoreUnavailableError, match="can't delete 1 of 2 objects: AccessDenied for s3://corpus/a"):
        S3ObjectStore("corpus", client).delete_many(["a", "b"])

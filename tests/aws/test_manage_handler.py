"""Documents in and out of a bucket through the HTTP API, on the AWS adapters."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
import requests

from lambdas.manage_knowledge.handler import make_handler
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ingestion.files import OBJECT_METADATA
from opx.ports.tables import FAILURES
from opx.settings import Settings, env_name
from opx.system import bootstrap
from opx_aws.clients import client
from opx_aws.object_store import S3ObjectStore, S3UploadSigner
from tests.aws.cloud import BUCKET, Cloud
from tests.support.api_requests import Handler, a_token, call, refusal

TITLE = "Rotate the signing keys"
TEXT = f"# {TITLE}\n\nMake a new key. Größe 4096. Remove the old one."
SOURCE = "docs/runbooks/keys.md"
KEY = "clients/acme/documents/" + SOURCE
ACME, OTHER = a_token("acme"), a_token("other")
METADATA = {OBJECT_METADATA: '{"title": "Größe  x"}', "plain": "as it is"}


def a_file(text: str = TEXT, **more: Any) -> dict[str, Any]:
    data = text.encode()
    return {"source": SOURCE, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data), **more}


def put(where: dict[str, Any], text: str) -> int:
    """Upload to a presigned URL; returns the status."""
    return int(requests.put(where["url"], data=text.encode(), headers=where["headers"], timeout=5).status_code)


class TestSigner:
    @pytest.fixture
    def bucket(self, aws: boto3.Session) -> str:
        aws.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        return BUCKET

    @pytest.fixture
    def signer(self, aws: boto3.Session, bucket: str) -> S3UploadSigner:
        return S3UploadSigner(bucket, client("s3", session=aws, addressing="virtual"))

    def test_signed_upload_stores_the_same_object_as_the_store(
        self, aws: boto3.Session, signer: S3UploadSigner, bucket: str
    ) -> None:
        store = S3ObjectStore(bucket, aws.client("s3"))
        data = TEXT.encode()
        key = "documents/ä ö/x+y.md"
        signed = signer.sign_put(key, size=len(data), sha256=hashlib.sha256(data).hexdigest(), metadata=METADATA)
        assert put({"url": signed.url, "headers": dict(signed.headers)}, TEXT) == 200
        found = store.head(key)
        assert found == store.put(key, data, metadata=METADATA)
        assert found is not None
        assert found.metadata == METADATA

    def test_the_stored_digest_is_that_of_the_bytes(self, signer: S3UploadSigner) -> None:
        digest = hashlib.sha256(b"abc").hexdigest()
        signed = signer.sign_put("documents/x.md", size=3, sha256=digest)
        put({"url": signed.url, "headers": dict(signed.headers)}, "abc")
        assert signer.sha256_of("documents/x.md") == digest

    def test_an_object_that_was_put_otherwise_has_no_digest(
        self, aws: boto3.Session, signer: S3UploadSigner, bucket: str
    ) -> None:
        aws.client("s3").put_object(Bucket=bucket, Key="documents/x.md", Body=b"abc")
        assert signer.sha256_of("documents/x.md") == ""
        assert signer.sha256_of("documents/missing.md") == ""

    def test_a_bucket_that_does_not_answer_is_unavailable(self, aws: boto3.Session) -> None:
        with pytest.raises(StoreUnavailableError):
            S3UploadSigner("missing", aws.client("s3")).sha256_of("documents/x.md")

    def test_everything_that_has_to_be_as_announced_is_part_of_the_signature(self, signer: S3UploadSigner) -> None:
        """S3 refuses a request in which one of the signed headers is missing or another, and bytes that a checksum is
        not of. The double checks neither."""
        signed = signer.sign_put("documents/x.md", size=3, sha256="0" * 64, metadata=METADATA)
        named = set(parse_qs(urlsplit(signed.url).query)["X-Amz-SignedHeaders"][0].split(";"))
        assert named == {*signed.headers, "host"}
        assert {"content-length", "x-amz-checksum-sha256"} < named

    def test_the_address_is_the_buckets_own_in_its_region(self, signer: S3UploadSigner) -> None:
        """The global endpoint redirects, and a redirected signature is not valid."""
        url = urlsplit(signer.sign_put("documents/x.md", size=3, sha256="0" * 64).url)
        assert url.hostname == f"{BUCKET}.s3.eu-central-1.amazonaws.com"
        assert url.path == "/documents/x.md"

    @pytest.mark.parametrize("region", ["us-east-1", "us-west-2", "eu-west-1", "ap-southeast-1", "eu-central-1"])
    def test_addresses_of_every_region_have_the_size_in_their_signature(
        self, monkeypatch: pytest.MonkeyPatch, region: str
    ) -> None:
        """In the older regions botocore signs URLs of S3 with version 2 by default."""
        monkeypatch.setenv("AWS_DEFAULT_REGION", region)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        signer = bootstrap(Settings(backend="aws", corpus_bucket=BUCKET)).corpus.upload_signer
        assert signer is not None
        signed = parse_qs(urlsplit(signer.sign_put("documents/x.md", size=3, sha256="0" * 64).url).query)
        assert signed["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
        assert f"/{region}/s3/" in signed["X-Amz-Credential"][0]
        assert {"content-length", "x-amz-checksum-sha256"} < set(signed["X-Amz-SignedHeaders"][0].split(";"))

    @pytest.mark.parametrize("seconds", [900, 60])
    def test_the_address_expires(self, signer: S3UploadSigner, seconds: int) -> None:
        url = signer.sign_put("documents/x.md", size=3, sha256="0" * 64, seconds=seconds).url
        assert parse_qs(urlsplit(url).query)["X-Amz-Expires"] == [str(seconds)]

    @pytest.mark.parametrize("key", ["../x", "documents/../../x", "documents//x", "", "x" * 1025, "a\\b"])
    def test_a_malformed_key_is_not_signed(self, signer: S3UploadSigner, key: str) -> None:
        with pytest.raises(InvalidInputError):
            signer.sign_put(key, size=3, sha256="0" * 64)

    def test_metadata_that_no_object_can_have_are_not_signed(self, signer: S3UploadSigner) -> None:
        with pytest.raises(InvalidInputError):
            signer.sign_put("documents/x.md", size=3, sha256="0" * 64, metadata={"x": "y" * 2000})


def deliver(cloud: Cloud, key: str) -> None:
    """The event of an object that was put past the double's own ways, and what comes of it."""
    cloud.send(cloud.event(key))
    assert cloud.deliver() == []


def search(cloud: Cloud, caller: dict[str, Any]) -> list[str]:
    """Titles that a caller of the HTTP API finds."""
    body = {"query": TITLE, "config": {"minConfidence": 0}}
    status, answer = call(cloud.retrieve, "query", body=body, caller=caller, kbId="default")
    assert status == 200
    return [result["metadata"]["title"] for result in answer["results"]]


class TestUpload:
    def test_a_file_is_found_by_its_owner_alone(self, cloud: Cloud, manage: Handler) -> None:
        found = call(manage, "prepare_upload", body=a_file(metadata={"tags": ["security"]}), caller=ACME)[1]
        assert (found["state"], found["objectKey"]) == ("upload", KEY)
        assert put(found["put"], TEXT) == 200
        deliver(cloud, KEY)
        assert search(cloud, ACME) == [TITLE]
        assert search(cloud, OTHER) == search(cloud, a_token()) == []
        (document,) = call(cloud.retrieve, "list_documents", caller=ACME)[1]["documents"]
        assert (document["tags"], document["source"]) == (["security"], SOURCE)

    def test_ingested_file_is_uploaded_again_only_after_a_change(self, cloud: Cloud, manage: Handler) -> None:
        put(call(manage, "prepare_upload", body=a_file(), caller=ACME)[1]["put"], TEXT)
        assert call(manage, "prepare_upload", body=a_file(), caller=ACME)[1]["state"] == "upload"
        deliver(cloud, KEY)
        again = call(manage, "prepare_upload", body=a_file(), caller=ACME)[1]
        assert (again["state"], again["objectKey"]) == ("unchanged", KEY)
        assert call(cloud.retrieve, "get_document", caller=ACME, documentId=again["documentId"])[0] == 200
        assert call(manage, "prepare_upload", body=a_file(TEXT + "!"), caller=ACME)[1]["state"] == "upload"
        assert (
            call(manage, "prepare_upload", body=a_file(metadata={"tags": ["x"]}), caller=ACME)[1]["state"] == "upload"
        )

    def test_a_sidecar_goes_with_its_file_and_is_removed_after_it(self, cloud: Cloud, manage: Handler) -> None:
        sidecar = '{"metadataAttributes": {"severity": "high"}}'
        facts = {name: value for name, value in a_file(sidecar).items() if name != "source"}
        body = a_file(sidecar=facts)
        found = call(manage, "prepare_upload", body=body, caller=ACME)[1]
        assert [put(found["sidecarPut"], sidecar), put(found["put"], TEXT)] == [200, 200]
        deliver(cloud, KEY)
        (document,) = call(cloud.retrieve, "list_documents", caller=ACME)[1]["documents"]
        assert document["severity"] == "high"
        assert call(manage, "prepare_upload", body=body, caller=ACME)[1]["state"] == "unchanged"
        without = call(manage, "prepare_upload", body=a_file(), caller=ACME)[1]
        assert (without["state"], without["removeSidecar"]) == ("upload", True)
        assert put(without["put"], TEXT) == 200
        call(manage, "delete_objects", body={"objectKeys": [KEY + ".metadata.json"]}, caller=ACME)
        cloud.send(cloud.event(KEY + ".metadata.json", "Object Deleted"))
        assert cloud.deliver() == []
        (document,) = call(cloud.retrieve, "list_documents", caller=ACME)[1]["documents"]
        assert document["severity"] == ""
        assert call(manage, "prepare_upload", body=a_file(), caller=ACME)[1]["state"] == "unchanged"

    @pytest.mark.parametrize("source", ["../../other/documents/x.md", "a/../../../x.md", "a//b.md", "..", "a\\b.md"])
    def test_no_name_leads_out_of_the_callers_folder(self, cloud: Cloud, manage: Handler, source: str) -> None:
        answer = call(manage, "prepare_upload", body={**a_file(), "source": source}, caller=ACME)
        assert refusal(answer) == (400, "invalid_argument")


class TestDocuments:
    PATH = {"tier": "internal", "category": "runbooks/procedures"}  # noqa: RUF012

    @pytest.fixture
    def key(self, cloud: Cloud, manage: Handler) -> str:
        body = {"document": TEXT, "metadata": {"source": "keys"}}
        status, found = call(manage, "ingest", body=body, caller=ACME, **self.PATH)
        assert status == 202
        key: str = found["accepted"][0]["objectKey"]
        deliver(cloud, key)
        return key

    def test_a_document_is_found_and_its_state_is_returned(self, cloud: Cloud, manage: Handler, key: str) -> None:
        assert search(cloud, ACME) == [TITLE]
        (state,) = call(manage, "get_object_states", body={"objectKeys": [key]}, caller=ACME)[1]["states"]
        assert (state["state"], state["title"]) == ("ingested", TITLE)
        chunks = call(cloud.retrieve, "read_chunks", caller=ACME, documentId=state["documentId"])[1]["chunks"]
        assert "".join(chunk["content"] for chunk in chunks) == TEXT

    def test_nobody_else_removes_it(self, cloud: Cloud, manage: Handler, key: str) -> None:
        (document,) = call(cloud.retrieve, "list_documents", caller=ACME)[1]["documents"]
        path = {"documentId": document["documentId"]}
        assert refusal(call(manage, "delete_document", caller=OTHER, **path)) == (404, "not_found")
        answer = call(manage, "delete_objects", body={"objectKeys": [key]}, caller=OTHER)
        assert refusal(answer) == (400, "invalid_argument")
        assert cloud.services.store.head(key)

    def test_its_owner_does(self, cloud: Cloud, manage: Handler, key: str) -> None:
        (document,) = call(cloud.retrieve, "list_documents", caller=ACME)[1]["documents"]
        status, found = call(manage, "delete_document", caller=ACME, documentId=document["documentId"])
        assert (status, len(found["deleted"])) == (200, 1)
        assert cloud.services.store.head(key) is None

    def test_objects_are_listed_for_their_owner(self, cloud: Cloud, key: str) -> None:
        query = {"under": "runbooks"}
        assert call(cloud.retrieve, "list_objects", query=query, caller=ACME)[1] == {"objectKeys": [key]}
        assert call(cloud.retrieve, "list_objects", query=query, caller=OTHER)[1] == {"objectKeys": []}


def test_a_failure_is_listed_and_retried_for_its_owner_only(cloud: Cloud, manage: Handler) -> None:
    key = "clients/acme/documents/empty.md"
    cloud.put(key, "")
    cloud.deliver()
    (failure,) = call(cloud.retrieve, "list_failures", caller=ACME)[1]["failures"]
    assert call(cloud.retrieve, "list_failures", caller=OTHER)[1] == {"failures": []}
    body = {"failureIds": [failure["failureId"]]}
    assert call(manage, "retry_failures", body=body, caller=OTHER)[1]["sent"] == 0
    assert cloud.receive() == []
    cloud.s3.put_object(Bucket=BUCKET, Key=key, Body=TEXT.encode())
    assert call(manage, "retry_failures", body=body, caller=ACME)[1]["sent"] == 1
    assert cloud.deliver() == []
    assert cloud.items(FAILURES.name) == []


def test_function_starts_from_its_environment(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint of the index only selects how documents are ingested; the index itself is not used."""
    settings = cloud.services.settings
    names = {"backend", "corpus_bucket", "table_prefix", "ingest_queue_url"}
    environment = {env_name(name): str(getattr(settings, name)) for name in names}
    environment |= {
        "OPX_SEARCH_ENDPOINT": "https://nowhere.example",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    manage = make_handler()
    found = call(manage, "prepare_upload", body=a_file(), caller=ACME)[1]
    assert urlsplit(found["put"]["url"]).hostname == f"{BUCKET}.s3.eu-central-1.amazonaws.com"
    put(found["put"], TEXT)
    deliver(cloud, KEY)
    assert call(manage, "prepare_upload", body=a_file(), caller=ACME)[1]["state"] == "unchanged"
    (state,) = call(manage, "get_object_states", body={"objectKeys": [KEY]}, caller=ACME)[1]["states"]
    assert state["state"] == "ingested"
    assert json.dumps(call(manage, "delete_objects", body={"objectKeys": [KEY]}, caller=ACME)[1]) == '{"deleted": 1}'


def test_the_function_calls_nothing_beyond_its_rights(cloud: Cloud, manage: Handler) -> None:
    """All that its routes do; who puts a file does so with the function's right to."""
    called: set[str] = set()

    def note(model: Any, **_: Any) -> None:
        called.add(f"{model.service_model.service_name}:{model.name}")

    put(call(manage, "prepare_upload", body=a_file(), caller=ACME)[1]["put"], TEXT)
    deliver(cloud, KEY)
    cloud.put("clients/acme/documents/empty.md", "")
    cloud.deliver()
    for each in (cloud.s3, cloud.sqs, cloud.dynamodb):
        each.meta.events.register("before-call", note)
    path = {"tier": "internal", "category": "runbooks/procedures"}
    document_id = call(manage, "prepare_upload", body=a_file(), caller=ACME)[1]["documentId"]
    call(manage, "ingest", body={"documents": [TEXT, "# Two\n\nTwo."]}, caller=ACME, **path)
    call(manage, "get_object_states", body={"objectKeys": [KEY, KEY + "x"]}, caller=ACME)
    call(manage, "retry_failures", body={"all": True}, caller=ACME)
    call(manage, "delete_document", caller=ACME, documentId=document_id)
    call(manage, "delete_objects", body={"objectKeys": [KEY]}, caller=ACME)
    for group in ("sales", ""):
        project = {"clientId": "acme", "projectId": "shop"}
        call(manage, "assign_project", body={"groupId": group}, caller=a_token(scopes="opx/admin"), **project)
    assert called == {
        *(f"s3:{name}" for name in ("HeadObject", "PutObject", "DeleteObject")),
        *(f"dynamodb:{name}" for name in ("GetItem", "Query", "PutItem", "BatchGetItem")),
        "sqs:SendMessage",
    }

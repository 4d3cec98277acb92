"""Originals of documents with masked secrets in a bucket that keeps versions: encrypted, their plain versions erased."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from moto.s3.models import s3_backends

from opx.domain.documents import DocumentKey
from opx.domain.provenance import CHANNEL_METADATA
from opx.domain.record import replace
from opx.domain.scopes import Identity, Scope
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ingestion.events import Result, parse_event
from opx.ingestion.originals import MAGIC, OriginalsProtection, OriginalState, decrypted
from opx.operations.context import Caller, Context
from opx.operations.corpus import RestoreDocument, restore_document
from opx.operations.masked_secrets import (
    ERASE,
    ListMaskedSecrets,
    MaskedDocument,
    ProtectOriginals,
    list_masked_secrets,
    protect_originals,
)
from opx.operations.provenance import ExplainProvenance, explain_provenance
from opx.settings import Settings
from opx.system import bootstrap
from opx_assurance.capability import assurance
from opx_aws.object_store import ORIGINAL, S3ObjectStore, S3UploadSigner
from opx_aws.ports import S3Storage
from opx_testing.fake_time import FakeTime
from tests.aws.cloud import BUCKET, Cloud, a_cloud
from tests.support.cli_support import WordEmbedder
from tests.support.fakes import function_logs

NAME = "documents/runbooks/procedures/vault.md"
SIDECAR = NAME + ".metadata.json"
SECRET = "wJalrXUtnFEMIzK7MDENGzbPxRfiCYzzXq1pLmKe"
TEXT = f"# Vault\n\nRestart the heron.\n\nexport AWS_SECRET_ACCESS_KEY={SECRET}\n"
KEY_NAME, KEY = "opx-originals/key", "k" * 43


class Bucket:
    """The corpus bucket, which sends an event for each object that is put or deleted, as S3 does."""

    def __init__(self, cloud: Cloud, time: FakeTime) -> None:
        self.cloud = cloud
        self.time = time
        self.changed = deque[tuple[str, str]]()
        self.puts = 0
        self.deleting = ""
        self.after_read: list[Any] = []
        events = cloud.s3.meta.events
        events.register("provide-client-params.s3.PutObject", self._putting)
        events.register("provide-client-params.s3.DeleteObject", self._deleting)
        events.register("after-call.s3.DeleteObject", self._deleted)

    def _putting(self, params: Mapping[str, Any], **_: object) -> None:
        if "IfMatch" in params and self.after_read:
            self.after_read.pop()()
        if params["Key"].startswith(("documents/", "clients/")):
            self.puts += 1
            self.changed.append((params["Key"], "Object Created"))

    def _deleting(self, params: Mapping[str, Any], **_: object) -> None:
        self.deleting = params["Key"]

    def _deleted(self, http_response: AWSResponse, **_: object) -> None:
        if http_response.status_code < 300:
            self.changed.append((self.deleting, "Object Deleted"))

    def put(self, text: str = TEXT, key: str = NAME, **options: Any) -> None:
        self.cloud.s3.put_object(Bucket=BUCKET, Key=key, Body=text.encode(), **options)

    def settle(self) -> None:
        """Delivers events until there are no more."""
        for _ in range(20):
            while self.changed:
                self.cloud.send(self.cloud.event(*self.changed.popleft()))
            self.cloud.deliver()
            waiting = self.cloud.sqs.get_queue_attributes(QueueUrl=self.cloud.queue_url, AttributeNames=["All"])
            if not self.changed and waiting["Attributes"]["ApproximateNumberOfMessages"] == "0":
                return
        raise AssertionError("there is always another event")

    def upload(self, text: str = TEXT, key: str = NAME, **options: Any) -> None:
        self.put(text, key, **options)
        self.settle()

    def versions(self, key: str = NAME) -> list[bytes]:
        """Bytes of all versions, the newest first."""
        found = self.cloud.s3.list_object_versions(Bucket=BUCKET, Prefix=key).get("Versions", [])
        names = [one["VersionId"] for one in found if one["Key"] == key]
        return [self.cloud.s3.get_object(Bucket=BUCKET, Key=key, VersionId=name)["Body"].read() for name in names]

    def holds_secret(self) -> bool:
        """True if any version of any object, chunk files included, has the secret."""
        found = self.cloud.s3.list_object_versions(Bucket=BUCKET).get("Versions", [])
        return any(SECRET.encode() in body for key in {one["Key"] for one in found} for body in self.versions(key))

    def stored_now(self) -> None:
        """Has the newest version be of this moment."""
        newest = s3_backends["123456789012"]["aws"].buckets[BUCKET].keys.getlist(NAME)[-1]
        newest.last_modified = datetime.fromtimestamp(self.time.now, UTC).replace(tzinfo=None)  # as moto has it

    def refusing_to_delete(self) -> Any:
        """A handler that refuses deletions of versions."""

        def refuse(params: Mapping[str, Any], **_: object) -> Any:
            if "versionId" not in params["query_string"]:
                return None
            error = {"Error": {"Code": "AccessDenied", "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
            return AWSResponse("", 403, HTTPHeaders(), None), error

        self.cloud.s3.meta.events.register("before-call.s3.DeleteObject", refuse)
        return refuse

    def deleting_again(self, handler: Any) -> None:
        self.cloud.s3.meta.events.unregister("before-call.s3.DeleteObject", handler)


@pytest.fixture
def bucket(aws: boto3.Session) -> Iterator[Bucket]:
    time = FakeTime()
    chosen = a_cloud(aws, clock=time.clock, secret_originals="encrypt", originals_key=KEY_NAME)
    with function_logs(), chosen as deployed:
        deployed.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        aws.client("secretsmanager").create_secret(Name=KEY_NAME, SecretString=KEY)
        yield Bucket(deployed, time)


def context_of(bucket: Bucket, identity: Identity = Identity(), *, owner: bool = True) -> Context:  # noqa: B008 (frozen)
    return Context(bucket.cloud.services, Caller(identity, owns_system=owner))


def masked(bucket: Bucket) -> list[MaskedDocument]:
    return list(list_masked_secrets(context_of(bucket), ListMaskedSecrets()).documents)


def states(bucket: Bucket) -> list[OriginalState]:
    return [one.original for one in masked(bucket)]


def versions_of(bucket: Bucket, scope: Scope = Scope()) -> list[int]:  # noqa: B008 (frozen)
    return [one.version for one in bucket.cloud.services.corpus.catalog.versions(DocumentKey(scope, NAME))]


# -- ingestion


def test_the_bucket_has_ciphertext_alone_after_ingestion(bucket: Bucket) -> None:
    bucket.upload()
    (only,) = bucket.versions()
    assert only.startswith(MAGIC)
    assert decrypted(base64.b64decode(KEY + "="), NAME, only) == TEXT.encode()
    assert not bucket.holds_secret()
    assert (states(bucket), bucket.puts) == ([OriginalState.ENCRYPTED], 2)
    assert "heron" in bucket.cloud.ask("restart the heron")


def test_documents_without_secrets_stay_as_they_are(bucket: Bucket) -> None:
    bucket.upload("# Egret\n\nRestart it.")
    assert (bucket.versions(), bucket.puts) == ([b"# Egret\n\nRestart it."], 1)


def test_etag_metadata_headers_and_tags_are_those_of_the_original(bucket: Bucket) -> None:
    channel = json.dumps({"kind": "api", "name": "x"})
    store = S3ObjectStore(BUCKET, bucket.cloud.s3)
    store.put(NAME, TEXT.encode(), metadata={"author": "Jörg", CHANNEL_METADATA: channel})
    before = store.head(NAME)
    bucket.settle()
    found = store.head(NAME)
    assert before
    assert found
    assert (found.etag, found.metadata) == (before.etag, before.metadata)
    assert found.version != before.version
    assert store.attests(found)
    bucket.upload(TEXT + "More.", ContentType="text/markdown", ContentLanguage="en", Tagging="team=birds%20%2B%20co")
    stored = bucket.cloud.s3.head_object(Bucket=BUCKET, Key=NAME)
    assert (stored["ContentType"], stored["ContentLanguage"]) == ("text/markdown", "en")
    tags = bucket.cloud.s3.get_object_tagging(Bucket=BUCKET, Key=NAME)["TagSet"]
    assert {"Key": "team", "Value": "birds + co"} in tags


def test_events_reconciling_and_further_uploads_of_the_same_bytes_change_nothing(bucket: Bucket) -> None:
    bucket.upload()
    services = bucket.cloud.services
    assert services.part(assurance).reconciler(thorough=True).run().differences == []
    assert S3UploadSigner(BUCKET, bucket.cloud.s3).sha256_of(NAME) != ""
    bucket.upload()
    assert (versions_of(bucket), bucket.holds_secret(), states(bucket)) == ([1], False, [OriginalState.ENCRYPTED])
    assert services.part(assurance).reconciler(thorough=True).run().differences == []


def test_the_client_knows_its_file_by_its_digest(bucket: Bucket) -> None:
    bucket.upload()
    signer = S3UploadSigner(BUCKET, bucket.cloud.s3)
    assert signer.sha256_of(NAME) == hashlib.sha256(TEXT.encode()).hexdigest()


def test_a_document_is_read_again_from_ciphertext(bucket: Bucket) -> None:
    bucket.upload()
    key, services = DocumentKey(Scope(), NAME), bucket.cloud.services
    (before,) = services.corpus.catalog.versions(key)
    services.corpus.catalog.claims.note_unfinished(key, before.document_id)
    (outcome,) = services.ingestion.pipeline.apply([_event(bucket)])
    assert (outcome.result, outcome.document_id) == (Result.INGESTED, before.document_id)
    assert (versions_of(bucket), states(bucket)) == ([1], [OriginalState.ENCRYPTED])


def _event(bucket: Bucket) -> Any:
    return parse_event(bucket.cloud.event(NAME))


def test_a_later_version_replaces_an_encrypted_one(bucket: Bucket) -> None:
    bucket.upload()
    bucket.upload(TEXT + "And then the egret.")
    assert versions_of(bucket) == [2, 1]
    assert [body.startswith(MAGIC) for body in bucket.versions()] == [True, True]
    assert not bucket.holds_secret()


def test_an_earlier_version_is_restored_from_its_ciphertext(bucket: Bucket) -> None:
    for text in ("First.", "Second.", "Third."):
        bucket.put(TEXT + text)
        bucket.stored_now()
        bucket.time.sleep(5)
        bucket.settle()
        bucket.time.sleep(1)
        bucket.stored_now()
        bucket.time.sleep(60)
    services = bucket.cloud.services
    versions = {one.version: one for one in services.corpus.catalog.versions(DocumentKey(Scope(), NAME))}
    restored = restore_document(context_of(bucket), RestoreDocument(document_id=versions[2].document_id))
    assert restored.original
    bucket.changed.append((NAME, "Object Created"))
    bucket.settle()
    current = next(services.corpus.catalog.versions(DocumentKey(Scope(), NAME)))
    assert (current.version, current.document_id) == (4, versions[2].document_id)
    assert (states(bucket), bucket.holds_secret()) == ([OriginalState.ENCRYPTED], False)


def test_versions_before_the_choice_and_behind_delete_markers_are_erased(bucket: Bucket) -> None:
    for text in (TEXT + "first", TEXT + "second"):
        bucket.put(text)
    bucket.cloud.s3.delete_object(Bucket=BUCKET, Key=NAME)
    bucket.put("other", NAME + "x")
    bucket.upload()
    assert [body.startswith(MAGIC) for body in bucket.versions()] == [True]
    assert bucket.versions(NAME + "x") == [b"other"]
    assert "DeleteMarkers" in bucket.cloud.s3.list_object_versions(Bucket=BUCKET, Prefix=NAME)


def test_a_deleted_document_is_not_brought_back(bucket: Bucket) -> None:
    bucket.put()
    bucket.after_read.append(lambda: bucket.cloud.s3.delete_object(Bucket=BUCKET, Key=NAME))
    bucket.settle()
    assert S3ObjectStore(BUCKET, bucket.cloud.s3).head(NAME) is None
    assert masked(bucket) == []


def test_an_upload_in_between_wins(bucket: Bucket) -> None:
    later = TEXT + "Uploaded meanwhile."
    bucket.put()
    bucket.after_read.append(lambda: bucket.put(later))
    bucket.settle()
    assert decrypted(base64.b64decode(KEY + "="), NAME, bucket.versions()[0]) == later.encode()
    assert (versions_of(bucket), bucket.holds_secret()) == ([2, 1], False)


def test_metadata_of_the_same_bytes_that_were_put_in_between_win(bucket: Bucket) -> None:
    bucket.put()
    bucket.after_read.append(lambda: bucket.put(Metadata={"opx-document": '{"title": "Heron of the vault"}'}))
    bucket.settle()
    found = next(bucket.cloud.services.corpus.catalog.versions(DocumentKey(Scope(), NAME)))
    assert found.title == "Heron of the vault"
    assert not bucket.holds_secret()


def test_a_sidecar_is_encrypted_and_read(bucket: Bucket) -> None:
    bucket.put(json.dumps({"metadataAttributes": {"title": "Vault of the heron", "tags": ["birds"]}}), SIDECAR)
    bucket.upload()
    assert [body.startswith(MAGIC) for body in bucket.versions(SIDECAR)] == [True]
    bucket.upload(TEXT + "More.")
    found = next(bucket.cloud.services.corpus.catalog.versions(DocumentKey(Scope(), NAME)))
    assert (found.title, found.tags, states(bucket)) == (
        "Vault of the heron",
        ("birds",),
        [OriginalState.ENCRYPTED],
    )


def test_removals_by_etag_know_the_original(bucket: Bucket) -> None:
    bucket.upload()
    store = S3ObjectStore(BUCKET, bucket.cloud.s3)
    info = store.head(NAME)
    assert info
    assert not store.delete(NAME, etag="0" * 32)
    assert store.head(NAME)
    assert store.delete(NAME, etag=info.etag)
    assert store.head(NAME) is None


# -- what can't be erased or encrypted


def test_a_version_under_a_hold_is_reported_and_left(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    lock: Any = {"ObjectLockEnabled": "Enabled"}
    bucket.cloud.s3.put_object_lock_configuration(Bucket=BUCKET, ObjectLockConfiguration=lock)
    bucket.put()
    bucket.cloud.s3.put_object_legal_hold(Bucket=BUCKET, Key=NAME, LegalHold={"Status": "ON"})
    bucket.settle()
    assert [body.startswith(MAGIC) for body in bucket.versions()] == [True, False]
    (found,) = masked(bucket)
    assert found.original is OriginalState.PLAIN
    assert ERASE in found.remedies
    assert "can't be erased (AccessDenied)" in capsys.readouterr().out
    with pytest.raises(StoreUnavailableError, match="1 of the earlier versions"):
        bucket.cloud.services.ingestion.originals.protect(NAME)
    assert bucket.puts == 2


def test_what_could_not_be_erased_is_listed_as_plain_and_mended_on_request(bucket: Bucket) -> None:
    refused = bucket.refusing_to_delete()
    bucket.upload()
    assert states(bucket) == [OriginalState.PLAIN]
    bucket.deleting_again(refused)
    done = protect_originals(context_of(bucket), ProtectOriginals())
    assert (done.encrypted, done.queued, done.documents) == (0, 1, 1)
    bucket.settle()
    assert (states(bucket), bucket.holds_secret()) == ([OriginalState.ENCRYPTED], False)
    assert protect_originals(context_of(bucket), ProtectOriginals()).queued == 0


def test_without_the_key_documents_are_ingested_and_listed_as_plain(bucket: Bucket, aws: boto3.Session) -> None:
    aws.client("secretsmanager").delete_secret(SecretId=KEY_NAME, ForceDeleteWithoutRecovery=True)
    bucket.upload()
    assert (versions_of(bucket), states(bucket)) == ([1], [OriginalState.PLAIN])
    assert bucket.versions() == [TEXT.encode()]
    aws.client("secretsmanager").create_secret(Name=KEY_NAME, SecretString=KEY)
    protect_originals(context_of(bucket), ProtectOriginals())
    bucket.settle()
    assert (states(bucket), bucket.holds_secret()) == ([OriginalState.ENCRYPTED], False)


def test_an_object_without_room_for_a_tag_stays_and_is_listed(bucket: Bucket) -> None:
    bucket.upload(Tagging="&".join(f"tag{number}=x" for number in range(10)))
    assert states(bucket) == [OriginalState.PLAIN]
    with pytest.raises(InvalidInputError, match="10 tags"):
        bucket.cloud.services.ingestion.originals.protect(NAME)


# -- other systems, other clients


def test_ciphertext_of_one_client_is_a_failed_item_of_another(bucket: Bucket) -> None:
    bucket.upload(key="clients/acme/" + NAME)
    source = {"Bucket": BUCKET, "Key": "clients/acme/" + NAME}
    bucket.cloud.s3.copy_object(Bucket=BUCKET, Key="clients/other/" + NAME, CopySource=source)
    bucket.changed.append(("clients/other/" + NAME, "Object Created"))
    bucket.settle()
    (failed,) = bucket.cloud.services.corpus.failures.items()
    assert "copied from another object" in failed.failure.reason
    assert "heron" not in bucket.cloud.ask("restart the heron", client="other")


def test_a_note_without_its_tag_is_no_note(bucket: Bucket) -> None:
    bucket.upload()
    note = bucket.cloud.s3.head_object(Bucket=BUCKET, Key=NAME)["Metadata"][ORIGINAL]
    bucket.upload("# Forged\n\nBurn the egret.", Metadata={ORIGINAL: note})
    assert versions_of(bucket) == [2, 1]
    assert S3UploadSigner(BUCKET, bucket.cloud.s3).sha256_of(NAME) == ""


def test_an_original_is_unreadable_to_a_function_without_the_key(bucket: Bucket) -> None:
    bucket.upload()
    (found,) = masked(bucket)
    request = ExplainProvenance(document_id=found.document_id)
    assert explain_provenance(context_of(bucket), request).object.integrity == "intact"
    with a_reader(bucket) as context:
        assert explain_provenance(context, request).object.integrity == "unreadable"
        with pytest.raises(InvalidInputError, match="secret_originals=encrypt"):
            protect_originals(context, ProtectOriginals())


@contextmanager
def a_reader(bucket: Bucket) -> Iterator[Context]:
    """The system as a function sees it whose settings have no choice for originals."""
    clients = {"s3": bucket.cloud.s3, "dynamodb": bucket.cloud.dynamodb, "sqs": bucket.cloud.sqs}
    settings, index = replace(bucket.cloud.services.settings, secret_originals="keep"), bucket.cloud.services.index
    with bootstrap(settings, index=index, aws=lambda name, **_: clients[name]) as system:
        yield Context(system, Caller(Identity(), owns_system=True))


# -- buckets without versions, and a folder beside a bucket


@pytest.mark.parametrize("status", ["", "Suspended"])
def test_without_versions_the_object_itself_is_replaced(aws: boto3.Session, status: str) -> None:
    client: Any = aws.client("s3")
    client.create_bucket(Bucket="plain", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    storage = S3Storage("plain", lambda *_, **__: client)
    for versioning in ("Enabled", status) if status else ():
        client.put_bucket_versioning(Bucket="plain", VersioningConfiguration={"Status": versioning})
        storage.objects.put(NAME, b"An earlier version.", metadata={"author": "bob"})
    before = storage.objects.put(NAME, TEXT.encode(), metadata={"author": "ann"})
    originals = OriginalsProtection(storage.objects, storage.replaceable, lambda: b"k" * 32)
    assert [originals.protect(NAME), originals.protect(NAME)] == [True, False]
    found = storage.objects.head(NAME)
    assert found
    assert (found.etag, found.metadata) == (before.etag, before.metadata)
    assert originals.state(NAME) is OriginalState.ENCRYPTED
    client.delete_object(Bucket="plain", Key=NAME)
    assert originals.state(NAME) is OriginalState.GONE


def test_a_process_of_its_own_encrypts_in_a_bucket_and_names_what_stays(bucket: Bucket, tmp_path: Path) -> None:
    settings = Settings(home=str(tmp_path), store=f"s3://{BUCKET}")
    with bootstrap(settings, embedder=WordEmbedder(), aws=lambda *_, **__: bucket.cloud.s3) as system:
        system.store.put(NAME, TEXT.encode())
        assert [outcome.result for outcome in system.manager.work()] == [Result.INGESTED]
        context = Context(system, Caller(Identity(), owns_system=True))
        refused = bucket.refusing_to_delete()
        done = protect_originals(context, ProtectOriginals())
        assert (done.encrypted, done.documents) == (0, 1)
        assert [problem.partition(": ")[0] for problem in done.problems] == [
            f"1 of the earlier versions of {NAME} can't be erased (AccessDenied)"
        ]
        bucket.deleting_again(refused)
        done = protect_originals(context, ProtectOriginals())
        assert (done.encrypted, done.problems) == (1, ())
        assert system.part(assurance).reconciler(thorough=True).run().differences == []
    assert not bucket.holds_secret()

"""Earlier contents of objects in a bucket that keeps versions, and documents restored from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.s3.models import s3_backends

from opx.domain.scopes import Identity
from opx.domain.versions import Restored
from opx.errors import ObjectNotFoundError
from opx.operations.context import Caller, Context
from opx.operations.corpus import RestoreDocument, restore_document
from opx_aws.object_store import S3ObjectStore
from opx_aws.object_versions import S3PastObjects
from tests.e2e.systems import SystemUnderTest, a_system, created
from tests.support.builders import ports_of

KEY = "documents/runbooks/procedures/disk.html"
SIDECAR = KEY + ".metadata.json"
PAGE = "<html><head><title>Disk full</title></head><body><p>When the disk is full, {}.</p></body></html>"


@pytest.fixture
def client(aws: boto3.Session) -> Any:
    client = aws.client("s3")
    client.create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    client.put_bucket_versioning(Bucket="corpus", VersioningConfiguration={"Status": "Enabled"})
    return client


class TestPastObjects:
    def test_past_states_of_an_object_are_listed_newest_first(self, client: Any) -> None:
        store, past = S3ObjectStore("corpus", client), S3PastObjects("corpus", client)
        store.put("a.md", b"one")
        store.delete("a.md")
        store.put("a.md", b"two")
        found = list(past.of("a.md"))
        assert sorted(one.removed for one in found) == [False, False, True]
        times = [one.stored_at for one in found]
        assert times == sorted(times, reverse=True)
        assert abs(datetime.fromisoformat(times[0]) - datetime.now(UTC)).total_seconds() < 3600

    def test_objects_whose_names_begin_alike_are_others(self, client: Any) -> None:
        store = S3ObjectStore("corpus", client)
        for name in ("a.md", "a.md.metadata.json", "a.mdx"):
            store.put(name, b"one")
        assert len(list(S3PastObjects("corpus", client).of("a.md"))) == 1

    def test_of_what_never_was_there_is_nothing(self, client: Any) -> None:
        assert list(S3PastObjects("corpus", client).of("a.md")) == []

    def test_bytes_and_metadata_come_back(self, client: Any) -> None:
        store, past = S3ObjectStore("corpus", client), S3PastObjects("corpus", client)
        store.put("a.md", b"one", metadata={"opx-document": "Größe"})
        (first,) = past.of("a.md")
        store.put("a.md", b"two")
        past.bring_back("a.md", first.name)
        info = store.head("a.md")
        assert info is not None
        assert (store.open("a.md").read(), dict(info.metadata)) == (b"one", {"opx-document": "Größe"})

    def test_permanently_deleted_version_can_not_be_brought_back(self, client: Any) -> None:
        store, past = S3ObjectStore("corpus", client), S3PastObjects("corpus", client)
        store.put("a.md", b"one")
        (first,) = past.of("a.md")
        client.delete_object(Bucket="corpus", Key="a.md", VersionId=first.name)
        with pytest.raises(ObjectNotFoundError):
            past.bring_back("a.md", first.name)


class TestRestoring:
    @pytest.fixture
    def system(self, tmp_path: Path, aws: boto3.Session) -> Iterator[SystemUnderTest]:
        with a_system("nextgen", tmp_path, aws) as system:
            self.versioned(system, "Enabled")
            yield system

    def versioned(self, system: SystemUnderTest, status: str) -> None:
        """The bucket keeps versions from now on, or no more."""
        client = ports_of(system.services).given["aws"]("s3")
        client.put_bucket_versioning(Bucket="corpus", VersioningConfiguration={"Status": status})

    def put(self, system: SystemUnderTest, what: str, sidecar: dict[str, Any] | None) -> str:
        """The document's id. The bucket has the system's clock."""
        stored = s3_backends["123456789012"]["aws"].buckets["corpus"].keys
        known = {id(one) for name in (KEY, SIDECAR) for one in stored.getlist(name, [])}
        system.put_silently(KEY, PAGE.format(what))
        if sidecar is not None:
            system.put_silently(SIDECAR, json.dumps({"metadataAttributes": sidecar}))
        elif system.silent.head(SIDECAR):
            system.silent.delete(SIDECAR)
        for one in [*stored.getlist(KEY, []), *stored.getlist(SIDECAR, [])]:
            if id(one) not in known:
                one.last_modified = datetime.fromtimestamp(system.time.now, UTC).replace(tzinfo=None)  # as moto has it
        system.time.sleep(5)
        self.deliver(system)
        system.time.sleep(60)
        return system.document(KEY).document_id

    def deliver(self, system: SystemUnderTest) -> None:
        (outcome,) = system.deliver(created(KEY, int(system.time.now)))
        assert outcome.result == "ingested", outcome

    def restored(self, system: SystemUnderTest, document_id: str) -> Restored:
        context = Context(system.services, Caller(Identity()))
        return restore_document(context, RestoreDocument(document_id=document_id))

    def test_the_file_of_then_and_its_metadata_come_back(self, system: SystemUnderTest) -> None:
        first = self.put(system, "rotate the logs", {"tags": ["linux"]})
        self.put(system, "call the storage team", None)
        found = self.restored(system, first)
        assert (found.original, found.notes, found.object_key) == (True, (), KEY)
        assert system.silent.open(KEY).read().decode() == PAGE.format("rotate the logs")
        self.deliver(system)
        document = system.document(KEY)
        assert (document.document_id, document.version, document.tags) == (first, 3, ("linux",))

    def test_a_metadata_file_that_came_later_goes(self, system: SystemUnderTest) -> None:
        first = self.put(system, "rotate the logs", None)
        self.put(system, "call the storage team", {"tags": ["storage"]})
        assert self.restored(system, first).original
        assert system.silent.head(SIDECAR) is None

    def test_without_the_file_the_text_comes_back(self, system: SystemUnderTest) -> None:
        self.versioned(system, "Suspended")
        first = self.put(system, "rotate the logs", None)
        self.put(system, "call the storage team", None)
        found = self.restored(system, first)
        assert (found.original, len(found.notes)) == (False, 1)
        self.deliver(system)
        assert system.document(KEY).document_id == first

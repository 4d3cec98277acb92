"""Both object stores keep the contract."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from opx.adapters.embedded.object_store import FolderObjectStore
from opx_aws.object_store import S3ObjectStore
from opx_testing.object_store import ObjectStoreContract
from tests.doubles.memory_bucket import MemoryObjects


class TestFolderObjectStore(ObjectStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FolderObjectStore:
        return FolderObjectStore(tmp_path / "corpus")


class TestS3ObjectStore(ObjectStoreContract):
    @pytest.fixture
    def store(self, aws: boto3.Session) -> S3ObjectStore:
        client = aws.client("s3")
        client.create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        return S3ObjectStore("corpus", client)


class TestMemoryObjects(ObjectStoreContract):
    """The double with which large runs are made."""

    @pytest.fixture
    def store(self) -> MemoryObjects:
        return MemoryObjects("corpus")

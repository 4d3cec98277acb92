"""Systems whose ports are of different kinds: each address alone on AWS, everything else in a folder."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from opx.domain.queries import QueryConfig
from opx.ingestion.events import Result
from opx.ports.tables import ALL_TABLES
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.dynamo_tables import create_tables
from tests.support.fakes import WordsEmbedder

DISK = "# Disk full\n\nFind the biggest directories with du.\n"
KEY = "documents/runbooks/disk.md"


@pytest.fixture
def account(aws: boto3.Session) -> boto3.Session:
    aws.client("s3").create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    create_tables(aws, ALL_TABLES, "team-")
    return aws


@pytest.mark.parametrize("address", [{"store": "s3://corpus"}, {"tables": "dynamodb:team-"}], ids=str)
def test_a_document_is_ingested_found_changed_and_deleted(
    account: boto3.Session, tmp_path: Path, address: dict[str, str]
) -> None:
    settings = Settings(home=str(tmp_path / "home"), **address)  # type: ignore[arg-type]
    with bootstrap(settings, embedder=WordsEmbedder(), aws=lambda service, **_: account.client(service)) as system:

        def work() -> list[Result]:
            return [outcome.result for outcome in system.manager.work()]

        def titles() -> list[str]:
            answer = system.questions.for_reader().search("disk full", QueryConfig(min_confidence=0))
            return [result.title for result in answer.results]

        system.store.put(KEY, DISK.encode())
        assert (work(), titles()) == ([Result.INGESTED], ["Disk full"])
        system.store.put(KEY, DISK.replace("full", "failing").encode())
        assert (work(), titles()) == ([Result.INGESTED], ["Disk failing"])
        system.store.put(KEY, DISK.replace("full", "failing").encode())
        assert work() == [Result.UNCHANGED]
        system.store.delete(KEY)
        assert (work(), titles()) == ([Result.DELETED], [])
    assert (tmp_path / "home" / "corpus").exists() == ("store" not in address)
    stored = account.client("dynamodb").scan(TableName="team-opx-knowledge-keys")["Items"]
    assert bool(stored) == ("tables" in address)

"""The synthesised definition of the state machine, and an account whose state machines are interpreted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient

from opx_bulk import kinds
from tests.bulk.bulk_cloud import BulkCloud, a_bulk_cloud, deployed_text
from tests.doubles.step_functions import INTERPRETED, Kill
from tests.infra.templates import synthesise


@pytest.fixture(scope="session")
def definition(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The definition that is deployed to the plain environment."""
    assembly = synthesise({"environment": "prod", "bulk": "true"}, tmp_path_factory.mktemp("cdk"))
    text = str(assembly.only("bulk", "StepFunctions::StateMachine")["DefinitionString"])
    return deployed_text(text)


@pytest.fixture
def aws(aws_session: boto3.Session) -> Iterator[boto3.Session]:
    """An empty AWS account in memory."""
    from moto import mock_aws

    with mock_aws(config=INTERPRETED):
        yield aws_session


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of four documents."""
    monkeypatch.setattr(kinds, "SHARD_DOCUMENTS", 4)


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[Kill]:
    """Kills that requests to AWS are counted for."""
    found: list[Kill] = []
    client: Any = BaseClient
    call = client._make_api_call

    def counted(made: Any, *args: Any) -> Any:
        for kill in found:
            kill.count()
        return call(made, *args)

    monkeypatch.setattr(BaseClient, "_make_api_call", counted)
    return found


@pytest.fixture
def bulk(aws: boto3.Session, definition: str, small: None) -> Iterator[BulkCloud]:
    with a_bulk_cloud(aws, definition, batch_fewest_records=5) as deployed:
        deployed.batches.quotas.fewest_records = 5
        yield deployed

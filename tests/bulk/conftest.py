"""The synthesised definition of the state machine, and an account whose state machines are interpreted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from tests.bulk.bulk_cloud import BulkCloud, a_bulk_cloud, deployed_text
from tests.doubles.step_functions import INTERPRETED
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

    with mock_aws(config=INTERPRETED):  # type: ignore[arg-type]
        yield aws_session


@pytest.fixture
def bulk(aws: boto3.Session, definition: str) -> Iterator[BulkCloud]:
    with a_bulk_cloud(aws, definition) as deployed:
        yield deployed


def states_of(definition: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(definition)["States"]
    return found

"""A system in an account, with the logs of functions, and the function that manages it."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from lambdas.manage_knowledge.handler import make_handler
from tests.aws.cloud import Cloud, a_cloud
from tests.support.api_requests import Handler
from tests.support.fakes import function_logs


@pytest.fixture
def cloud(aws: boto3.Session) -> Iterator[Cloud]:
    with function_logs(), a_cloud(aws) as deployed:
        yield deployed


@pytest.fixture
def manage(cloud: Cloud) -> Handler:
    return make_handler(lambda: cloud.services)

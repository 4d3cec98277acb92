"""A client of the search engine that signs, as those of functions do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import boto3
from opensearchpy import OpenSearch

from opx_aws.opensearch import opensearch_client
from tests.deployment.emulator import REGION


@contextmanager
def engine_client(endpoint: str) -> Iterator[OpenSearch]:
    credentials = boto3.Session("test", "test", region_name=REGION).get_credentials()
    client = opensearch_client(endpoint, credentials, REGION)
    try:
        yield client
    finally:
        client.close()

"""An OpenSearch collection of a double of the service, with the adapter over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.credentials import Credentials
from opensearchpy import OpenSearch

from opx_aws.opensearch import OpenSearchIndex, ensure_index, opensearch_client
from opx_aws.opensearch_bulk import BulkLimits
from opx_aws.opensearch_schema import CLASSIC_ENGINE
from opx_aws.vendor_errors import Backoff
from opx_testing.entries import VECTOR_DIMENSION
from tests.doubles.opensearch import OpenSearchDouble

INDEX = "opx-knowledge"
MODEL = "test-model/8"
CREDENTIALS = Credentials("AKIDEXAMPLE", "secret")
THREE_TRIES = Backoff(attempts=3, base=1.0, longest=9.0, random=lambda: 0.0)


@contextmanager
def a_client(double: OpenSearchDouble, timeout: float = 5.0) -> Iterator[OpenSearch]:
    client = opensearch_client(double.endpoint, CREDENTIALS, "eu-west-1", timeout=timeout)
    yield client
    client.close()


@contextmanager
def a_collection(generation: str = "nextgen", *, visible_after: float | None = 0.0) -> Iterator[Collection]:
    with OpenSearchDouble(generation, visible_after=visible_after) as double, a_client(double) as client:
        engine = CLASSIC_ENGINE if generation == "classic" else ""
        ensure_index(client, INDEX, model_id=MODEL, dimension=VECTOR_DIMENSION, engine=engine)
        yield Collection(double, client, generation)


class Collection:
    """A double with an empty index, and the adapter over it."""

    def __init__(self, double: OpenSearchDouble, client: OpenSearch, generation: str) -> None:
        self.double = double
        self.client = client
        self.generation = generation
        self.pauses: list[float] = []
        self.index = self.with_limits()

    def with_limits(self, limits: BulkLimits = BulkLimits(), timeout: float = 5.0) -> OpenSearchIndex:  # noqa: B008
        return OpenSearchIndex(
            self.client,
            INDEX,
            generation=self.generation,
            timeout=timeout,
            limits=limits,
            backoff=THREE_TRIES,
            sleep=self.pauses.append,
            patience=0.0,
        )

    def bulk_actions(self) -> list[list[str]]:
        """The operations of each bulk request."""
        operations = ("index", "create", "delete")
        return [
            [operation for line in request.json_lines() for operation in operations if operation in line]
            for request in self.double.requests_to("_bulk")
        ]

"""The search engine that what is deployed uses: a real OpenSearch node where there can be one, else the double."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from opx.settings import Settings
from opx_aws.bedrock_embedder import DEFAULT_MODEL
from opx_aws.opensearch import ensure_index
from tests.deployment.clients import engine_client
from tests.doubles.http_double import Response
from tests.doubles.opensearch import OpenSearchDouble
from tests.opensearch.indices import create_node_index, node_client
from tests.opensearch.jars import NodeUnavailableError
from tests.opensearch.node import LocalNode, running_node

INDEX = Settings().search_index
DIMENSION = 1024
MODEL = f"{DEFAULT_MODEL}/{DIMENSION}"


class Engine(Protocol):
    """`endpoint` stays the same while it is down. Both methods do nothing the second time."""

    @property
    def name(self) -> str: ...

    @property
    def endpoint(self) -> str: ...

    def stop(self) -> None: ...

    def start(self) -> None: ...


@dataclass
class NodeEngine:
    node: LocalNode
    name: str = "a real OpenSearch node"

    @property
    def endpoint(self) -> str:
        return self.node.endpoint

    def stop(self) -> None:
        self.node.stop()

    def start(self) -> None:
        self.node.start()


@dataclass
class DoubleEngine:
    """Down means that it hangs up on everybody."""

    double: OpenSearchDouble
    name: str = "the double of OpenSearch"

    @property
    def endpoint(self) -> str:
        return self.double.endpoint

    def stop(self) -> None:
        self.double.inject(Response(hang_up=True), times=100_000)

    def start(self) -> None:
        self.double.reset()


@contextmanager
def running_engine() -> Iterator[Engine]:
    """An engine with an empty index."""
    try:
        with running_node() as node:
            with node_client(node.endpoint, timeout=120.0) as client:
                create_node_index(client, INDEX, model_id=MODEL, dimension=DIMENSION)
            yield NodeEngine(node)
    except NodeUnavailableError as exc:
        with OpenSearchDouble() as double:
            with engine_client(double.endpoint) as client:
                ensure_index(client, INDEX, model_id=MODEL, dimension=DIMENSION)
            yield DoubleEngine(double, f"the double of OpenSearch, as there is no node: {exc}")

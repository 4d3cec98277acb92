"""One real node for all tests here; without one they are skipped, and the reason is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

import pytest
from opensearchpy import OpenSearch

from tests.opensearch.indices import node_client
from tests.opensearch.jars import NodeUnavailableError
from tests.opensearch.node import LocalNode, running_node


@pytest.fixture(scope="session")
def node() -> Iterator[LocalNode]:
    with ExitStack() as stack:
        try:
            started = stack.enter_context(running_node())
        except NodeUnavailableError as exc:
            pytest.skip(f"no OpenSearch node: {exc}")
        yield started


@pytest.fixture(scope="session")
def client(node: LocalNode) -> Iterator[OpenSearch]:
    with node_client(node.endpoint) as made:
        yield made


@pytest.fixture(scope="session")
def names() -> Callable[[], str]:
    """A name for an index that no other test has."""
    numbers = count(1)
    return lambda: f"test-{next(numbers)}"

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
from tests.support.sampling import sampled


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves another third of the contract for each kind of index, where a sample is wanted. The embedded index and the
    double of OpenSearch are held to all of it."""
    contract = sorted((item.nodeid, item) for item in items if item.path.name == "test_contract.py")
    kinds = dict.fromkeys(nodeid.split("::")[1] for nodeid, _ in contract)
    kept = {
        nodeid
        for part, kind in enumerate(kinds)
        for nodeid, _ in sampled([one for one in contract if f"::{kind}::" in one[0]], part)
    }
    left_out = [item for nodeid, item in contract if nodeid not in kept]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


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

"""Aliases in DynamoDB: workers that write at once, and calls that are counted."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Any

import boto3
import pytest

from opx.domain.graph import Alias
from opx.domain.scopes import Scope
from opx.errors import AliasLoopError, AliasTakenError
from opx.graph.aliases import AliasRegistry
from opx.ports.tables import ALIASES
from opx_aws.table import DynamoTable
from opx_testing.fake_time import FakeTime
from tests.doubles.hooked_table import OneCallAtATime
from tests.support.dynamo_tables import create_table
from tests.support.fakes import at_once

ACME, SHOP = Scope("acme"), Scope("acme", project_id="shop")
READER = ["global", ACME.key, SHOP.key]


class CountedCalls:
    """A client that counts its calls by name."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = Lock()
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            self.calls[name] += 1
        return getattr(self._client, name)


@pytest.fixture
def client(aws: boto3.Session) -> CountedCalls:
    client: Any = OneCallAtATime(aws.client("dynamodb"))
    create_table(client, ALIASES)
    return CountedCalls(client)


@pytest.fixture
def registry(client: CountedCalls, time: FakeTime) -> AliasRegistry:
    return AliasRegistry(DynamoTable(ALIASES, client, clock=time.clock, sleep=time.sleep), clock=time.clock)  # type: ignore[arg-type]


def test_workers_that_register_the_same_alias_are_all_counted(registry: AliasRegistry) -> None:
    at_once(4, lambda _: registry.register(ACME, "a:1", "a:2"))
    (alias,) = registry.aliases(READER)
    assert (alias.canonical, alias.seen_count) == ("a:2", 4)


def test_of_workers_with_different_meanings_one_wins(registry: AliasRegistry) -> None:
    results = at_once(3, lambda number: registry.register(ACME, "a:1", f"b:{number}"))
    (won,) = [one for one in results if isinstance(one, Alias)]
    assert sum(isinstance(one, AliasTakenError) for one in results) == 2
    assert registry.aliases(READER) == [won]


def test_halves_of_a_loop_at_once_leave_none(registry: AliasRegistry) -> None:
    pairs = [("a:1", "a:2"), ("a:2", "a:1")]
    results = at_once(2, lambda number: registry.register(ACME, *pairs[number]))
    assert any(isinstance(one, AliasLoopError) for one in results)
    assert len(registry.aliases(READER)) <= 1


def test_aliases_of_documents_come_and_go(registry: AliasRegistry) -> None:
    at_once(3, lambda number: registry.state(f"k{number}", SHOP, [("a:1", "b:1"), (f"a:{number + 2}", "b:1")]))
    assert registry.aliases_of(READER, "b:1") == ("a:1", "a:2", "a:3", "a:4")
    at_once(3, lambda number: registry.state(f"k{number}", SHOP, []))
    assert registry.aliases(READER) == []


def test_readers_cost_a_query_a_scope_now_and_then_and_writers_one_call(
    registry: AliasRegistry, client: CountedCalls
) -> None:
    keys = [f"a:{number}" for number in range(90)]
    for _ in range(3):
        registry.view(READER).canonical(keys)
        registry.aliases_of(READER, "a:1")
    registry.canonical(SHOP, keys)
    registry.state("k1", SHOP, [])
    assert client.calls == {"query": 3, "batch_get_item": 1, "get_item": 1}

"""Runs cases: a world, one of its readers, and that reader's operations."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import boto3

from opx.domain.scopes import Identity
from tests.isolation.checking import Leak, Seen, leaks, seen
from tests.isolation.observing import Operation, known_of
from tests.isolation.operations import operations
from tests.isolation.systems import holding
from tests.isolation.worlds import World


@dataclass(frozen=True, slots=True)
class Case:
    """An operation of one reader, with the leaks found in its reply."""

    operation: Operation
    leaks: tuple[Leak, ...]


Account = Callable[[], AbstractContextManager[boto3.Session]]
"""Returns an empty AWS account; unused by embedded systems."""


def cases(
    world: World, identities: Sequence[Identity], each: int, *, backend: str, home: Path, account: Account
) -> Iterator[Case]:
    """`each` operations per reader, on a system with everything and on one with only what this reader may see."""
    results: dict[int, list[tuple[Operation, Seen]]] = {}
    with account() as session, holding(world, backend, home / "full", session) as full:
        known = known_of(full, world)
        for number, identity in enumerate(identities):
            requests = islice(operations(world, known, random.Random(f"{world.seed} {number}")), each)
            results[number] = [(operation, seen(full, identity, operation)) for operation in requests]
    for number, identity in enumerate(identities):
        secrets = world.secrets_from(identity)
        its = world.as_known_to(identity)
        with account() as session, holding(its, backend, home / f"known-{number}", session) as alone:
            for operation, shown in results.pop(number):
                expected = seen(alone, identity, operation)
                found = leaks(shown, expected, identity, operation, secrets, exact=backend == "embedded")
                yield Case(operation, tuple(found))

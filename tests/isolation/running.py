"""Runs cases: a world, a reader of it, and what that reader asks."""

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
    """What was asked of a world by one of its readers, and how others showed in it."""

    operation: Operation
    leaks: tuple[Leak, ...]


Account = Callable[[], AbstractContextManager[boto3.Session]]
"""Gives an account with nothing in it. On one machine it is not asked for anything."""


def cases(
    world: World, identities: Sequence[Identity], each: int, *, backend: str, home: Path, account: Account
) -> Iterator[Case]:
    """So many operations of each of these readers, on a system with everything and on one with what this reader sees."""
    told: dict[int, list[tuple[Operation, Seen]]] = {}
    with account() as session, holding(world, backend, home / "full", session) as full:
        known = known_of(full, world)
        for number, identity in enumerate(identities):
            asked = islice(operations(world, known, random.Random(f"{world.seed} {number}")), each)
            told[number] = [(operation, seen(full, identity, operation)) for operation in asked]
    for number, identity in enumerate(identities):
        secrets = world.secrets_from(identity)
        its = world.as_known_to(identity)
        with account() as session, holding(its, backend, home / f"known-{number}", session) as alone:
            for operation, shown in told.pop(number):
                expected = seen(alone, identity, operation)
                found = leaks(shown, expected, identity, operation, secrets, exact=backend == "embedded")
                yield Case(operation, tuple(found))

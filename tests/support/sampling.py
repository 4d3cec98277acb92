"""Takes a part of many cases of one kind, where `OPX_TEST_SAMPLE` asks for it: `make test` and `.ci/run` do, for their time.

Without it all are tried, as by `make test-all`. Which part it is depends on `OPX_TEST_SEED`.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from tests.support.scheduling import SLOW

Case = TypeVar("Case")

EVERY = int(os.environ.get("OPX_TEST_SAMPLE") or 1)
"""One of so many cases is tried."""

SEED = int(os.environ.get("OPX_TEST_SEED") or 1)


def sampled(cases: Sequence[Case], part: int) -> Sequence[Case]:
    """The part with this number and that of the seed: together, `EVERY` parts that follow each other are all cases."""
    return cases[(part + SEED) % min(EVERY, len(cases) or 1) :: EVERY]


MANY = 4
"""Cases of one test from which on they are taken to be alike."""

_ALIKE_IN = ("tests/unit/", "tests/contract/", "layers/")
_WHOLE = ("tests/isolation/", "tests/unit/test_architecture.py", "tests/unit/domain/test_policy.py")
"""Isolation is tried whole, as are rules about each module and each role."""


def without_most_of_the_many(nodeids: Iterable[str]) -> set[str]:
    """The tests to leave out: all but one of `EVERY` of the cases of a test that has `MANY` or more, and of all tests of
    slow modules together; the same ones in every run with one seed."""
    if EVERY == 1:
        return set()
    alike = defaultdict[str, list[str]](list)
    for nodeid in nodeids:
        name, bracket, _ = nodeid.partition("[")
        module = name.partition("::")[0]
        if nodeid.startswith(_WHOLE):
            continue
        if module in SLOW:
            alike[""].append(nodeid)
        elif bracket and name.startswith(_ALIKE_IN):
            alike[name].append(nodeid)
    many = {name: sorted(cases) for name, cases in alike.items() if len(cases) >= MANY or not name}
    return {
        nodeid for name, cases in many.items() for nodeid in set(cases) - set(sampled(cases, zlib.crc32(name.encode())))
    }

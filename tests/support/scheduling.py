"""Distributes tests to processes: shared fixtures are built once and not once per process, and no process is left alone with
a long module at the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TESTS = Path(__file__).parents[1]

TOGETHER = ("tests/infra/",)
"""Folders whose modules share fixtures: synthesised stacks."""

SLOW = {
    module: int(seconds)
    for seconds, module in map(str.split, (TESTS / "slow_modules.txt").read_text(encoding="utf-8").splitlines())
}
"""Seconds that modules take which take `SLOW_SECONDS` or more, and a tenth of a second or more for each of their tests."""

SLOW_SECONDS, SLOW_TEST_SECONDS, QUICK_TEST_SECONDS = 2, 0.1, 0.02


def scope_of(nodeid: str) -> str:
    """The module, or the folder of modules, that one process has."""
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


def turns(nodeids: Iterable[str]) -> Callable[[str], tuple[float, str]]:
    """A key that puts the tests of what takes longest first."""
    seconds = defaultdict[str, float](float)
    for module, count in Counter(nodeid.partition("::")[0] for nodeid in nodeids).items():
        seconds[scope_of(module)] += SLOW.get(module, count * QUICK_TEST_SECONDS)

    def turn(nodeid: str) -> tuple[float, str]:
        scope = scope_of(nodeid)
        return -seconds[scope], scope

    return turn


def slow_modules(durations: Iterable[tuple[str, float]]) -> str:
    """The file of slow modules, by the seconds that each test took: those of its module, the slowest first."""
    taken = defaultdict[str, list[float]](list)
    for nodeid, seconds in durations:
        taken[nodeid.partition("::")[0]].append(seconds)
    sums = {module: (sum(each), len(each)) for module, each in taken.items()}
    slow = [
        (total, module)
        for module, (total, count) in sums.items()
        if total >= max(SLOW_SECONDS, SLOW_TEST_SECONDS * count)
    ]
    return "".join(f"{round(seconds)} {module}\n" for seconds, module in sorted(slow, reverse=True))


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Gives the tests of a module, or of one of these folders, to one process, in the order of `turns`.

    xdist's own groups don't do it: they write to a test's name what pytest 9.2 reads from elsewhere.
    """

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

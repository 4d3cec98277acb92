"""Work that several threads begin together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from opx.errors import InvalidInputError


def at_once(count: int, work: Any) -> list[Any]:
    """Results and errors of `work(number)`, run in `count` threads that begin together."""
    barrier = Barrier(count)

    def run(number: int) -> Any:
        barrier.wait()
        try:
            return work(number)
        except InvalidInputError as exc:
            return exc

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))

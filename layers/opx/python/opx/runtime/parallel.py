"""Several calls at a time, where a call means waiting for a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Each:
    """Does something with each item, with so many threads, and gives the results in the items' order."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        threads = min(self._threads, len(items))
        if threads < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, items))

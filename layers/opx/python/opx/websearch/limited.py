"""A search that takes no longer than it may."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from opx.errors import SourceUnavailableError
from opx.models.deadlines import within
from opx.ports.web_search import WebResult, WebSearch

Opened = Callable[[], AbstractContextManager[WebSearch]]


class LimitedWebSearch:
    """Asks an engine that is opened for each question, and stops waiting after `seconds`."""

    def __init__(self, name: str, opened: Opened, *, seconds: float) -> None:
        self._name = name
        self._opened = opened
        self._seconds = seconds

    @property
    def name(self) -> str:
        return self._name

    def search(self, query: str, limit: int) -> list[WebResult]:
        engine = self._opened()  # here: what it reads of the system is not for another thread

        def work() -> list[WebResult]:
            with engine as opened:
                return opened.search(query, limit)

        return within(self._seconds, work, self._name, late=SourceUnavailableError)

"""A search that takes no longer than it may."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import AbstractContextManager

from opx.errors import SourceUnavailableError
from opx.ports.web_search import WebResult, WebSearch

Opened = Callable[[], AbstractContextManager[WebSearch]]


class LimitedWebSearch:
    """Asks an engine that is opened for each question, and stops waiting after `seconds`.

    Time limits of connections are not enough: finding a host's address has none, and goes on in its thread.
    """

    def __init__(self, name: str, opened: Opened, *, seconds: float) -> None:
        self._name = name
        self._opened = opened
        self._seconds = seconds

    @property
    def name(self) -> str:
        return self._name

    def search(self, query: str, limit: int) -> list[WebResult]:
        engine = self._opened()  # here: what it reads of the system is not for another thread
        answer: Future[list[WebResult]] = Future()

        def run() -> None:
            try:
                with engine as opened:
                    found = opened.search(query, limit)
            except BaseException as exc:  # noqa: BLE001 - raised again in the thread that waits
                answer.set_exception(exc)
            else:
                answer.set_result(found)

        threading.Thread(target=run, name="web search", daemon=True).start()
        try:
            return answer.result(timeout=self._seconds)
        except NotInTime as exc:
            raise SourceUnavailableError(f"{self._name} did not answer within {self._seconds:g} s") from exc

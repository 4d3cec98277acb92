"""Calls that take no longer than they may."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import TypeVar

from opx.errors import ModelError, OpxError

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T], name: str, late: type[OpxError] = ModelError) -> T:
    """What the work returns or raises. The error `late` if it takes longer; then it goes on in a thread of its own.

    Time limits of connections are not enough: finding a host's address has none, and one of reading begins anew with
    every byte.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as exc:  # noqa: BLE001 - raised again in the thread that waits
            answer.set_exception(exc)

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        return answer.result(timeout=max(0.0, seconds))
    except NotInTime as exc:
        if answer.done():  # just now, or the error is the work's own
            return answer.result()
        raise late(f"{name} did not answer within {seconds:g} s") from exc

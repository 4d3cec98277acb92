"""Calls that take no longer than they may."""

from __future__ import annotations

import threading

import pytest

from opx.errors import ModelError
from opx.runtime.threads import within


def test_result_of_the_work_is_returned() -> None:
    assert within(9.0, lambda: 7, "model") == 7


def test_error_of_the_work_is_raised_unchanged() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        within(9.0, fail, "model")


def test_a_time_limit_of_the_work_itself_is_not_taken_for_this_one() -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        within(9.0, fail, "model")


@pytest.mark.parametrize("seconds", [0.02, 0.0, -1.0])
def test_work_that_takes_longer_is_left_behind(seconds: float) -> None:
    over = threading.Event()
    with pytest.raises(ModelError, match="model did not answer within"):
        within(seconds, over.wait, "model")
    over.set()

"""Tests of the room for frames: no call maps memory anew each time, however deep it is."""

from __future__ import annotations

import sys

import pytest

from opx.runtime.frames import with_room

resource = pytest.importorskip("resource")

CALLS = 200
DEPTH = 300


def test_it_passes_arguments_result_and_errors() -> None:
    assert with_room(divmod)(7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        with_room(divmod)(7, 0)


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="other interpreters keep frames elsewhere")
def test_no_depth_of_calls_maps_a_page_with_each_call() -> None:
    assert most_faults() >= CALLS, "this interpreter needs no room"
    assert with_room(most_faults)() < CALLS


def most_faults() -> int:
    """Page faults of `CALLS` calls at the depth where they are most."""
    return max(faults_at(depth) for depth in range(DEPTH))


def faults_at(depth: int) -> int:
    if depth:
        return faults_at(depth - 1)
    before = page_faults()
    for _ in range(CALLS):
        leaf()
    return page_faults() - before


def leaf() -> int:
    """Has a larger frame than `faults_at`, so that at some depth it doesn't fit."""
    one = 1
    return max(one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one)


def page_faults() -> int:
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)

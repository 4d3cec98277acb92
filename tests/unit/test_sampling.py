"""Samples of cases, which `.ci/run` takes."""

from __future__ import annotations

import pytest

from tests.support import sampling
from tests.support.sampling import sampled


@pytest.mark.parametrize("first", [0, 1, 5])
def test_parts_that_follow_each_other_are_all_cases(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    monkeypatch.setattr(sampling, "EVERY", 3)
    parts = [sampled(range(10), part) for part in range(first, first + 3)]
    assert sorted(case for part in parts for case in part) == list(range(10))
    assert max(map(len, parts)) == 4


def test_all_cases_are_one_part_where_no_sample_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "EVERY", 1)
    assert list(sampled(range(10), 7)) == list(range(10))

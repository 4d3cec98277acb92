"""One vector for texts that have several."""

from __future__ import annotations

import math

import pytest

from opx.ports import mean_vector
from opx_testing.entries import a_unit_vector, any_vector


def test_the_only_vector_is_itself() -> None:
    vector = any_vector("a")
    assert mean_vector([vector]) is vector


def test_the_mean_of_several_lies_between_them_at_length_one() -> None:
    found = mean_vector([a_unit_vector(1, 0), a_unit_vector(0, 1), a_unit_vector(0, 1)])
    assert list(found[:3]) == pytest.approx([1 / math.sqrt(5), 2 / math.sqrt(5), 0])
    assert math.hypot(*found) == pytest.approx(1)


def test_opposite_vectors_have_the_first() -> None:
    first = any_vector("a")
    assert mean_vector([first, [-value for value in first]]) is first

"""Leases, also those that were taken before the clock went back."""

from __future__ import annotations

import pytest

from opx.runtime.leases import CLOCKS_DIFFER, is_leased

NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("until", "seconds", "leased"),
    [
        (NOW + 10, 900, True),
        (NOW, 900, False),
        (NOW - 1, 900, False),
        (NOW + 900 + CLOCKS_DIFFER, 900, True),
        (NOW + 900 + CLOCKS_DIFFER + 1, 900, False),
        (NOW + 3600, 0, False),
        (NOW + 1, 0, False),
    ],
)
def test_lease_lasts_until_its_time_unless_it_is_longer_than_any(until: float, seconds: float, *, leased: bool) -> None:
    assert is_leased(until, NOW, seconds) is leased

"""Number of random cases of tests that try to break a boundary: few in `make test`, many where the environment says so."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

VARIABLE = "OPX_ATTACK_CASES"


def attack_cases(usual: int, *, share: float = 1.0) -> settings:
    """Settings for this many examples, or a share of `OPX_ATTACK_CASES` where that is more."""
    wanted = int(int(os.environ.get(VARIABLE, "0")) * share)
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=max(usual, wanted), deadline=None, database=None, suppress_health_check=slow)

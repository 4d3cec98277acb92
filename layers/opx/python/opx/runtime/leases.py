"""Judges leases that other workers took: by their own clocks, or before the clock went back."""

from __future__ import annotations

CLOCKS_DIFFER = 300.0
"""Seconds by which the clocks of two workers may differ."""


def is_leased(until: float, now: float, seconds: float) -> bool:
    """True while a lease until this time lasts, if leases last so many seconds; of 0 seconds none does.

    One that is longer than any lease was taken before the clock went back: its worker would be waited for until the clock
    has come back.
    """
    left = until - now
    return 0 < left <= (seconds + CLOCKS_DIFFER if seconds else 0)

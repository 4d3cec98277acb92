"""Sets how often Python looks for garbage in cycles."""

from __future__ import annotations

import gc

COLLECT_AFTER = 100_000
"""Objects more than there were after which Python looks for garbage in cycles. A search makes many objects and little
garbage: the usual 700 cost a tenth of it."""


def collect_seldom() -> None:
    """For a process of our own, not for a program that uses the library."""
    gc.set_threshold(COLLECT_AFTER)


def keep_what_is_there() -> None:
    """Leaves everything that exists by now out of later looks."""
    gc.collect()
    gc.freeze()

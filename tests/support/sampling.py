"""Takes a part of many cases of one kind, where `OPX_TEST_SAMPLE` asks for it: `.ci/run` does, for its time.

Without it all are tried, as by `make test` and by the nightly workflow.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

EVERY = int(os.environ.get("OPX_TEST_SAMPLE") or 1)
"""One of so many cases is tried."""


def sampled(cases: Sequence[Case], part: int) -> Sequence[Case]:
    """The part with this number: together, `EVERY` parts that follow each other are all cases."""
    return cases[part % EVERY :: EVERY]

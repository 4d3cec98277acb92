"""Gaps: questions without a good answer, as the log keeps them."""

from __future__ import annotations

from typing import Any

from opx.domain.record import replace
from opx.domain.results import Absent
from opx.records.gaps.log import absent_gap_id, gap_id
from opx.records.gaps.model import Gap, wording_of

SCOPE = "client:acme"
ESPRESSO = "how do we brew espresso"
MISSING = Absent("QueueHighCritical", "alert", "QueueHighWarning", "d1")


def a_gap(question: str = ESPRESSO, scope: str = SCOPE, at: str = "2026-01-01T00:00:00Z", **more: Any) -> Gap:
    wording = wording_of(question, more.pop("vector", None), "m")
    named = more.get("named", ())
    return Gap(scope, gap_id(scope, wording, named), (wording,), at, at, **more)


def a_gap_of(absent: Absent, question: str = ESPRESSO, **more: Any) -> Gap:
    return replace(a_gap(question, **more), gap_id=absent_gap_id(SCOPE, absent.name), absent=absent)

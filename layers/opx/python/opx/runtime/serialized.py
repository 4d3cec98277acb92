"""Measurements from several threads."""

from __future__ import annotations

import threading

from opx.runtime.metrics import Metric, Report


def in_turns(report: Report) -> Report:
    """The same report, told one thing after the other."""
    lock = threading.Lock()

    def tell(metric: Metric, value: float = 1.0, /, **labels: str) -> None:
        with lock:
            report(metric, value, **labels)

    return tell

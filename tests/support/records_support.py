"""A system whose records of queries are cleared for each test, and gaps as their log keeps them."""

from __future__ import annotations

import threading
from typing import Any

from opx.domain.record import replace
from opx.domain.results import Absent
from opx.errors import StoreUnavailableError
from opx.operations.system import System
from opx.ports import Table
from opx.ports.tables import AUDIT, GAPS
from opx.records.gaps.log import absent_gap_id, gap_id
from opx.records.gaps.model import Gap, wording_of
from tests.support.builders import ports_of


class BrokenTable:
    """A table that is unavailable."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: object, **__: object) -> None:
            raise StoreUnavailableError(f"can't {name}")

        return refuse


class HeldTable:
    """A table whose calls wait until it is `free`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.free = threading.Event()

    def __getattr__(self, name: str) -> Any:
        assert self.free.wait(20)
        return getattr(self._table, name)


def without_records(services: System) -> System:
    """The same embedded system, without records of queries."""
    for spec in (AUDIT, GAPS):
        services.tables.table(spec)
        ports_of(services)._home.questions.connection().execute(f'DELETE FROM "{spec.name}"')
    for name in ("key", "audit", "gaps", "owners", "_recorder"):
        services.records.__dict__.pop(name, None)
    return services


SCOPE = "client:acme"
ESPRESSO = "how do we brew espresso"
MISSING = Absent("QueueHighCritical", "alert", "QueueHighWarning", "d1")


def a_gap(question: str = ESPRESSO, scope: str = SCOPE, at: str = "2026-01-01T00:00:00Z", **more: Any) -> Gap:
    wording = wording_of(question, more.pop("vector", None), "m")
    named = more.get("named", ())
    return Gap(scope, gap_id(scope, wording, named), (wording,), at, at, **more)


def a_gap_of(absent: Absent, question: str = ESPRESSO, **more: Any) -> Gap:
    return replace(a_gap(question, **more), gap_id=absent_gap_id(SCOPE, absent.name), absent=absent)

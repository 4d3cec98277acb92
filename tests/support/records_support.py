"""A system whose records of questions are emptied for each test: taking its corpus in takes longer than most tests."""

from __future__ import annotations

from typing import Any

from opx.errors import StoreUnavailableError
from opx.operations.system import System
from opx.ports.tables import AUDIT, GAPS
from tests.support.builders import ports_of


class BrokenTable:
    """A table that can't be reached."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: object, **__: object) -> None:
            raise StoreUnavailableError(f"can't {name}")

        return refuse


def without_records(services: System) -> System:
    """The same embedded system, of which nothing was ever asked."""
    for spec in (AUDIT, GAPS):
        services.tables.table(spec)
        ports_of(services)._home.questions.connection().execute(f'DELETE FROM "{spec.name}"')
    for name in ("key", "audit", "gaps", "owners", "_recorder"):
        services.records.__dict__.pop(name, None)
    return services

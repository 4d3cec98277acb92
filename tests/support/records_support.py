"""A system whose records of queries are cleared for each test, as ingesting its corpus takes longer than most tests."""

from __future__ import annotations

from typing import Any

from opx.errors import StoreUnavailableError
from opx.operations.system import System
from opx.ports.tables import AUDIT, GAPS
from tests.support.builders import ports_of


class BrokenTable:
    """A table that is unavailable."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: object, **__: object) -> None:
            raise StoreUnavailableError(f"can't {name}")

        return refuse


def without_records(services: System) -> System:
    """The same embedded system, without records of queries."""
    for spec in (AUDIT, GAPS):
        services.tables.table(spec)
        ports_of(services)._home.questions.connection().execute(f'DELETE FROM "{spec.name}"')
    for name in ("key", "audit", "gaps", "owners", "_recorder"):
        services.records.__dict__.pop(name, None)
    return services

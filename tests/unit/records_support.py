"""A system whose records of questions are emptied for each test: taking its corpus in takes longer than most tests."""

from __future__ import annotations

from typing import Any

from opx.errors import StoreUnavailableError
from opx.services import Services
from opx.tables import AUDIT, GAPS


class BrokenTable:
    """A table that can't be reached."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: object, **__: object) -> None:
            raise StoreUnavailableError(f"can't {name}")

        return refuse


def without_records(services: Services) -> Services:
    """The same embedded system, of which nothing was ever asked."""
    for spec in (AUDIT, GAPS):
        services.table(spec)
        services._records_database.connection().execute(f'DELETE FROM "{spec.name}"')  # type: ignore[attr-defined]
    services.__dict__.pop("records", None)
    return services

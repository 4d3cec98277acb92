"""Which rows of which tables are in an archive: what can't be made anew from the corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opx.lifecycle.retention.holds import HOLDS, LIFTED
from opx.ports import Item
from opx.ports.tables_specs import (
    ALIASES,
    AUDIT,
    BASELINES,
    GAPS,
    LIFECYCLE,
    OUTCOMES,
    PATTERNS,
    PROJECTS,
    SOURCES,
    STAGING,
    TableSpec,
)

INSTALLATION = "#installation"
"""The scope of the key with which this installation hashes questions; only the audit log needs it."""


def _every(_: Item) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Archived:
    """A table, and which of its rows are kept. `private` ones are in an archive only if they are asked for."""

    spec: TableSpec
    keeps: Callable[[Item], bool] = _every
    name: str = ""
    private: bool = False

    @property
    def entry(self) -> str:
        return f"tables/{self.name or self.spec.name}.jsonl"


ARCHIVED = (
    Archived(PROJECTS),
    Archived(ALIASES),
    Archived(STAGING),
    Archived(PATTERNS),
    Archived(OUTCOMES),
    Archived(LIFECYCLE, lambda item: item["subject"] in (HOLDS, LIFTED)),
    Archived(BASELINES),
    Archived(GAPS, lambda item: item["scopeKey"] != INSTALLATION),
    Archived(SOURCES),
    Archived(AUDIT, private=True),
    Archived(GAPS, lambda item: item["scopeKey"] == INSTALLATION, name="installation-key", private=True),
)
"""Not here: vectors and other caches, graph, calendar and index, which are made anew; failed items and deliveries, which
come again; secrets. Versions and keys of documents are with the documents."""

"""Bytes of a document that reach each table: `python -m tests.benchmarks.table_bytes`.

Items of the example corpus and of a source of CVE-like pages, as JSON (DynamoDB counts names and values much the same).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from opx.domain.knowledge import Tier
from opx.domain.sources import SourceDocument
from opx.ingestion.files import FileToIngest
from opx.operations.system import System
from opx.ports import Table
from opx.ports.tables import ALL_TABLES
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.fakes import WordsEmbedder

COUNT = 500


class Advisories:
    """Pages of about 1.2 KB."""

    name = "advisories"
    tier = Tier.SPECIALIZED

    def fetch(self, since: datetime | None = None) -> Iterator[SourceDocument]:
        for number in range(COUNT):
            text = (
                f"# CVE-2026-{number:05}: example\n\n" + "A flaw in the parser lets a sender overflow a buffer. " * 22
            )
            facts = {"tags": ["CWE-787", "kev"], "severity": "HIGH", "source_uri": f"https://example.org/{number}"}
            yield SourceDocument(f"CVE-2026-{number:05}", text, {**facts, "last_updated": "2026-01-31T00:00:00Z"})

    def health_check(self) -> bool:
        return True


class Counted:
    """A table that adds up what is written to it."""

    def __init__(self, table: Table, name: str, written: dict[str, int]) -> None:
        self._table, self._name, self._written = table, name, written

    def put(self, item: Any, **options: Any) -> None:
        self._count(item)
        self._table.put(item, **options)

    def put_many(self, items: Any) -> None:
        items = list(items)
        for item in items:
            self._count(item)
        self._table.put_many(items)

    def _count(self, item: Any) -> None:
        size = len(json.dumps(item, default=lambda value: "x" * len(bytes(value))))
        self._written[self._name] = self._written.get(self._name, 0) + size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


def counting(services: System, written: dict[str, int]) -> None:
    real = services.tables.table
    services.tables.table = lambda spec: Counted(real(spec), spec.name, written)  # type: ignore[method-assign]


def measured(take: Any) -> dict[str, int]:
    written: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as home, bootstrap(Settings(home=home), embedder=WordsEmbedder()) as services:
        counting(services, written)
        count = take(services)
        list(services.manager.work())
        return {spec.name: written.get(spec.name, 0) // count for spec in ALL_TABLES}


def corpus(services: System) -> int:
    files = sorted(Path("corpus/documents").rglob("*.md"))
    for file in files:
        services.manager.put_file(FileToIngest(file, file.as_posix()), {})
    return len(files)


def source(services: System) -> int:
    services.manager.register_source(Advisories(), "", "specialized", "security/cve")
    services.connectors.puller().pull("advisories")
    return COUNT


def main() -> None:
    columns = {"example corpus": measured(corpus), "pages of a source": measured(source)}
    print(f"{'written, bytes a document':34}" + "".join(f"{name:>20}" for name in columns))
    for spec in ALL_TABLES:
        print(f"{spec.name:34}" + "".join(f"{found[spec.name]:>20,}" for found in columns.values()))


if __name__ == "__main__":
    main()

"""A small home with everything that a store keeps, copied for each kind of damage, and the ways to damage a file."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from opx.domain.documents import DocumentKey
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity, scope_of_object
from opx.errors import OpxError
from opx.graph.alias_rows import AliasRow
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.ports.tables import ALIASES
from opx_assurance.capability import assurance
from opx_assurance.consistency.differences import ReconcileReport
from opx_assurance.consistency.repair import RepairReport
from opx_assurance.operations import RepairStores, repair_stores
from tests.support.reindex_support import services_at

FOLDER = "documents/runbooks/procedures/"
CHANGED = f"{FOLDER}changed.md"
WITH_SIDECAR = f"{FOLDER}sidecar.md"
OTHERS = tuple(f"{FOLDER}other{number}.md" for number in range(8))
OF_CLIENT = f"clients/acme/{FOLDER}client.md"
PAGE = 4096


def text_of(name: str, words: str = "") -> str:
    steps = "\n".join(f"{number}. Run `check {name} --step {number}` and wait. {words}" for number in range(1, 30))
    return f"# Procedure {name}\n\nUse it when {name} fails.\n\n## Steps\n\n{steps}\n"


def build(home: Path) -> None:
    """Fills a home: documents of two owners, one with a sidecar, one with three versions, an alias and an answer."""
    with services_at(home) as services:
        described = {"opx-document": json.dumps({"source_uri": "wiki/page", "category": "runbooks/procedures"})}
        for key in (*OTHERS, WITH_SIDECAR, OF_CLIENT):
            services.store.put(key, text_of(Path(key).stem).encode(), metadata=described)
        sidecar = {"metadataAttributes": {"owner": "platform"}}
        services.store.put(f"{WITH_SIDECAR}.metadata.json", json.dumps(sidecar).encode())
        for words in ("first", "second", "third"):
            services.store.put(CHANGED, text_of("changed", words).encode(), metadata=described)
            work(services)
        alias = AliasRow("global", "host:db").with_set("host:db1", "ada", "2026-01-01T00:00:00Z")
        services.tables.table(ALIASES).put(alias.to_item())
        services.questions.for_reader().search("procedure other1 fails")
    for name in ("opx.db", "questions.db"):
        settle(home / name)


def work(services: System) -> None:
    assert services.ingestion.drain is not None
    list(services.ingestion.drain.run())


def settle(path: Path) -> None:
    """Moves all of a database into its main file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def copied(base: Path, home: Path) -> Path:
    """A copy with records of its own files: in a copied home, objects are known by their content alone."""
    shutil.copytree(base, home)
    for record in (home / "corpus" / ".meta").rglob("*"):
        if record.is_file():
            found = json.loads(record.read_bytes())
            stat = (home / "corpus" / record.relative_to(home / "corpus" / ".meta")).stat()
            found[0]["identity"] = [stat.st_ino, stat.st_mtime_ns, stat.st_size]
            record.write_text(json.dumps(found[:1]))
    return home


# -- what is done with a home


def reconciled(home: Path, **options: bool) -> ReconcileReport:
    with services_at(home) as services:
        return services.part(assurance).reconciler(thorough=True).run(**options)


def repaired(home: Path, *, dry_run: bool = False) -> RepairReport:
    with services_at(home) as services:
        context = Context(services, Caller(Identity(), owns_system=True))
        return repair_stores(context, RepairStores(dry_run=dry_run))


def is_found(home: Path) -> bool:
    """True if a thorough comparison reports damage, or ends with an error of ours: anything else escapes."""
    try:
        return bool(reconciled(home).total)
    except OpxError:
        return True


def missing_answers(home: Path) -> list[str]:
    """The procedures that a search doesn't find with their commands."""
    with services_at(home) as services:
        return [key for key in (*OTHERS, WITH_SIDECAR, CHANGED) if not _is_answered(services, Path(key).stem)]


def _is_answered(services: System, name: str) -> bool:
    config = QueryConfig(min_confidence=0.0, max_results=20)
    found = services.questions.for_reader().search(f"Procedure {name} fails", config).results
    return any(f"`check {name} --step 1`" in result.content for result in found)


# -- damage to a file


def _kept_time(change: Callable[[Path], None]) -> Callable[[Path], None]:
    """The damage without a new time: nobody wrote the file."""

    def damage(path: Path) -> None:
        stat = path.stat()
        change(path)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    return damage


def truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


@_kept_time
def alter(path: Path) -> None:
    """Changes a byte in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x15
    path.write_bytes(data)


@_kept_time
def blank_beginning(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(bytes(min(PAGE, len(data))) + data[PAGE:])


@_kept_time
def blank_end(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: max(0, len(data) - PAGE)] + bytes(min(PAGE, len(data))))


def replace_by_noise(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * (path.stat().st_size // 256 + 1))


def add_noise(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\xff\x00{]")


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def withdraw_rights(path: Path) -> None:
    path.chmod(0)


DAMAGES = (truncate, empty, remove, alter, blank_beginning, blank_end, replace_by_noise, add_noise, make_folder)


# -- files of a home


def version_file(home: Path, ending: str, *, current: bool) -> Path:
    with services_at(home) as services:
        version = {one.version: one for one in services.corpus.catalog.versions(_key(CHANGED))}[3 if current else 1]
    return home / "corpus" / "chunks" / f"{version.document_id}{ending}"


def _key(object_key: str) -> DocumentKey:

    return DocumentKey(*scope_of_object(object_key))


def term_file(ending: str) -> Callable[[Path], Path]:
    return lambda home: max((home / "index" / "terms").glob(f"*.{ending}"), key=lambda path: path.stat().st_size)


def in_home(name: str) -> Callable[[Path], Path]:
    return lambda home: home / name


def objects(home: Path) -> Iterator[Path]:
    yield from (home / "corpus").rglob("*.md")

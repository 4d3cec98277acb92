"""Checks the databases and indexes of a home folder as files, and sets damaged ones aside.

Nothing is deleted: a damaged file is moved to a folder `damaged-<time>`. A file `repair.json` names that folder until all
moves are done, so that an interrupted repair goes on with the same one.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.adapters.embedded.database import failure_of, is_undecodable
from opx.adapters.embedded.durable_files import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    held,
    make_folders,
    move_into_place,
    sync_file,
    sync_folder,
    temporary_file,
    translated_os_errors,
)
from opx.adapters.embedded.home_format import MAIN, NAME, check_mark
from opx.adapters.embedded.table import ITEM, key_names, quoted
from opx.domain.ids import iso_time
from opx.errors import DamagedStoreError, OpxError, StoreUnavailableError, UnwritableStoreError
from opx.ports import Clock
from opx.ports.files import FileDamage, Loss, MendedFiles, StoreFile
from opx.ports.tables import AUDIT, GAPS, TableSpec, from_row

if TYPE_CHECKING:
    from opx.adapters.embedded.salvage import Salvaged
    from opx.adapters.embedded.segments import IndexDatabase, SegmentRow

QUESTIONS, INDEX, SECRETS = "questions.db", "index.db", "secrets.json"
SET_ASIDE = "damaged-"
"""Beginning of the names of folders with damaged files."""

_BESIDE = ("-wal", "-shm")
_JOURNAL = "repair.json"
_PART = ".repaired"
_MOST_PROBLEMS = 5
_LOCK_SECONDS = 30.0
_SMALL_DATABASE = 32 * 1024 * 1024
"""Bytes of a database all pages of which are checked at a glance: 5 ms each MB."""

_SMALL_FILE = 2 * 1024 * 1024
"""Bytes of a file of an index that is read at a glance."""

_FEW_ENTRIES = 2_000
"""Entries of an index that are compared with their checksums at a glance."""


class HomeFiles:
    """`StoreFiles` of a home folder. `queue` is the name of the queue of events."""

    def __init__(self, home: Path, *, queue: str, clock: Clock) -> None:
        self._home = home
        self._queue = queue
        self._clock = clock

    # -- checking

    def damaged(self) -> Iterator[FileDamage]:
        if paths := list(unreadable(self._home)):  # then the others can't be checked
            for path in paths:
                name = path.relative_to(self._home).as_posix()
                yield FileDamage(name, StoreFile.UNREADABLE, "its owner may not read it")
            return
        yield from self._stores(quick=False)
        for path in irregular(self._home / "corpus"):
            name = path.relative_to(self._home).as_posix()
            yield FileDamage(name, StoreFile.IRREGULAR, "it is no regular file")

    def glance(self) -> Iterator[FileDamage]:
        yield from self._stores(quick=True)
        try:
            json.loads((self._home / SECRETS).read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError):
            yield FileDamage(SECRETS, StoreFile.UNREADABLE, "it can't be read as JSON")

    def _stores(self, *, quick: bool) -> Iterator[FileDamage]:
        try:
            check_mark(self._home)
        except DamagedStoreError:
            yield FileDamage(NAME, StoreFile.IRREGULAR, "it doesn't state the format of this home")
        for name in (MAIN, QUESTIONS):
            yield from self._database(name, quick=quick)
        for folder in self._index_folders():
            yield from IndexFiles(self._home, folder).damaged(quick=quick)

    def _index_folders(self) -> list[Path]:
        folders = (self._home / "index", *sorted(self._home.glob("index-*")))
        return [folder for folder in folders if folder.exists()]

    def _database(self, name: str, *, quick: bool) -> Iterator[FileDamage]:
        path = self._home / name
        if not path.exists() or (path.is_file() and not path.stat().st_size):
            if name == MAIN and self._has_objects():
                state = "is empty" if path.exists() else "is missing"
                yield FileDamage(name, StoreFile.DATABASE, f"it {state}, although there are documents")
            return
        for problem in database_problems(path, () if quick else _specs(name), quick=quick):
            yield FileDamage(name, StoreFile.DATABASE, problem)

    def _has_objects(self) -> bool:
        corpus = self._home / "corpus"
        return corpus.is_dir() and any(not path.name.startswith(".") for path in corpus.iterdir())

    # -- mending

    def mend(self, progress: Callable[[str], None]) -> MendedFiles:
        mended = MendedFiles()
        with self._alone():
            self._complete(mended)
            self._give_rights()
            progress("reading databases and indexes")
            found = list(self.damaged())
            databases = {one.file for one in found if one.kind is StoreFile.DATABASE}
            folders = {one.file.partition("/")[0] for one in found if one.kind is StoreFile.INDEX}
            others = {one.file for one in found if one.kind is StoreFile.IRREGULAR}
            folders |= {name for name in others if name.partition("/")[0] not in folders}
            if databases or folders:
                self._set_aside(sorted(databases), sorted(folders), mended, progress)
        return mended

    def _give_rights(self) -> None:
        """Gives the owner the rights to read and write, folder by folder: what is in an unreadable one is seen afterwards."""
        with translated_os_errors(f"change rights in {self._home}"):
            while paths := list(unreadable(self._home)):
                for path in paths:
                    path.chmod(PRIVATE_FOLDER if path.is_dir() else PRIVATE_FILE)

    def _set_aside(
        self, databases: Sequence[str], folders: Sequence[str], mended: MendedFiles, progress: Callable[[str], None]
    ) -> None:
        for name in databases:
            progress(f"reading what is left of {name}")
            salvaged = self._salvaged(name)
            mended.rows |= salvaged.rows
            mended.lost += salvaged.lost
        folder = SET_ASIDE + iso_time(self._clock()).replace(":", "").replace("-", "")
        lost = [[loss.table, loss.text] for loss in mended.lost]
        self._begin({"folder": folder, "databases": databases, "folders": folders, "rows": mended.rows, "lost": lost})
        self._complete(mended)

    def _salvaged(self, name: str) -> Salvaged:
        """Makes a database of the readable rows beside the damaged one."""
        from opx.adapters.embedded.salvage import Salvaged, salvage

        part = self._home / (name + _PART)
        for ending in ("", *_BESIDE):
            Path(f"{part}{ending}").unlink(missing_ok=True)  # of a repair that was interrupted
        path = self._home / name
        if not path.is_file() or not path.stat().st_size:
            return Salvaged(lost=[Loss("", f"all rows of {name}")])
        return salvage(path, part, _specs(name), self._queue if name == MAIN else "")

    def _begin(self, moves: dict[str, object]) -> None:
        with translated_os_errors("record a repair"), temporary_file(self._home) as file:
            file.write(json.dumps(moves).encode())
            sync_file(file)
            move_into_place(Path(file.name), self._home / _JOURNAL)

    def _complete(self, mended: MendedFiles) -> None:
        """Makes the moves of the journal that are not done yet, each of which can be repeated. The journal itself is moved
        last, as the record of what could not be read."""
        moves = self._journal()
        if not moves:
            return
        target = self._home / str(moves["folder"])
        with translated_os_errors(f"move damaged files to {target}"):
            make_folders(target)
            for name in moves["folders"]:
                self._move(name, target)
            for name in moves["databases"]:
                for ending in (*_BESIDE, ""):
                    self._move(name + ending, target)
                if (part := self._home / (name + _PART)).exists():
                    os.replace(part, self._home / name)  # noqa: PTH105 - the call that commits; kept bare for tests
            sync_folder(self._home)
            move_into_place(self._home / _JOURNAL, target / _JOURNAL)
        mended.folder, mended.rows = moves["folder"], moves["rows"]
        mended.lost = [Loss(*loss) for loss in moves["lost"]]

    def _journal(self) -> dict[str, Any]:
        try:
            found = json.loads((self._home / _JOURNAL).read_bytes())
            return {name: found[name] for name in ("folder", "databases", "folders", "rows", "lost")}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError):  # it is written whole, so this is no journal
            return {}

    def _move(self, name: str, target: Path) -> None:
        source = self._home / name
        if os.path.lexists(source) and not os.path.lexists(target / name):
            make_folders((target / name).parent)
            os.replace(source, target / name)  # noqa: PTH105 - kept bare for tests

    def _alone(self) -> AbstractContextManager[None]:
        busy = StoreUnavailableError(f"another process works on {self._home}: end it, then run this again")
        return held(self._home / "worker.lock", busy, seconds=_LOCK_SECONDS)


def _specs(database: str) -> Sequence[TableSpec]:
    """The tables of a database, those of plugins included."""
    from opx.lifecycle.rows import all_tables

    return [spec for spec in all_tables() if (spec in (AUDIT, GAPS)) == (database == QUESTIONS)]


def unreadable(home: Path) -> Iterator[Path]:
    """Lists files and folders that their owner has no right to read. Rights of others are looked at when a home is opened."""
    for base, folders, files in os.walk(home):
        if Path(base) == home:
            folders[:] = [name for name in folders if not name.startswith(SET_ASIDE)]
        for name, needed in (*((name, 0o500) for name in folders), *((name, 0o400) for name in files)):
            mode = (path := Path(base, name)).lstat().st_mode
            if mode & needed != needed and not stat.S_ISLNK(mode):
                yield path


def irregular(corpus: Path) -> Iterator[Path]:
    """Lists entries that are neither an object nor a folder of objects: links, pipes, and folders named as files (names of
    files have dots, or end with a mark)."""
    for base, folders, files in os.walk(corpus):
        if Path(base) == corpus:
            folders[:] = [name for name in folders if name != ".tmp"]
        for name in [name for name in folders if _is_name_of_file(name)]:
            folders.remove(name)
            yield Path(base, name)
        yield from (path for name in files if not stat.S_ISREG((path := Path(base, name)).lstat().st_mode))


def _is_name_of_file(name: str) -> bool:
    return "." in name and not name.startswith(".") and not name.endswith(("%", "%+"))


# -- databases


def database_problems(path: Path, specs: Sequence[TableSpec] = (), *, quick: bool = False) -> list[str]:
    """Problems of a SQLite file: of its pages, and of rows that are no items with the key of their columns; `quick` reads no
    rows, and not all pages of a large file. Raises `StoreUnavailableError` if it is locked."""
    if not path.is_file():
        return ["it is no file"]
    try:
        with closing(sqlite3.connect(path, timeout=_LOCK_SECONDS)) as connection:
            if quick:
                return _quick_problems(connection, path)
            checked = connection.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})").fetchall()
            problems = [" ".join(str(row[0]).split()) for row in checked if row[0] != "ok"]
            return problems or [problem for spec in specs for problem in _row_problems(connection, spec)]
    except sqlite3.DatabaseError as exc:
        code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or is_undecodable(exc):
            return [str(exc)]
        failure = failure_of(exc, path) or StoreUnavailableError(f"database {path} can't be checked: {exc}")
        if quick and isinstance(failure, UnwritableStoreError):  # a full or read-only disk is no damage
            return []
        raise failure from exc


_NUMBERED_TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND sql NOT LIKE '%WITHOUT ROWID%'"
)


def _quick_problems(connection: sqlite3.Connection, path: Path) -> list[str]:
    if path.stat().st_size <= _SMALL_DATABASE:
        checked = connection.execute("PRAGMA quick_check(1)").fetchall()
        return [" ".join(str(row[0]).split()) for row in checked if row[0] != "ok"]
    for (name,) in connection.execute(_NUMBERED_TABLES).fetchall():
        for order in ("ASC", "DESC"):
            connection.execute(f"SELECT * FROM {quoted(name)} ORDER BY rowid {order} LIMIT 1").fetchall()  # noqa: S608
    header = _header_of(path)
    pages = int.from_bytes(header[28:32], "big") * (int.from_bytes(header[16:18], "big") or 65_536)
    return ["it is shorter than its header says"] if path.stat().st_size < pages else []


def _header_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(32)


def _row_problems(connection: sqlite3.Connection, spec: TableSpec) -> Iterator[str]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (spec.name,)).fetchone():
        return
    names = key_names(spec)
    columns = ", ".join(map(quoted, (*names, ITEM)))
    damaged = 0
    for *keys, row in connection.execute(f"SELECT {columns} FROM {quoted(spec.name)}"):  # noqa: S608
        damaged += not _is_item(row, dict(zip(names, keys, strict=True)))
    if damaged:
        yield f"{damaged:,} rows of {spec.name} are no items with their keys"


def _is_item(row: Any, key: dict[str, object]) -> bool:
    try:
        item = from_row(row)
    except (ValueError, AttributeError, RecursionError):
        return False
    return isinstance(item, dict) and all(item.get(name) == value for name, value in key.items())


# -- indexes


class IndexFiles:
    """The files of one edition of the embedded index."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._home = home
        self._folder = folder

    def damaged(self, *, quick: bool = False) -> Iterator[FileDamage]:
        path = self._folder / INDEX
        if not self._folder.is_dir() or not path.exists():
            yield self._damage("", f"it has no {INDEX}" if self._folder.is_dir() else "it is no folder")
            return
        found = database_problems(path, quick=quick)
        yield from (self._damage(INDEX, problem) for problem in found)
        if not found:
            yield from self._at_a_glance() if quick else self._contents()

    def _damage(self, name: str, problem: str) -> FileDamage:
        relative = self._folder.relative_to(self._home).as_posix()
        return FileDamage(f"{relative}/{name}" if name else relative, StoreFile.INDEX, problem)

    def _at_a_glance(self) -> Iterator[FileDamage]:
        """As `_contents`, without large files and the entries of segments; nothing while a process writes."""
        with suppress(StoreUnavailableError):
            yield from self._contents(quick=True)

    def _contents(self, *, quick: bool = False) -> Iterator[FileDamage]:
        """Compares files and segments with their checksums, while no process writes."""
        from opx.adapters.embedded.segments import IndexDatabase

        with self._unchanged(0.0 if quick else _LOCK_SECONDS):
            try:
                database = IndexDatabase(self._folder / INDEX)
            except sqlite3.Error as exc:
                yield self._damage(INDEX, str(exc))
                return
            with closing(database):
                if not database.meta("identity"):
                    yield self._damage(INDEX, "it doesn't say for which model it was built")
                    return
                if self._is_readable(database):
                    yield from self._files(database, quick=quick)
                    yield from self._segments(database, quick=quick)

    @staticmethod
    def _is_readable(database: IndexDatabase) -> bool:
        """False for an index of another release's format, which is no damage: it is replaced by `opx reindex`."""
        from opx.adapters.embedded.search_index import FORMAT

        return database.meta("identity").rpartition("/format-")[2] == FORMAT

    def _files(self, database: IndexDatabase, *, quick: bool) -> Iterator[FileDamage]:
        from opx.adapters.embedded.lexical import term_files

        recorded = database.file_checksums()
        if recorded is None:  # a batch was interrupted, or another release wrote it: its entries are counted below
            return
        present = term_files(self._folder, self._large(recorded) if quick else {})
        for name, checksum in sorted(recorded.items()):
            if name not in present:
                yield self._damage(name, "it is missing")
            elif present[name] != checksum:
                yield self._damage(name, "it was altered")

    def _large(self, recorded: Mapping[str, str]) -> Mapping[str, str]:
        sizes = {name: (self._folder / name).stat().st_size for name in recorded if (self._folder / name).is_file()}
        return {name: recorded[name] for name, size in sizes.items() if size > _SMALL_FILE}

    def _segments(self, database: IndexDatabase, *, quick: bool) -> Iterator[FileDamage]:
        rows = database.segments()
        problem = _SegmentCheck(self._folder, database, rows)
        if whole := problem.of_files():
            yield self._damage(*whole)
            return
        large = quick and sum(row.count for row in rows) > _FEW_ENTRIES
        for row in () if large else rows:
            if found := problem.of_segment(row):
                key_id = database.segment(row.id)[1].key_id
                yield FileDamage(self._folder.name, StoreFile.ENTRIES, found, key_id)

    def _unchanged(self, seconds: float) -> AbstractContextManager[None]:
        busy = StoreUnavailableError(f"another process has been writing to {self._folder} for too long")
        return held(self._folder / "writer.lock", busy, seconds=seconds)


class _SegmentCheck:
    """Compares segments with their checksums, and with the entries of the term index."""

    def __init__(self, folder: Path, database: IndexDatabase, rows: Sequence[SegmentRow]) -> None:
        self._folder = folder
        self._database = database
        self._slots = max((row.first_slot + row.slots for row in rows), default=0)
        self._checksums = database.checksums()

    def of_files(self) -> tuple[str, str] | None:
        """Name and problem of a file that can't be read as a whole."""
        from opx.adapters.embedded.lexical import TERMS, LexicalReader
        from opx.adapters.embedded.vector_files import ROWS, StoredRows

        try:
            base = self._folder / self._database.meta(ROWS, ROWS)
            self._rows = StoredRows(base, self._dimension(), self._slots)
        except (OpxError, OSError, ValueError) as exc:
            return "vectors", str(exc)
        try:
            self._terms = LexicalReader(self._folder / TERMS).latest()
            self._terms.count_in(0)
        except (OpxError, OSError) as exc:
            return TERMS, str(exc)
        return None

    def of_segment(self, row: SegmentRow) -> str:
        """The problem of a segment; "" if it is as it was written."""
        from opx.adapters.embedded.segments import SegmentDigest

        if self._terms.count_in(row.id) != row.count:
            return "the term index lacks some of its entries"
        known = self._checksums.get(row.id)
        if known is None:
            return ""
        digest = SegmentDigest()
        try:
            digest.add_entries(self._database.entries_of(row.id))
        except OpxError:
            return "its entries were altered"
        digest.add_vectors(self._rows.rows(row.first_slot, row.first_slot + row.slots).tobytes())
        found = digest.checksums(*self._database.segment(row.id))
        if found.entries != known.entries:
            return "its entries were altered"
        return "its vectors were altered" if found.vectors != known.vectors else ""

    def _dimension(self) -> int:
        """The dimension in the identity of the index: `model/dimension/analyzer-N/format-N`."""
        return int(self._database.meta("identity").split("/")[-3])

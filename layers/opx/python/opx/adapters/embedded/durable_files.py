"""Writes files that are whole and on the disk, or not there at all, and that only their owner can read. POSIX only: it relies
on `rename`, `flock` and `fsync`."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from opx.errors import InvalidInputError, StoreUnavailableError, UnwritableStoreError

if TYPE_CHECKING:
    from filelock import FileLock as Lock

ABANDONED_SECONDS = 24 * 3600
"""A temporary file not written to for this long belongs to a process that died."""

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


def private(path: str, flags: int) -> int:
    """An `opener` of files that are readable and writable by their owner alone."""
    return os.open(path, flags, PRIVATE_FILE)


def withdraw_rights_of_others(folder: Path) -> str:
    """Takes the rights of group and others from a folder and all in it, if they have any on the folder; returns a remark
    about that, or "".

    The set-group-id bit marks a folder that is shared with its group on purpose: the group keeps its rights then. Nobody
    else can enter the folder, so what is in it is looked at only if the folder had to be changed.
    """
    try:
        mode = folder.stat().st_mode
    except FileNotFoundError:
        return ""
    others = stat.S_IRWXO if mode & stat.S_ISGID else stat.S_IRWXG | stat.S_IRWXO
    if not mode & others:
        return ""
    try:
        folder.chmod(stat.S_IMODE(mode) & ~others)
        for base, folders, files in os.walk(folder):
            for name in (*folders, *files):
                _withdraw(Path(base, name), others)
    except PermissionError:
        return f"others can read {folder}, which belongs to another user: its rights were left alone"
    except OSError as exc:
        if exc.errno != errno.EROFS:
            raise
        return f"others can read {folder}, and its disk is read-only: its rights were left alone"
    return f"others could read {folder}: only its owner can now"


def _withdraw(path: Path, rights: int) -> None:
    try:
        mode = path.lstat().st_mode
        if mode & rights and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~rights)
    except FileNotFoundError:  # another process replaced it, by a private one
        return


@contextmanager
def temporary_file(folder: Path) -> Iterator[BinaryIO]:
    """A new file in `folder`, open for writing and reading; removed at the end unless it was renamed."""
    path = folder / secrets.token_hex(16)
    with in_use(folder), open(path, "x+b", opener=private) as file:
        try:
            yield file
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def in_use(folder: Path, operation: int = fcntl.LOCK_SH) -> Iterator[bool]:
    """Marks a folder of temporary files as used by a living process; False where it can't be marked."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, operation)
        marked = True
    except OSError:
        marked = False
    try:
        yield marked
    finally:
        os.close(descriptor)


def remove_abandoned(folder: Path) -> None:
    """Removes temporary files of processes that were killed: all, if no living one uses the folder, and else the old ones."""
    with in_use(folder, fcntl.LOCK_EX | fcntl.LOCK_NB) as alone:
        oldest = time.time() - ABANDONED_SECONDS
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                if alone or path.stat().st_mtime < oldest:
                    path.unlink()


def sync_file(file: BinaryIO) -> None:
    """Returns when the file's content is on the disk."""
    file.flush()
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone leaves the data in the drive's cache
    if full_sync is None:
        os.fsync(file.fileno())
    else:
        fcntl.fcntl(file.fileno(), full_sync)


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def move_into_place(source: Path, target: Path) -> None:
    """Renames a synced file over `target`, creating its folders. The name is on the disk when this returns."""
    make_folders(target.parent)
    os.replace(source, target)  # noqa: PTH105 - the one call that commits; kept bare so that tests can stop it
    sync_folder(target.parent)


def move_all_into_place(moves: Sequence[tuple[Path, Path]]) -> None:
    """As `move_into_place` for several files: each folder is synced once."""
    for source, target in moves:
        make_folders(target.parent)
        os.replace(source, target)  # noqa: PTH105 - as in `move_into_place`
    for folder in dict.fromkeys(target.parent for _, target in moves):
        sync_folder(folder)


def place_unsynced(file: BinaryIO, target: Path) -> None:
    """Renames a file to `target`, where none is, creating its folders. A crash may leave any content until `sync_all`."""
    file.flush()
    make_folders(target.parent)
    os.replace(file.name, target)  # noqa: PTH105 - as in `move_into_place`


def sync_all(paths: Sequence[Path]) -> None:
    """Returns when these files and their names are on the disk."""
    sync_files(paths)
    for folder in dict.fromkeys(path.parent for path in paths):
        with suppress(FileNotFoundError):
            sync_folder(folder)


def sync_files(paths: Sequence[Path]) -> None:
    """Returns when the contents of these files are on the disk, which serves several requests in the time of one."""
    if len(paths) < 2:
        for path in paths:
            _sync_path(path)
        return
    with ThreadPoolExecutor(min(_SYNCS_AT_ONCE, len(paths))) as pool:
        list(pool.map(_sync_path, paths))


def _sync_path(path: Path) -> None:
    try:
        with path.open("rb") as file:
            sync_file(file)
    except FileNotFoundError:  # removed meanwhile
        return


_SYNCS_AT_ONCE = 8


def make_folders(folder: Path) -> None:
    """Creates a folder and its parents so that they survive a loss of power."""
    if not folder.is_dir():
        make_folders(folder.parent)
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
        sync_folder(folder.parent)


def remove_file(path: Path, root: Path) -> None:
    """Removes the file if it exists, and the folders below `root` that become empty."""
    if is_missing(path):
        return
    path.unlink(missing_ok=True)
    sync_folder(path.parent)
    for folder in path.parents:
        if folder == root:
            return
        try:
            folder.rmdir()
        except OSError:  # not empty
            return


def is_missing(path: Path) -> bool:
    """True if there is no such file, also if its name is too long for the file system."""
    try:
        path.lstat()
    except OSError as exc:
        if exc.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return True
        raise
    return False


def sync_folder(folder: Path) -> None:
    """Returns when the names in the folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock among all threads and processes. The system releases it when a process dies."""
    # Each holder opens the file anew: a lock belongs to the open file, so threads exclude each other too.
    with open(path, "ab", opener=private) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as exc:
            raise StoreUnavailableError(f"can't lock {path}: {exc.strerror}") from exc
        yield


@contextmanager
def held(
    path: Path, busy: Exception | None = None, *, seconds: float = 0.0, waits: Callable[[], None] | None = None
) -> Iterator[None]:
    """Holds the lock in a file, once per process. Raises `busy` if another process keeps it for so many seconds, or waits as
    long as it takes without `busy`, and calls `waits` meanwhile.

    Raises `StoreUnavailableError` on a disk whose locks are missing or exclude nobody."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=seconds if busy else -1, mode=PRIVATE_FILE, fallback_to_soft=False)
    try:
        _acquire(lock, waits)
    except Timeout as exc:
        assert busy is not None, "only then there is a limit"
        raise busy from exc
    except NotImplementedError as exc:
        raise StoreUnavailableError(f"can't lock {path}: its disk has no locks") from exc
    except OSError as exc:
        raise StoreUnavailableError(f"can't lock {path}: {exc.strerror or exc}") from exc
    try:
        if not _excludes_others(path):
            raise StoreUnavailableError(f"locks of the disk of {path} exclude nobody: move the home to another disk")
        yield
    finally:
        lock.release()


def _acquire(lock: Lock, waits: Callable[[], None] | None) -> None:
    from filelock import Timeout

    if waits is None:
        lock.acquire()
        return
    while True:
        try:
            lock.acquire(timeout=_NOTICE_SECONDS)
        except Timeout:
            waits()
        else:
            return


_NOTICE_SECONDS = 1.0
"""Time between two calls that report that a lock is waited for."""


def _excludes_others(path: Path) -> bool:
    """False if a file that is locked can be locked once more, as on a network disk that is mounted without locks."""
    with open(path, "ab", opener=private) as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@contextmanager
def translated_os_errors(action: str) -> Iterator[None]:
    """Raises `StoreUnavailableError` for errors of the operating system, e.g. for lack of space or permission."""
    try:
        yield
    except OSError as exc:
        if exc.errno == errno.ENAMETOOLONG:
            raise InvalidInputError(f"can't {action}: its name is too long for this file system") from exc
        message = f"can't {action}: {exc.strerror or exc}"
        if exc.errno in _UNWRITABLE:
            raise UnwritableStoreError(message, _UNWRITABLE[exc.errno]) from exc
        raise StoreUnavailableError(message) from exc


_UNWRITABLE = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full",
    errno.EROFS: "its disk is read-only",
}

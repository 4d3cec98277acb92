"""An export of Slack: a folder, or the zip file that it comes as. Read file by file, within limits."""

from __future__ import annotations

import json
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opx.errors import SourceRefusedError, SourceShapeError, SourceUnavailableError

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Of one file, unpacked: a day of a channel, or the list of users."""

MAX_RATIO = 500
"""Bytes unpacked for one packed. JSON packs to a tenth or so, a bomb to a thousandth."""

MAX_FILES = 2_000_000


class Archive(ABC):
    """The JSON files of an export by their paths."""

    @abstractmethod
    def names(self) -> Iterator[str]:
        """Paths of all JSON files, such as `general/2024-01-02.json`."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """A file's bytes, None if there is none. Raises `SourceRefusedError` for one that is too large."""

    def json(self, name: str) -> Any:
        """A file's content, None if there is none. Raises `SourceShapeError` if it is no JSON."""
        data = self.read(name)
        if data is None:
            return None
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as exc:
            raise SourceShapeError(f"{name} of the export is not JSON: {str(exc)[:100]}") from exc


class FolderArchive(Archive):
    """An export that was unpacked."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> Iterator[str]:
        for file in self._root.glob("*/*.json"):
            yield file.relative_to(self._root).as_posix()

    def read(self, name: str) -> bytes | None:
        file = self._root / name
        if not file.is_file() or file.is_symlink():
            return None
        if file.stat().st_size > MAX_FILE_BYTES:
            raise SourceRefusedError(f"{name} of the export is larger than {MAX_FILE_BYTES:,} bytes")
        return file.read_bytes()


class ZipArchive(Archive):
    """An export as it was downloaded. Nothing is unpacked to disk."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._zip = file
        if len(file.filelist) > MAX_FILES:
            raise SourceRefusedError(f"the export has more than {MAX_FILES:,} files")

    def names(self) -> Iterator[str]:
        for info in self._zip.filelist:
            if info.filename.count("/") == 1 and info.filename.endswith(".json"):
                yield info.filename

    def read(self, name: str) -> bytes | None:
        try:
            info = self._zip.getinfo(name)
        except KeyError:
            return None
        if info.file_size > max(MAX_RATIO * info.compress_size, 64 * 1024) or info.file_size > MAX_FILE_BYTES:
            raise SourceRefusedError(f"{name} of the export unpacks to {info.file_size:,} bytes, which is no export's")
        with self._zip.open(info) as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise SourceRefusedError(f"{name} of the export is larger than {MAX_FILE_BYTES:,} bytes")
        return data


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """The export at a path. Raises `SourceRefusedError` if there is none, `SourceShapeError` for a damaged one."""
    try:
        if path.is_dir():
            yield FolderArchive(path)
            return
        with zipfile.ZipFile(path) as file:
            yield ZipArchive(file)
    except FileNotFoundError as exc:
        raise SourceRefusedError(f"there is no export {path}") from exc
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as exc:  # damaged, of another method, or encrypted
        raise SourceShapeError(f"{path.name} is not a zip file that can be read: {exc}") from exc
    except OSError as exc:
        raise SourceUnavailableError(f"{exc.filename or path}: {exc.strerror}") from exc

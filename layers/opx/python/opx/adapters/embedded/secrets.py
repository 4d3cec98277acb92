"""Keeps secrets in a file that only its owner can read."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

from opx.adapters.embedded.durable_files import (
    make_folders,
    move_into_place,
    sync_file,
    temporary_file,
    translated_os_errors,
)
from opx.errors import InvalidInputError, SecretNotFoundError


class FileSecrets:
    """Secrets as a JSON object in one file; a missing name is looked up by `elsewhere` (the environment)."""

    def __init__(self, path: Path, elsewhere: Callable[[str], str | None] = lambda _: None) -> None:
        self._path = path
        self._elsewhere = elsewhere

    def get(self, name: str) -> str:
        found = self._read().get(name) or self._elsewhere(name)
        if not found:
            raise SecretNotFoundError(f"there is no secret {name!r}: set it with `opx secret set {name}`")
        return found

    def names(self) -> list[str]:
        """The names in the file."""
        return sorted(self._read())

    def put(self, name: str, value: str) -> None:
        self._write({**self._read(), name: value})

    def delete(self, name: str) -> None:
        kept = self._read()
        if kept.pop(name, None) is not None:
            self._write(kept)

    def _read(self) -> dict[str, str]:
        try:
            with self._path.open(encoding="utf-8") as file:
                mode = os.fstat(file.fileno()).st_mode
                content = json.load(file)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as exc:
            raise InvalidInputError(f"{self._path}: can't be read as JSON: {exc}") from exc
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InvalidInputError(f"{self._path}: others can read these secrets; run `chmod 600 {self._path}`")
        if not isinstance(content, dict) or not all(isinstance(value, str) for value in content.values()):
            raise InvalidInputError(f"{self._path}: must be a JSON object of strings (name: secret)")
        return content

    def _write(self, secrets: dict[str, str]) -> None:
        with translated_os_errors(f"write {self._path}"):
            self._replace(json.dumps(secrets, indent=2, sort_keys=True).encode())

    def _replace(self, content: bytes) -> None:
        make_folders(self._path.parent)
        with temporary_file(self._path.parent) as file:
            os.fchmod(file.fileno(), stat.S_IRUSR | stat.S_IWUSR)
            file.write(content)
            sync_file(file)
            move_into_place(Path(file.name), self._path)

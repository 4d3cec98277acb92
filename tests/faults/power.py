"""Makes the folders that a loss of power could leave, from the calls that `disk.c` wrote down.

The model is POSIX at its least: what was written to a file is on the disk once the file was synced, and a name once its
folder was. Whatever else was done may have reached the disk or not, in any order. SQLite's -shm files are left out: they are
written through memory, and made anew.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath


class Left(StrEnum):
    """States that a power cut may leave."""

    SYNCED = "only what was synced"
    NAMES = "all names, but of contents only what was synced"
    SOME = "what was synced, and some of what was written since"


@dataclass(frozen=True)
class Call:
    """A call that changed files, or a note of the program: what it had acknowledged by then."""

    kind: str
    numbers: tuple[int, ...]
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode()


def read_log(path: Path) -> Iterator[Call]:
    with path.open("rb") as file:
        while head := file.readline():
            kind, length, *numbers = head.decode().split()
            data = file.read(int(length))
            assert file.read(1) == b"\n"
            yield Call(kind, tuple(map(int, numbers)), data)


@dataclass
class File:
    """The content of a file as the program sees it, and as it is on the disk; and the changes since."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    since: list[tuple[int, bytes | None]] = field(default_factory=list)

    def change(self, at: int, data: bytes | None) -> None:
        _apply(self.content, at, data)
        self.since.append((at, data))

    def sync(self) -> None:
        self.synced, self.since = bytes(self.content), []

    def left(self, chance: random.Random) -> bytes:
        """The synced content with some of the changes since."""
        content = bytearray(self.synced)
        for at, data in self.since:
            if chance.random() < 0.5:
                _apply(content, at, data)
        return bytes(content)


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    """Writes data, or cuts the content off without data."""
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    if data is None:
        del content[at:]
    else:
        content[at : at + len(data)] = data


Names = dict[str, File | None]
"""Files by path; folders have no file."""


class Recorded:
    """The state of files after some calls. A folder of this name was there from the beginning."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.names: Names = {root: None}
        self.synced: Names = {root: None}
        self.notes: list[str] = []
        self._files: dict[int, File] = {}

    @classmethod
    def at(cls, folder: Path) -> Recorded:
        """The state of a folder with files, all of which are on the disk."""
        state = cls(str(folder))
        for path in folder.rglob("*"):
            file = None if path.is_dir() else File(bytearray(path.read_bytes()), path.read_bytes())
            state.names[str(path)] = state.synced[str(path)] = file
            if file is not None:
                state._files[path.stat().st_ino] = file
        return state

    def do(self, call: Call) -> None:
        getattr(self, f"_{call.kind}")(call)

    def _note(self, call: Call) -> None:
        self.notes.append(call.text)

    def _create(self, call: Call) -> None:
        self._files[call.numbers[0]] = self.names[call.text] = File()

    def _empty(self, call: Call) -> None:
        self._files[call.numbers[0]].change(0, None)

    def _size(self, call: Call) -> None:
        file, size = self._files[call.numbers[0]], call.numbers[1]
        file.change(size, None if size < len(file.content) else b"")

    def _write(self, call: Call) -> None:
        self._files[call.numbers[0]].change(call.numbers[1], call.data)

    def _sync(self, call: Call) -> None:
        self._files[call.numbers[0]].sync()

    def _mkdir(self, call: Call) -> None:
        self.names[call.text] = None

    def _unlink(self, call: Call) -> None:
        self.names.pop(call.text, None)

    _rmdir = _unlink

    def _rename(self, call: Call) -> None:
        old, new = call.text.split("\n")
        for path in [path for path in self.names if path == old or path.startswith(f"{old}/")]:
            self.names[new + path.removeprefix(old)] = self.names.pop(path)

    def _folder(self, call: Call) -> None:
        for path in {path for path in (*self.synced, *self.names) if str(PurePosixPath(path).parent) == call.text}:
            if path in self.names:
                self.synced[path] = self.names[path]
            else:
                for lost in [one for one in self.synced if one == path or one.startswith(f"{path}/")]:
                    del self.synced[lost]

    def write_to(self, folder: Path, left: Left, chance: random.Random) -> None:
        """Makes the folder as a power cut at this moment leaves it."""
        names = self.names if left is Left.NAMES else self.synced
        for path, file in sorted(names.items()):
            target = folder / PurePosixPath(path).relative_to(self.root)
            if (not target.parent.is_dir() and target != folder) or path.endswith("-shm"):
                continue  # its folder was not synced
            if file is None:
                target.mkdir(0o700, exist_ok=True)
            else:
                target.write_bytes(file.left(chance) if left is Left.SOME else file.synced)
                target.chmod(0o600)

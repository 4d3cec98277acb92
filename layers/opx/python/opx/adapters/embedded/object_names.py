"""Object keys as paths of files: readable, reversible, and distinct on every file system.

`documents/runbooks/disk-full.md` is stored under just that path. What a file system can't tell apart is marked:

- A file's name holds a dot and a folder's doesn't, or else it ends in `%`: `a` and `a/b` become `a%` and `a/b%`.
- A name that differs from another only by case or Unicode form gets a hash before its extension: `README~8ec9a00b.md`.
- `%`, `~`, a leading dot and characters that some systems refuse are percent-encoded.
- A name of more than 255 bytes is cut into folders; each but the last ends in `%+`.
"""

from __future__ import annotations

import hashlib
import re
from urllib.parse import unquote

from opx.adapters.limits import is_object_key

MAX_NAME_BYTES = 255
PIECE_LENGTH = 58
"""Characters, of up to 4 bytes each, that fit into a name together with its marks."""

_UNSAFE = re.compile(r'[\x00-\x1f\x7f%~\\:*?"<>|]|^\.|[ .]$')
_MARKED = re.compile(r"~[0-9a-f]{8}")


def path_of(key: str) -> tuple[str, ...]:
    """The path of an object's file, as names."""
    *folders, last = key.split("/")
    return (*folder_path(folders), *_names(last, is_file=True))


def folder_path(segments: list[str]) -> tuple[str, ...]:
    """The path of the folder that holds all keys under these segments, as names."""
    return tuple(name for segment in segments for name in _names(segment, is_file=False))


def key_of(names: tuple[str, ...]) -> str | None:
    """The key that is stored under this path, or None if the path can't have come from `path_of`."""
    key = ""
    for position, name in enumerate(names):
        bare = _MARKED.sub("", name.removesuffix("%+").removesuffix("%"))
        key += unquote(bare)
        if not name.endswith("%+") and position < len(names) - 1:
            key += "/"
    return key if is_object_key(key) and path_of(key) == names else None


def _names(segment: str, *, is_file: bool) -> tuple[str, ...]:
    whole = _name(segment, is_file=is_file)
    if len(whole.encode()) <= MAX_NAME_BYTES:
        return (whole,)
    pieces = [segment[start : start + PIECE_LENGTH] for start in range(0, len(segment), PIECE_LENGTH)]
    return (*(_marked(piece) + "%+" for piece in pieces[:-1]), _name(pieces[-1], is_file=is_file))


def _name(segment: str, *, is_file: bool) -> str:
    name = _marked(segment)
    return name if ("." in name) == is_file else name + "%"


def _marked(segment: str) -> str:
    name = _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", segment)
    if segment.isascii() and segment == segment.lower():
        return name
    stem, dot, extension = name.rpartition(".")
    mark = "~" + hashlib.sha256(segment.encode()).hexdigest()[:8]
    return f"{stem}{mark}.{extension}" if dot else name + mark

"""Files of a folder of objects, with the notes beside them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from opx.adapters.embedded.durable_files import locked, sync_folder, translated_os_errors
from opx.adapters.embedded.object_names import folder_path, key_of
from opx.errors import InvalidInputError


class FolderObjectHistory:
    """`ObjectHistory` of a `FolderObjectStore` at the same root: there are no versions, but notes in `.meta`, which a put
    that was interrupted leaves without an object."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._metadata = self._root / ".meta"

    def held(self, prefix: str) -> Iterator[str]:
        for root in (self._root, self._metadata):
            for path in self._files(root, prefix):
                names = path.relative_to(root).parts
                yield key_of(names) or "/".join(names)

    def erase(self, prefix: str) -> int:
        count = 0
        with translated_os_errors(f"erase {prefix}"), locked(self._root / ".lock"):
            for root in (self._root, self._metadata):
                count += sum(1 for _ in self._files(root, prefix))
                folder = _folder(root, prefix)
                if folder.is_dir():  # as a whole: a folder that is synced for each of its files takes 3 ms a file
                    shutil.rmtree(folder)
                    sync_folder(folder.parent)
        return count

    def _files(self, root: Path, prefix: str) -> Iterator[Path]:
        with translated_os_errors(f"list {prefix}"):
            for folder, _, files in os.walk(_folder(root, prefix)):
                yield from (Path(folder, name) for name in sorted(files))


def _folder(root: Path, prefix: str) -> Path:
    if not prefix.endswith("/") or prefix == "/":
        raise InvalidInputError(f"{prefix!r} is not a folder: it ends with no '/'")
    return root.joinpath(*folder_path(prefix.removesuffix("/").split("/")))

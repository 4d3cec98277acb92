"""Keeps results that can be made again beside the compiled modules, under the rules of `.pyc` files.

They are trusted as modules are, written where Python writes modules, and not at all where it can't or shall not.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
from importlib.util import cache_from_source
from typing import Any


class CompiledFile:
    """A file of `name` beside the compiled module `source`. It is valid for the `release` that it was written with, such as
    that of the program, or the hash of what it was made from."""

    def __init__(self, source: str, name: str) -> None:
        self.path = f"{cache_from_source(source).removesuffix('.pyc')}.{name}"

    def read(self, release: str) -> Any:
        """Returns the data that was written; None without a file, and for a damaged one or another release's."""
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123 - pathlib takes 5 ms
                found, data = marshal.load(file)  # noqa: S302 - written by this program, as the modules beside it
        except (OSError, EOFError, ValueError, TypeError):
            return None
        return data if found == release else None

    def write(self, release: str, data: Any) -> None:
        if sys.dont_write_bytecode:
            return
        own = f"{self.path}.{os.getpid()}"
        with contextlib.suppress(OSError):  # as for a .pyc: the folder may be read-only
            with open(own, "wb") as file:  # noqa: PTH123
                marshal.dump((release, data), file)
            try:
                os.replace(own, self.path)  # noqa: PTH105
            except OSError:
                os.unlink(own)  # noqa: PTH108

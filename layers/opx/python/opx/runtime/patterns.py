"""Caches compiled regular expressions beside the compiled modules, under the same rules.

Python compiles each pattern of a module anew in every process: 330 in a search, 70 ms of processor time. The engine runs a
list of integers, which `re._compiler` makes and `_sre.compile` makes a pattern of; the latter checks them, so a damaged file
does no more than a damaged `.pyc`. Only patterns that are compiled during an import are kept, never those of a question.
Without the file, or with one of another release of Python, everything is compiled.
"""

from __future__ import annotations

import atexit
import sys
from array import array
from importlib import import_module
from types import FrameType
from typing import Any

from opx.runtime.compiled import CompiledFile

_RELEASE = f"{sys.version} {array('I').itemsize}"
_IMPORTING = "<frozen importlib._bootstrap>"
"""The file of the frames of an import."""

MOST = 10_000
"""Maximum number of patterns in the file."""


class PatternCache:
    """Patterns of modules by text and flags, each as the further arguments of `_sre.compile`."""

    def __init__(self) -> None:
        self._file = CompiledFile(__file__, "patterns")
        self._compiler: Any = import_module("re._compiler")
        self._compile = self._compiler.compile
        self._kept: dict[tuple[str, int], tuple[Any, ...]] = self._file.read(_RELEASE) or {}
        self._before = len(self._kept)

    def begin(self) -> None:
        """Has `re` use the cache, and write what is new at the end of the process."""
        if not all(hasattr(self._compiler, name) for name in ("_code", "_parser", "_sre")):
            return  # another Python
        self._compiler.compile = self.compiled
        atexit.register(self.save)

    def compiled(self, pattern: Any, flags: int = 0) -> Any:
        """As `re._compiler.compile`."""
        if type(pattern) is not str:
            return self._compile(pattern, flags)
        kept = self._kept.get((pattern, flags))
        if kept is not None:
            all_flags, code, *groups = kept
            return self._compiler._sre.compile(pattern, all_flags, array("I", code).tolist(), *groups)
        made = self._compile(pattern, flags)
        if _is_importing(sys._getframe()) and len(self._kept) < MOST:
            code = array("I", self._compiler._code(self._compiler._parser.parse(pattern, flags), flags)).tobytes()
            names: list[str | None] = [None] * (made.groups + 1)
            for name, at in made.groupindex.items():
                names[at] = name
            self._kept[pattern, int(flags)] = (made.flags, code, made.groups, dict(made.groupindex), tuple(names))
        return made

    def save(self) -> None:
        """Writes the file if there are new patterns."""
        if len(self._kept) > self._before:
            self._file.write(_RELEASE, self._kept)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False

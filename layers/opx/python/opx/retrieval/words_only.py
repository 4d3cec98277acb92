"""Searches by words alone while the index wakes up, in a segment of the corpus's words on this machine."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from msgspec import Struct

from opx.domain.documents import DocumentState, is_kept_out
from opx.errors import IndexUnavailableError, StoreUnavailableError
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.indexing.words import WordsShelf
from opx.ports import SearchEngine
from opx.ports.search import VersionName, WordsSegments

log = logging.getLogger(__name__)

AWAKE_WITHIN = 0.6
"""Seconds in which an index that is awake answers a request for nothing."""

WORDS_ONLY = "words only: the search index is waking up{part}; ask again in {seconds:.0f} s for the whole answer"
"""Note of an answer that was searched by words alone."""

A_PART = ", and only a part of the documents was searched"


class Substitute(Struct, frozen=True):
    """An engine to search while the index wakes up, and the note about it."""

    engine: SearchEngine
    note: str


class _Opened(Struct, frozen=True):
    """A segment on this machine; no engine if it can't be used."""

    name: str
    folder: Path | None = None
    engine: SearchEngine | None = None
    whole: bool = True


class WordsOnly:
    """Stands in for an index that is waking up. `waking` is as `WakeableIndex.waking`. Threads may share it.

    The newest segment is fetched on first need; one that can't be used is not fetched again. Without one, questions wait for
    the index.
    """

    def __init__(
        self, shelf: WordsShelf, segments: WordsSegments, catalog: Catalog, waking: Callable[[float], float]
    ) -> None:
        self._shelf = shelf
        self._segments = segments
        self._catalog = catalog
        self._waking = waking
        self._lock = threading.Lock()
        self._opened: _Opened | None = None

    def while_waking(self) -> Substitute | None:
        """The engine to search now instead of the index; None if the index answers, or if there is nothing in its stead."""
        try:
            seconds = self._waking(AWAKE_WITHIN)
            with self._lock:
                opened = self._newest() if seconds else None
        except StoreUnavailableError as exc:
            log.warning("questions wait for the index: %s", exc)
            return None
        if opened is None or opened.engine is None:
            return None
        return Substitute(opened.engine, WORDS_ONLY.format(seconds=seconds, part="" if opened.whole else A_PART))

    def _newest(self) -> _Opened | None:
        manifest = self._shelf.newest()
        if manifest is None:
            return None
        known = self._opened
        if known and known.name == manifest.name:
            return known
        if manifest.identity != self._segments.identity:
            log.warning("the segment of words %s is of another release: questions wait for the index", manifest.name)
            return None
        folder = Path(tempfile.mkdtemp(prefix="opx-words-"))
        try:
            self._shelf.fetch(manifest, folder)
            engine = self._segments.open(folder, self._current)
        except (IndexUnavailableError, OSError) as exc:
            log.warning("questions wait for the index: %s", exc)
            shutil.rmtree(folder, ignore_errors=True)
            opened = _Opened(manifest.name)
        else:
            opened = _Opened(manifest.name, folder, engine, manifest.whole)
        self._replace(opened)
        return opened

    def _replace(self, opened: _Opened) -> None:
        """Removes the files of the former segment; searches that still read them have them open."""
        before, self._opened = self._opened, opened
        if before and before.folder:
            shutil.rmtree(before.folder, ignore_errors=True)

    def _current(self, names: Collection[VersionName]) -> set[VersionName]:
        """Those of the versions that are current and not held back. Raises `StoreUnavailableError`."""
        return {
            (one.key.id, one.document_id, one.version)
            for one in self._catalog.numbered(names)
            if one.state is DocumentState.CURRENT and not is_kept_out(one)
        }

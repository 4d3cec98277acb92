"""Where a pull of repositories is, and what its next page has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opx.domain.sources import Page, Refused, SourceDocument
from opx.sources.community.github_trees import TreeFile

FILES_A_PAGE = 50
UNCHANGED_A_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Place:
    """The commits and trees of a pull by repository, and how far it is: collection `at`, behind the file `after`."""

    selection: str
    commits: Mapping[str, str]
    trees: Mapping[str, str]
    at: int = 0
    after: str = ""

    def cursor(self, at: int = 0, after: str = "") -> dict[str, Any]:
        return {
            "selection": self.selection,
            "commits": dict(self.commits),
            "trees": dict(self.trees),
            "at": at,
            "after": after,
        }


class Before:
    """Files as they were, to compare with files that come in the same order."""

    def __init__(self, files: Iterator[TreeFile]) -> None:
        self._files = files
        self._next = next(files, None)

    def has(self, file: TreeFile) -> bool:
        while self._next is not None and self._next.path < file.path:
            self._next = next(self._files, None)
        return self._next is not None and (self._next.path, self._next.sha) == (file.path, file.sha)


class Batch:
    """What goes into one page."""

    def __init__(self) -> None:
        self.documents: list[SourceDocument] = []
        self.unchanged: list[str] = []
        self.refused: list[Refused] = []

    @property
    def is_full(self) -> bool:
        return len(self.documents) + len(self.refused) >= FILES_A_PAGE or len(self.unchanged) >= UNCHANGED_A_PAGE

    def page(self, *, cursor: Mapping[str, Any], complete: bool = False) -> Page:
        return Page(
            documents=tuple(self.documents),
            unchanged=tuple(self.unchanged),
            refused=tuple(self.refused),
            cursor=cursor,
            complete=complete,
        )

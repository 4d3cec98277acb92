"""Files of a GitHub repository at one commit, in the order of their paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opx.errors import SourceRefusedError, SourceShapeError
from opx.sources.community.github_api import GitHubApi, path_of
from opx.sources.shapes import Shape, shaped

_FILE_MODES = ("100644", "100755")
_MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Head:
    """A commit and its tree. Trees never change, so that one that is known need not be read again."""

    commit: str
    tree: str


@dataclass(frozen=True, slots=True)
class TreeFile:
    """`sha` is that of the content: equal texts, equal values. `size` is in bytes."""

    path: str
    sha: str
    size: int


class _Tree(Shape, frozen=True):
    sha: str


class _TreeOfCommit(Shape, frozen=True):
    tree: _Tree


class _Commit(Shape, frozen=True):
    sha: str
    commit: _TreeOfCommit


class _Entry(Shape, frozen=True):
    type: str
    path: str
    sha: str
    mode: str = ""
    size: int = 0

    @property
    def is_folder(self) -> bool:
        return self.type == "tree"

    @property
    def is_file(self) -> bool:
        return self.type == "blob" and self.mode in _FILE_MODES


class _Listing(Shape, frozen=True):
    tree: tuple[_Entry, ...]
    truncated: bool = False


class Trees:
    """Reads trees of one repository (`owner/name`)."""

    def __init__(self, api: GitHubApi, repository: str) -> None:
        self._api = api
        self._repository = repository

    def head(self, branch: str) -> Head:
        """The newest commit of a branch, of the default branch if it is "". Raises `SourceRefusedError`."""
        reply = self._api.get(path_of("repos", self._repository, "commits", branch or "HEAD"))
        if reply.gone:
            where = f"branch {branch}" if branch else "repository"
            raise SourceRefusedError(f"{self._repository}: GitHub shows no such {where}", reply.status)
        found = shaped(_Commit, reply.json(), f"the commit of {self._repository}")
        return Head(found.sha, found.commit.tree.sha)

    def files(self, tree: str, folder: str) -> Iterator[TreeFile]:
        """All files below a folder ("" for all there are) by path; links and submodules are none.

        Raises `SourceRefusedError` if the folder doesn't exist.
        """
        prefix = ""
        for part in filter(None, folder.split("/")):
            entries = self._entries(tree, recursive=False).tree
            found = [entry for entry in entries if entry.path == part and entry.is_folder]
            if not found:
                raise SourceRefusedError(
                    f"{self._repository} has no folder {prefix}{part}; check the option paths", 404
                )
            tree, prefix = found[0].sha, f"{prefix}{part}/"
        yield from self._below(tree, prefix, 0)

    def _below(self, tree: str, prefix: str, depth: int) -> Iterator[TreeFile]:
        """A listing with everything below a tree is cut at 100,000 entries or 7 MB (GitHub's documentation, "REST API
        endpoints for Git trees"): then each folder is listed by itself."""
        found = self._entries(tree, recursive=True)
        if not found.truncated:
            files = [_file(entry, prefix) for entry in found.tree if entry.is_file]
            del found
            yield from sorted(files, key=lambda file: file.path)
            return
        if depth > _MAX_DEPTH:
            raise SourceShapeError(f"{self._repository}: folders below {prefix} are nested too deep")
        found = self._entries(tree, recursive=False)
        if found.truncated:
            raise SourceShapeError(f"{self._repository}: GitHub doesn't list the whole folder {prefix or '/'}")
        for entry in sorted(found.tree, key=_order):
            if entry.is_folder:
                yield from self._below(entry.sha, f"{prefix}{entry.path}/", depth + 1)
            elif entry.is_file:
                yield _file(entry, prefix)

    def _entries(self, tree: str, *, recursive: bool) -> _Listing:
        path = path_of("repos", self._repository, "git", "trees", tree)
        reply = self._api.get(path, query={"recursive": 1} if recursive else None)
        if reply.gone:
            raise SourceRefusedError(f"{self._repository}: GitHub has no tree {tree[:12]}", reply.status)
        return shaped(_Listing, reply.json(), f"a tree of {self._repository}")


def _file(entry: _Entry, prefix: str) -> TreeFile:
    return TreeFile(prefix + entry.path, entry.sha, entry.size)


def _order(entry: _Entry) -> str:
    """As git orders: a folder as if its name ended with a slash, so that whole paths are in order."""
    return entry.path + ("/" if entry.is_folder else "")

"""Files of a GitHub repository at one commit, in the order of their paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opx.errors import SourceRefusedError, SourceShapeError
from opx.sources.community.fields import Record
from opx.sources.community.github_api import GitHubApi, path_of

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
        commit = Record.of(reply.json(), f"the commit of {self._repository}")
        tree = commit.record("commit", needed=True).record("tree", needed=True)
        return Head(commit.text("sha", needed=True), tree.text("sha", needed=True))

    def files(self, tree: str, folder: str) -> Iterator[TreeFile]:
        """All files below a folder ("" for all there are) by path; links and submodules are none.

        Raises `SourceRefusedError` if the folder doesn't exist.
        """
        prefix = ""
        for part in filter(None, folder.split("/")):
            entries = self._entries(tree, recursive=False)
            found = [e for e in entries[0] if e.text("path") == part and e.text("type") == "tree"]
            if not found:
                raise SourceRefusedError(
                    f"{self._repository} has no folder {prefix}{part}; check the option paths", 404
                )
            tree, prefix = found[0].text("sha", needed=True), f"{prefix}{part}/"
        yield from self._below(tree, prefix, 0)

    def _below(self, tree: str, prefix: str, depth: int) -> Iterator[TreeFile]:
        """A listing with everything below a tree is cut at 100,000 entries or 7 MB (GitHub's documentation, "REST API
        endpoints for Git trees"): then each folder is listed by itself."""
        entries, cut = self._entries(tree, recursive=True)
        if not cut:
            files = [_file(entry, prefix) for entry in entries if _is_file(entry)]
            del entries
            yield from sorted(files, key=lambda file: file.path)
            return
        if depth > _MAX_DEPTH:
            raise SourceShapeError(f"{self._repository}: folders below {prefix} are nested too deep")
        entries, cut = self._entries(tree, recursive=False)
        if cut:
            raise SourceShapeError(f"{self._repository}: GitHub doesn't list the whole folder {prefix or '/'}")
        for entry in sorted(entries, key=_order):
            if entry.text("type") == "tree":
                yield from self._below(entry.text("sha", needed=True), f"{prefix}{entry.text('path')}/", depth + 1)
            elif _is_file(entry):
                yield _file(entry, prefix)

    def _entries(self, tree: str, *, recursive: bool) -> tuple[list[Record], bool]:
        """The entries of a tree, and whether some are missing."""
        path = path_of("repos", self._repository, "git", "trees", tree)
        reply = self._api.get(path, query={"recursive": 1} if recursive else None)
        if reply.gone:
            raise SourceRefusedError(f"{self._repository}: GitHub has no tree {tree[:12]}", reply.status)
        found = Record.of(reply.json(), f"a tree of {self._repository}")
        return found.records("tree", needed=True), found.flag("truncated")


def _is_file(entry: Record) -> bool:
    return entry.text("type", needed=True) == "blob" and entry.text("mode") in _FILE_MODES


def _file(entry: Record, prefix: str) -> TreeFile:
    return TreeFile(prefix + entry.text("path", needed=True), entry.text("sha", needed=True), entry.number("size"))


def _order(entry: Record) -> str:
    """As git orders: a folder as if its name ended with a slash, so that whole paths are in order."""
    return entry.text("path") + ("/" if entry.text("type") == "tree" else "")

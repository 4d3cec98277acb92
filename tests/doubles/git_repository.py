"""A git repository whose commits a test writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dulwich.objects import Blob, Commit, Tree
from dulwich.repo import Repo

from opx.connectors.connector import Connector
from tests.support.workplace_support import a_connector

TIME = 1_704_189_600  # 2 January 2024, 10:00 UTC


class Repository:
    """A bare repository that is written object by object, so that nothing of this machine's git matters."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path
        self.repo: Any = Repo.init_bare(str(path))
        self.time = TIME

    def tree(self, files: dict[str, bytes]) -> bytes:
        tree: Any = Tree()
        for name, data in files.items():
            blob: Any = Blob.from_string(data)
            self.repo.object_store.add_object(blob)
            tree.add(name.encode(), 0o100644, blob.id)
        self.repo.object_store.add_object(tree)
        return bytes(tree.id)

    def commit(self, message: str, files: dict[str, bytes], *parents: str, branch: str = "main", **more: Any) -> str:
        commit: Any = Commit()
        commit.tree = self.tree(files)
        commit.parents = [parent.encode() for parent in parents]
        commit.author = commit.committer = more.get("author", b"Ann A <ann@example.org>")
        self.time += 60
        commit.author_time = commit.commit_time = self.time
        commit.author_timezone = commit.commit_timezone = 3600
        commit.message = more.get("raw", message.encode())
        if "encoding" in more:
            commit.encoding = more["encoding"]
        self.repo.object_store.add_object(commit)
        self.repo.refs[b"refs/heads/" + branch.encode()] = commit.id
        self.repo.refs.set_symbolic_ref(b"HEAD", b"refs/heads/main")
        return str(commit.id.decode())

    def line(self, count: int) -> list[str]:
        """Commits one after another."""
        made: list[str] = []
        for number in range(count):
            made.append(self.commit(f"Change {number}", {"a": str(number).encode()}, *made[-1:]))
        return made

    def connector(self, **options: Any) -> Connector[Any]:
        known = options.pop("known", ())
        return a_connector("git_history", known=known, path=str(self.path), **options)

"""A commit as a document."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opx.domain.sources import SourceDocument
from opx.domain.times import iso_time
from opx.ingestion.parsing.decoding import well_formed
from opx.sources.markdown import facts, joined, nested, one_line
from opx.sources.relationships import block, reference, relation
from opx.sources.shapes import OddRecordError

if TYPE_CHECKING:
    from dulwich.diff_tree import TreeChange
    from dulwich.objects import Commit
    from dulwich.repo import Repo

MAX_FILES = 200
MAX_BLOB_BYTES = 512 * 1024
"""Larger files are named without counts, and so are those that are no text."""

MAX_MESSAGE = 64 * 1024

_ISSUE_KEY = re.compile(r"(?<![\w-])([A-Z][A-Z0-9]{1,9})-[1-9][0-9]{0,6}(?![\w-])")
_NO_PROJECTS = frozenset(("UTF", "SHA", "ISO", "CVE", "CWE", "RFC", "GHSA", "PEP", "MD", "UTC", "GMT", "AES", "IEEE"))


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """`added` and `removed` lines, None where they weren't counted. Lines that only moved don't count."""

    path: str
    kind: str
    added: int | None = None
    removed: int | None = None

    def __str__(self) -> str:
        counts = "" if self.added is None else f" (+{self.added}, -{self.removed})"
        return f"- `{self.path.replace('`', chr(39))}`{counts}{'' if self.kind == 'modify' else ', ' + self.kind}"


class CommitReader:
    """Reads commits of a repository. Which files a merge changed is told by the commits that it merged."""

    def __init__(self, repo: Repo, web_url: str, projects: Sequence[str]) -> None:
        self._repo = repo
        self._url = web_url.rstrip("/")
        self._projects = frozenset(projects)
        self._shallow = repo.get_shallow()

    def document(self, commit_id: bytes) -> SourceDocument:
        """Raises `OddRecordError` for a commit that isn't whole."""
        from dulwich.objects import Commit

        try:
            commit = self._repo[commit_id]
            assert isinstance(commit, Commit)
            files, more = self._files(commit)
            return self._document(commit, files, more)
        except (KeyError, ValueError, OverflowError, OSError) as exc:
            raise OddRecordError(f"the commit can't be read: {exc!r}") from exc

    def _document(self, commit: Commit, files: list[ChangedFile], more: int) -> SourceDocument:
        key = commit.id.decode("ascii")
        message = _text(commit.message, commit.encoding)[:MAX_MESSAGE]
        subject, _, body = message.strip().partition("\n")
        title = one_line(subject)[:200] or f"Commit {key[:12]}"
        author = _person(_text(commit.author, commit.encoding))
        content = joined(
            [
                f"# {title}",
                facts([("Commit", key), ("Author", author), ("Date", iso_time(commit.author_time)), *_merged(commit)]),
                nested(body, 2),
                *_listing(files, more),
                block(self._relations(key, message, files)),
            ]
        )
        metadata: dict[str, Any] = {
            "title": title,
            "author": author,
            "created_at": iso_time(commit.author_time),
            "last_updated": iso_time(commit.commit_time),
            "tags": ["commit"],
            "source_uri": f"{self._url}/{key}" if self._url else "",
        }
        return SourceDocument(key, content, {name: value for name, value in metadata.items() if value})

    def _relations(self, key: str, message: str, files: Sequence[ChangedFile]) -> Iterator[str]:
        own = reference("commit", key)
        for file in files:
            yield relation(own, "MODIFIES", reference("file", file.path))
        for match in _ISSUE_KEY.finditer(message):
            if match[1] in self._projects if self._projects else match[1] not in _NO_PROJECTS:
                yield relation(own, "FIXES", reference("jira", match[0]))

    def _files(self, commit: Commit) -> tuple[list[ChangedFile], int]:
        """The first files that changed, and how many there are besides."""
        from dulwich.diff_tree import tree_changes

        if len(commit.parents) > 1 or commit.id in self._shallow:
            return [], 0
        before = self._repo[commit.parents[0]].tree if commit.parents else None  # type: ignore[attr-defined]
        files: list[ChangedFile] = []
        more = 0
        for change in tree_changes(self._repo.object_store, before, commit.tree):
            if len(files) < MAX_FILES:
                files.append(self._changed(change))
            else:
                more += 1
        return files, more

    def _changed(self, change: TreeChange) -> ChangedFile:
        entry = change.new if change.new and change.new.path else change.old
        assert entry is not None
        path = one_line(_text(entry.path or b"", None))
        old, new = (self._lines(side.sha if side else None) for side in (change.old, change.new))
        if old is None or new is None:
            return ChangedFile(path, change.type)
        return ChangedFile(path, change.type, (new - old).total(), (old - new).total())

    def _lines(self, blob_id: bytes | None) -> Counter[bytes] | None:
        """How often each line is in a file; None for what is no text, too large, or not in this repository."""
        from dulwich.objects import Blob

        if blob_id is None:
            return Counter()
        try:
            blob = self._repo.object_store[blob_id]  # type: ignore[index] # ids are bytes
        except KeyError:  # of a submodule, or left out of a partial clone
            return None
        if not isinstance(blob, Blob) or len(blob.data) > MAX_BLOB_BYTES or b"\0" in blob.data[:8192]:
            return None
        return Counter(blob.data.splitlines())


def _merged(commit: Commit) -> Iterator[tuple[str, str]]:
    if len(commit.parents) > 1:
        yield "Merges", ", ".join(parent.decode("ascii")[:12] for parent in commit.parents[1:])


def _listing(files: Sequence[ChangedFile], more: int) -> Iterator[str]:
    if files:
        left_out = [f"- and {more:,} more files"] if more else []
        yield "\n".join(["## Changed files", "", *map(str, files), *left_out])


def _text(data: bytes, encoding: bytes | None) -> str:
    """In the encoding that the commit names, if it is one; bytes that are none become U+FFFD."""
    try:
        return well_formed(data.decode((encoding or b"utf-8").decode("ascii", "replace"), errors="replace"))
    except LookupError:
        return well_formed(data.decode("utf-8", errors="replace"))


def _person(author: str) -> str:
    name, _, address = author.partition("<")
    return one_line(name) or one_line(address.rstrip("> "))

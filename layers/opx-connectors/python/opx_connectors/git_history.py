"""Pulls the history of a git repository, on this machine or at an address: one document per commit.

Commits never change: those that were ingested before are only listed. Every pull lists all commits that the branches
reach, so that commits that are no longer reachable, after a history was rewritten, are noticed.

Over HTTP it is fetched from checked addresses, within limits, and without the files' contents. The protocol is dulwich's
(Apache-2.0 or GPL; used under the former). Every request it makes goes through `CheckedPools`.
"""

from __future__ import annotations

import re
import ssl
import time
import zlib
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from opx.connectors.connector import Batch, Connector, Options, SourceTools, Texts
from opx.domain.ids import iso_time
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.formats.data.replies import OddRecordError
from opx.formats.markdown import block, facts, joined, nested, one_line, reference, relation
from opx.formats.source import well_formed
from opx.hygiene.addresses import AddressBook, Target, target_of

if TYPE_CHECKING:
    from dulwich.client import Urllib3HttpGitClient
    from dulwich.diff_tree import TreeChange
    from dulwich.objects import Commit
    from dulwich.repo import Repo
    from urllib3 import BaseHTTPResponse, HTTPConnectionPool

Addresses = Callable[[str, int], Sequence[str]]

WAIT_SECONDS = 60.0
PAGE_COMMITS = 200
MAX_BRANCHES = 50


class GitHistoryOptions(Options, frozen=True):
    """Address and selection of a history: a `path` of this machine, or a `url`."""

    path: Annotated[
        str,
        about("A working copy or a bare repository that another process keeps up to date, such as git fetch."),
    ] = ""
    url: Annotated[
        str,
        about(
            "The repository's address (https). Its history is fetched in every pull, without the "
            "contents of files: then lines aren't counted."
        ),
    ] = ""
    branches: Annotated[Texts, about("Branches; none means HEAD.")] = ()
    user: Annotated[str, about("The user of the token.")] = "x-access-token"
    token_secret: Annotated[str, about("The name of the secret with the token.")] = ""
    web_url: Annotated[
        str,
        about("The address of a commit's page without its id, such as https://example.org/project/commit."),
    ] = ""
    issue_projects: Annotated[
        Texts,
        about("Keys of Jira projects whose issues are recognised in messages; none means all that looks like one."),
    ] = ()
    skip_merges: Annotated[bool, about("Leave out commits that merge.")] = False
    max_bytes: Annotated[int, about("The size of a fetched history, at most.")] = 200 * 1024 * 1024
    seconds: Annotated[float, about("The time limit of fetching.")] = 600.0


class CheckedPools:
    """Pool manager for dulwich. It follows no redirect: the address has to be the repository's own."""

    def __init__(self, addresses: Addresses, *, max_bytes: int, seconds: float) -> None:
        self.headers: Mapping[str, str] = {"user-agent": "git/opx-knowledge"}
        self._addresses = addresses
        self._left = max_bytes
        self._deadline = time.monotonic() + seconds
        self._open: list[HTTPConnectionPool | BaseHTTPResponse] = []

    def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: Any = None, **_: object
    ) -> BaseHTTPResponse:
        from urllib3 import Timeout

        target = target_of(url)
        response = self._pool(target).urlopen(
            method,
            target.path,
            body=body,
            headers={**headers, "Host": target.netloc},
            retries=False,
            redirect=False,
            assert_same_host=False,
            preload_content=False,
            timeout=Timeout(connect=10.0, read=WAIT_SECONDS),
        )
        response.url = url  # the requested address, not the path: dulwich takes another one for a redirect
        read = response.read

        def counted(amount: int | None = None) -> bytes:
            data = read(amount)
            self._count(data, target)
            return data

        response.read = counted  # type: ignore[method-assign, assignment] # dulwich passes only a size
        self._open.append(response)
        return response

    def close(self) -> None:
        for each in reversed(self._open):
            each.close()

    def _pool(self, target: Target) -> HTTPConnectionPool:
        from urllib3 import HTTPConnectionPool, HTTPSConnectionPool

        address = self._addresses(target.host, target.port)[0]
        pool = (
            HTTPConnectionPool(address, target.port)
            if target.scheme == "http"
            else HTTPSConnectionPool(
                address,
                target.port,
                ssl_context=ssl.create_default_context(),
                assert_hostname=target.host,
                server_hostname=target.host,
            )
        )
        self._open.append(pool)
        return pool

    def _count(self, data: bytes, target: Target) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise SourceRefusedError(
                f"{target.shown}: the history is larger than max_bytes; clone it here and use path"
            )
        if time.monotonic() > self._deadline:
            raise SourceUnavailableError(f"{target.shown}: fetching the history took too long")


@contextmanager
def fetched(remote: GitHistoryOptions, token: str, addresses: Addresses) -> Iterator[Repo]:
    """Fetches the repository's history into a folder that is removed afterwards. Raises as connectors do."""
    from dulwich.repo import Repo

    target_of(remote.url)
    with TemporaryDirectory(prefix="opx-git-") as folder:
        repo = Repo.init_bare(folder)
        try:
            _fetch(remote, token, addresses, repo)
            yield repo
        finally:
            repo.close()


def _fetch(remote: GitHistoryOptions, token: str, addresses: Addresses, repo: Repo) -> None:
    from dulwich.client import HTTPUnauthorized, Urllib3HttpGitClient
    from dulwich.errors import FileFormatException, GitProtocolError, NotGitRepository
    from urllib3.exceptions import HTTPError

    root, _, path = remote.url.rpartition("/")
    pools = CheckedPools(addresses, max_bytes=remote.max_bytes, seconds=remote.seconds)
    login = {"username": remote.user, "password": token} if token else {}
    try:
        client = Urllib3HttpGitClient(root, pool_manager=pools, quiet=True, **login)  # type: ignore[arg-type]
        _keep(client, path, remote, repo)
    except NotGitRepository as exc:
        raise SourceRefusedError(f"{remote.url}: there is no repository that this account may read", 404) from exc
    except HTTPUnauthorized as exc:
        raise SourceRefusedError(f"{remote.url}: the credentials are missing or wrong", 401) from exc
    except (GitProtocolError, HTTPError, OSError) as exc:
        raise SourceUnavailableError(f"{remote.url}: the history could not be fetched: {str(exc)[:200]}") from exc
    except (FileFormatException, zlib.error, ValueError, KeyError, AssertionError) as exc:
        raise SourceShapeError(f"{remote.url}: the reply is not a git history: {exc!r:.200}") from exc
    finally:
        pools.close()


def _keep(client: Urllib3HttpGitClient, path: str, remote: GitHistoryOptions, repo: Repo) -> None:
    """Fetches commits and trees, and creates the branches under their names."""
    names = [b"refs/heads/" + name.encode() for name in remote.branches] or [b"HEAD"]

    def wanted(refs: Mapping[Any, Any], depth: int | None = None) -> list[Any]:  # noqa: ARG001
        missing = [name.decode() for name in names if name not in refs]
        if missing:
            raise SourceRefusedError(f"{remote.url}: no commits on {', '.join(missing)}")
        return [refs[name] for name in names]

    result = client.fetch(path, repo, determine_wants=wanted, filter_spec=b"blob:none")
    kept: Any = repo.refs
    for name in names:
        kept[b"refs/heads/opx-head" if name == b"HEAD" else name] = result.refs[name]  # type: ignore[index]
    if not remote.branches:
        kept.set_symbolic_ref(b"HEAD", b"refs/heads/opx-head")


class GitHistoryConnector(Connector[GitHistoryOptions]):
    """Pulls commits that weren't ingested before."""

    about = "commits of a git repository"

    @classmethod
    def reads_files(cls, options: GitHistoryOptions) -> bool:
        return bool(options.path)

    def __init__(self, definition: SourceDefinition, options: GitHistoryOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        if bool(options.path) == bool(options.url):
            raise InvalidInputError(f"{self.name}: give path or url")
        self._path = self.local_path(options.path) if options.path else Path()
        self._addresses = tools.addresses or AddressBook().addresses_of
        if len(options.branches) > MAX_BRANCHES:
            raise InvalidInputError(f"{self.name}: at most {MAX_BRANCHES} branches, not {len(options.branches)}")

    def probe(self) -> None:
        with self._opened() as repo:
            self._tips(repo)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        with self._opened() as repo:
            tips, done = self._start(repo, request)
            reader = CommitReader(repo, self.options.web_url, self.options.issue_projects)
            commits = islice(self._commits(repo, tips), done, None)
            while batch := list(islice(commits, PAGE_COMMITS)):
                done += len(batch)
                cursor = {"tips": [tip.decode("ascii") for tip in tips], "done": done}
                yield self._page(reader, batch, cursor, new=not request.since)
            yield Page(complete=True)

    def _page(self, reader: CommitReader, commits: list[bytes], cursor: dict[str, object], *, new: bool) -> Page:
        keys = {commit: commit.decode("ascii") for commit in commits}
        known = set() if new else set(self.known(list(keys.values())))
        batch = Batch(unchanged=[key for key in keys.values() if key in known])
        for commit, key in keys.items():
            if key not in known:
                with batch.refusing(key):
                    batch.add(reader.document(commit))
        return batch.page(cursor)

    def _start(self, repo: Repo, request: PullRequest) -> tuple[list[bytes], int]:
        """Returns the commits to begin with, and how many behind them were read: those of an interrupted pull, if they
        still exist, for then the order is the same."""
        tips = [str(tip).encode("ascii") for tip in request.cursor.get("tips", ())]
        store: Container[bytes] = repo.object_store  # type: ignore[assignment] # its ids are bytes
        if tips and all(tip in store for tip in tips):
            return tips, int(request.cursor.get("done", 0))
        return self._tips(repo), 0

    def _tips(self, repo: Repo) -> list[bytes]:
        names = [name.encode() for name in self.options.branches]
        try:
            if not names:
                return [repo.head()]
            return [self._tip(repo, name) for name in names]
        except KeyError as exc:
            missing = exc.args[0].decode(errors="replace") if exc.args and isinstance(exc.args[0], bytes) else "HEAD"
            raise SourceRefusedError(f"{self.name}: {self._where} has no commits on {missing}") from exc

    def _tip(self, repo: Repo, name: bytes) -> bytes:
        """Newest commit of a branch of this repository, or as it was last fetched."""
        known: Mapping[bytes, bytes] = repo.refs.as_dict()  # type: ignore[assignment] # names and ids are bytes
        for branch in (b"refs/heads/" + name, b"refs/remotes/origin/" + name):
            if branch in known:
                return known[branch]
        raise KeyError(name)

    def _commits(self, repo: Repo, tips: list[bytes]) -> Iterator[bytes]:
        from dulwich.errors import MissingCommitError

        try:
            for entry in repo.get_walker(include=tips):  # type: ignore[arg-type] # ids are bytes
                if not (self.options.skip_merges and len(entry.commit.parents) > 1):
                    yield entry.commit.id
        except (MissingCommitError, KeyError) as exc:
            raise SourceShapeError(f"{self.name}: the history in {self._where} is incomplete: {exc}") from exc

    @property
    def _where(self) -> str:
        return self.options.url or str(self._path)

    def _opened(self) -> AbstractContextManager[Repo]:
        if not self.options.url:
            return self._local()
        token = self.secrets.get(self.options.token_secret).strip() if self.options.token_secret else ""
        return fetched(self.options, token, self._addresses)

    @contextmanager
    def _local(self) -> Iterator[Repo]:
        from dulwich.errors import NotGitRepository
        from dulwich.repo import Repo

        try:
            repo = Repo(str(self._path))
        except (NotGitRepository, OSError) as exc:
            raise SourceRefusedError(f"{self.name}: {self._path} is not a readable git repository") from exc
        try:
            yield repo
        finally:
            repo.close()


MAX_FILES = 200
MAX_BLOB_BYTES = 512 * 1024
"""Larger files, and binary ones, are listed without counts."""

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
    """Converts commits of a repository to documents. A merge lists no files: the commits that it merged do."""

    def __init__(self, repo: Repo, web_url: str, projects: Sequence[str]) -> None:
        self._repo = repo
        self._url = web_url.rstrip("/")
        self._projects = frozenset(projects)
        self._shallow = repo.get_shallow()

    def document(self, commit_id: bytes) -> SourceDocument:
        """Converts a commit. Raises `OddRecordError` if it is incomplete."""
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
        """Returns the first changed files, and the number of others."""
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
        """Counts of each line in a file; None for one that is binary, too large, or not in this repository."""
        from dulwich.objects import Blob

        if blob_id is None:
            return Counter()
        try:
            blob = self._repo.object_store[blob_id]  # type: ignore[index] # ids are bytes
        except KeyError:  # in a submodule, or left out of a partial clone
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
    """Decodes with the encoding that the commit names, if it is known; invalid bytes become U+FFFD."""
    try:
        return well_formed(data.decode((encoding or b"utf-8").decode("ascii", "replace"), errors="replace"))
    except LookupError:
        return well_formed(data.decode("utf-8", errors="replace"))


def _person(author: str) -> str:
    name, _, address = author.partition("<")
    return one_line(name) or one_line(address.rstrip("> "))

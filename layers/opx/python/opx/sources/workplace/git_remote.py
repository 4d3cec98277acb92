"""Fetches the history of a repository over HTTP: to checked addresses, within limits, and without the files' contents.

The protocol is dulwich's (Apache-2.0 or GPL; used under the former). Every request it makes goes through `CheckedPools`.
"""

from __future__ import annotations

import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from opx.errors import SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.sources.web.addresses import Target, target_of

if TYPE_CHECKING:
    from dulwich.client import Urllib3HttpGitClient
    from dulwich.repo import Repo
    from urllib3 import BaseHTTPResponse, HTTPConnectionPool

Addresses = Callable[[str, int], Sequence[str]]

WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a repository is, and how far it is fetched. `branches` empty: what its HEAD names."""

    url: str
    branches: tuple[str, ...]
    user: str
    token: str
    max_bytes: int
    seconds: float


class CheckedPools:
    """What dulwich asks for a connection pool. It follows no redirect: the address has to be the repository's own."""

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
        response.url = url  # what was asked for, not the path: dulwich takes another one for a redirect
        read = response.read

        def counted(amount: int | None = None) -> bytes:
            data = read(amount)
            self._count(data, target)
            return data

        response.read = counted  # type: ignore[method-assign, assignment] # dulwich gives a size alone
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
def fetched(remote: Remote, addresses: Addresses) -> Iterator[Repo]:
    """The repository's history in a folder that is removed afterwards. Raises as connectors do."""
    from dulwich.repo import Repo

    target_of(remote.url)
    with TemporaryDirectory(prefix="opx-git-") as folder:
        repo = Repo.init_bare(folder)
        try:
            _fetch(remote, addresses, repo)
            yield repo
        finally:
            repo.close()


def _fetch(remote: Remote, addresses: Addresses, repo: Repo) -> None:
    from dulwich.client import HTTPUnauthorized, Urllib3HttpGitClient
    from dulwich.errors import FileFormatException, GitProtocolError, NotGitRepository
    from urllib3.exceptions import HTTPError

    root, _, path = remote.url.rpartition("/")
    pools = CheckedPools(addresses, max_bytes=remote.max_bytes, seconds=remote.seconds)
    login = {"username": remote.user, "password": remote.token} if remote.token else {}
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
        raise SourceShapeError(f"{remote.url}: what was sent is no history of git: {exc!r:.200}") from exc
    finally:
        pools.close()


def _keep(client: Urllib3HttpGitClient, path: str, remote: Remote, repo: Repo) -> None:
    """Fetch commits and trees, and name the branches as they are there."""
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

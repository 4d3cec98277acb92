"""Sends requests to GitHub's API within its limits, and lists the files of a repository at one commit.

Limits are those of GitHub's documentation, "Rate limits for the REST API": 60 requests an hour without a token, 5,000
with one; secondary limits of 900 points a minute, and a client that continues in spite of a limit may be banned.
Replies that are not modified don't count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from opx.connectors.connector import SourceTools
from opx.domain.sources import RateLimit
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.formats.data.replies import Shape, shaped
from opx.ports.sources import WebReply

S = TypeVar("S", bound=Shape)

BASE_URL = "https://api.github.com"
LIMIT = RateLimit(10, 1.0)
"""600 a minute: below the secondary limit."""

JSON = "application/vnd.github+json"
RAW = "application/vnd.github.raw+json"
PAGE_SIZE = 100

_REPOSITORY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})/[A-Za-z0-9._-]{1,100}\Z")
_NEXT = re.compile(r"<[^<>]*>\s*;[^,<]*\brel=\"?next\b")


class NamedItem(Shape, frozen=True):
    name: str = ""


class User(Shape, frozen=True):
    login: str = ""


class _Error(Shape, frozen=True):
    type: str = ""
    message: str = ""


class _Errors(Shape, frozen=True):
    errors: tuple[_Error, ...] = ()


class _Data(Shape, frozen=True):
    data: dict[str, Any]


class GitHubApi:
    """Requests about repositories. Raises as `WebClient`, and `SourceUnavailableError` at a limit."""

    def __init__(self, tools: SourceTools, *, base_url: str, token_secret: str) -> None:
        self._web = tools.web
        self._clock = tools.clock
        self._base = base_url.rstrip("/")
        self._secrets = tools.secrets
        self._token_secret = token_secret
        self._free_at = 0.0

    def get(
        self, path: str, *, query: Mapping[str, str | int] | None = None, accept: str = JSON, conditional: bool = False
    ) -> WebReply:
        """Returns a reply of the REST API; `path` begins with a slash."""
        self._heed_limit()
        headers = self._headers(accept)
        try:
            reply = self._web.get(self._base + path, query=query, headers=headers, conditional=conditional)
        except SourceRefusedError as exc:
            raise self._explained(exc) from exc
        self._note_limit(reply.headers)
        return reply

    def graphql(self, query: str, variables: Mapping[str, Any], kind: type[S]) -> S:
        """Returns `data` of a GraphQL query. Raises `SourceRefusedError` if the repository or the token doesn't allow it."""
        if not self._token_secret:
            raise SourceRefusedError("GitHub's GraphQL API needs a token: set the option token_secret")
        self._heed_limit()
        try:
            reply = self._web.post(
                self._graphql_url, json={"query": query, "variables": dict(variables)}, headers=self._headers(JSON)
            )
        except SourceRefusedError as exc:
            raise self._explained(exc) from exc
        if reply.gone:
            raise SourceRefusedError(f"{self._graphql_url}: there is no GraphQL API; check base_url", reply.status)
        self._note_limit(reply.headers)
        answer = reply.json()
        _refuse_errors(shaped(_Errors, answer, "GitHub GraphQL"))
        return shaped(kind, shaped(_Data, answer, "GitHub GraphQL").data, "GitHub GraphQL")

    @property
    def _graphql_url(self) -> str:
        """Address beside the REST API: `/graphql`, on an Enterprise server `/api/graphql` where REST is `/api/v3`."""
        return f"{self._base.removesuffix('/v3')}/graphql"

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"accept": accept, "x-github-api-version": "2022-11-28"}
        if self._token_secret:
            headers["authorization"] = f"Bearer {self._secrets.get(self._token_secret)}"
        return headers

    def _heed_limit(self) -> None:
        wait = self._free_at - self._clock()
        if wait > 0:
            more = "" if self._token_secret else "; with a token (option token_secret) there are 5,000 an hour"
            raise SourceUnavailableError(f"GitHub's limit of requests is used up for {wait:.0f} s{more}", wait)

    def _note_limit(self, headers: Mapping[str, str]) -> None:
        remaining, reset = headers.get("x-ratelimit-remaining", ""), headers.get("x-ratelimit-reset", "")
        self._free_at = float(reset) if remaining == "0" and reset.isdigit() else 0.0

    def _explained(self, refused: SourceRefusedError) -> Exception:
        if refused.status == 401:
            return SourceRefusedError("GitHub rejected the token: renew the secret that token_secret names", 401)
        if refused.status == 403:
            hint = (
                "the token lacks the right to read this repository, or an organisation requires single sign-on for it"
            )
            return SourceRefusedError(f"{refused}: {hint}", 403)
        return refused


def checked_repository(name: str) -> str:
    """Returns a repository's `owner/name`. Raises `InvalidInputError`."""
    if not _REPOSITORY.match(name) or name.endswith(("/.", "/..")):
        raise InvalidInputError(f"repository {name!r} must be owner/name, such as kubernetes/kubernetes")
    return name


def has_next(reply: WebReply) -> bool:
    """True if a listing has a next page (`Link` header, RFC 8288)."""
    return bool(_NEXT.search(reply.headers.get("link", "")))


def path_of(*parts: str) -> str:
    """Builds a path from parts that may contain slashes."""
    return "/" + "/".join(quote(part, safe="/") for part in parts)


def site_of(base_url: str) -> str:
    """Address of the web site of an API: `https://github.com`, or an Enterprise server."""
    parts = urlsplit(base_url)
    host = "github.com" if parts.netloc == "api.github.com" else parts.netloc
    return f"{parts.scheme}://{host}"


def listed(reply: WebReply, what: str) -> list[Any]:
    """Returns the items of a listing. Raises `SourceRefusedError` if there is none, and `SourceShapeError`."""
    if reply.gone:
        raise SourceRefusedError(
            f"{what}: GitHub has none (HTTP {reply.status}); check the repository, its settings and the token's rights",
            reply.status,
        )
    found = reply.json()
    if not isinstance(found, list):
        raise SourceShapeError(f"{what}: expected a list; GitHub's format may have changed")
    return found


def _refuse_errors(answer: _Errors) -> None:
    if not answer.errors:
        return
    kind, message = answer.errors[0].type, answer.errors[0].message[:200]
    if kind == "RATE_LIMITED":
        raise SourceUnavailableError(f"GitHub's limit of requests is used up: {message}", 3600.0)
    if kind in ("NOT_FOUND", "FORBIDDEN", "INSUFFICIENT_SCOPES"):
        raise SourceRefusedError(f"GitHub: {message}; check the repository and the token's rights", 403)
    if kind:
        raise SourceShapeError(f"GitHub rejected the query: {message}")
    raise SourceUnavailableError(f"GitHub could not answer: {message}")


_FILE_MODES = ("100644", "100755")
_MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Head:
    """A commit and its tree. Trees never change, so that a known one need not be read again."""

    commit: str
    tree: str


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A file of a tree. `sha` is that of the content: equal contents have equal values. `size` is in bytes."""

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
        """Returns the newest commit of a branch, of the default branch if it is "". Raises `SourceRefusedError`."""
        reply = self._api.get(path_of("repos", self._repository, "commits", branch or "HEAD"))
        if reply.gone:
            where = f"branch {branch}" if branch else "repository"
            raise SourceRefusedError(f"{self._repository}: GitHub shows no such {where}", reply.status)
        found = shaped(_Commit, reply.json(), f"the commit of {self._repository}")
        return Head(found.sha, found.commit.tree.sha)

    def files(self, tree: str, folder: str) -> Iterator[TreeFile]:
        """Lists all files below a folder ("" for the whole tree) by path, without links and submodules.

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
        """Lists files below a tree. A recursive listing is cut at 100,000 entries or 7 MB (GitHub's documentation, "REST API
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
    """Sort key in git's order: a folder as if its name ended with a slash, so that whole paths are in order."""
    return entry.path + ("/" if entry.is_folder else "")

"""GitHub's API on 127.0.0.1 over issues, discussions and files that a test sets.

Listings are paged by `most` entries with a Link header; trees above `most_entries` are truncated, as GitHub's are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from tests.doubles.http_double import Request
from tests.doubles.misbehaving_site import Answer, MisbehavingSite

REPOSITORY = "acme/shop"


def an_issue(number: int, *, updated: str = "", comments: int = 0, **fields: Any) -> dict[str, Any]:
    record = {
        "number": number,
        "title": f"Issue {number}",
        "body": f"It fails, number {number}.",
        "state": "open",
        "state_reason": None,
        "html_url": f"https://github.com/{REPOSITORY}/issues/{number}",
        "labels": [{"name": "bug"}],
        "user": {"login": "ann", "type": "User"},
        "comments": comments,
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": updated or f"2026-02-01T00:00:{number:02d}Z",
        "closed_at": None,
    }
    return {**record, **fields}


def a_comment(text: str, *, by: str = "bob", kind: str = "User", role: str = "NONE") -> dict[str, Any]:
    return {
        "body": text,
        "user": {"login": by, "type": kind},
        "author_association": role,
        "created_at": "2026-01-03T10:00:00Z",
    }


def a_discussion(number: int, *, updated: str = "", **fields: Any) -> dict[str, Any]:
    record = {
        "number": number,
        "title": f"Question {number}",
        "body": "How?",
        "url": f"https://github.com/{REPOSITORY}/discussions/{number}",
        "createdAt": "2026-01-01T00:00:00Z",
        "updatedAt": updated or f"2026-02-01T00:00:{number:02d}Z",
        "author": {"login": "ann"},
        "category": {"name": "Q&A"},
        "labels": {"nodes": [{"name": "network"}]},
        "answer": None,
        "comments": {"nodes": []},
    }
    return {**record, **fields}


class GitHubDouble:
    """Served by a `MisbehavingSite`. `before` is called before each listing is answered, with its parameters."""

    def __init__(self, site: MisbehavingSite, *, most: int = 100, most_entries: int = 1000) -> None:
        self.site = site
        self.most = most
        self.most_entries = most_entries
        self.issues: dict[int, dict[str, Any]] = {}
        self.discussions: dict[int, dict[str, Any]] = {}
        self.listings: list[dict[str, str]] = []
        self.tokens: list[str] = []
        self.headers: dict[str, str] = {}
        self.before: Callable[[dict[str, str]], None] = lambda parameters: None
        self._trees: dict[str, dict[str, bytes]] = {}
        site.on(f"/repos/{REPOSITORY}/issues", self._list_issues)
        site.on("/graphql", self._graphql)

    # -- issues

    def put(self, issue: dict[str, Any], *comments: dict[str, Any]) -> None:
        number = issue["number"]
        self.issues[number] = {**issue, "comments": max(len(comments), issue["comments"])}
        if comments:
            self.site.on(
                f"/repos/{REPOSITORY}/issues/{number}/comments", lambda request: self._paged(request, list(comments))
            )

    def _list_issues(self, request: Request) -> Answer:
        parameters = request.parameters
        self.tokens.append(request.headers.get("authorization", ""))
        if parameters.get("direction") == "desc":
            return self._newest(request)
        self.listings.append(parameters)
        self.before(parameters)
        found = [issue for issue in self.issues.values() if issue["updated_at"] >= parameters.get("since", "")]
        return self._paged(request, sorted(found, key=lambda issue: (issue["updated_at"], issue["number"])))

    def _newest(self, request: Request) -> Answer:
        newest = sorted(self.issues.values(), key=lambda issue: str(issue["updated_at"]))[-1:]
        etag = f'"{hashlib.sha256(repr(newest).encode()).hexdigest()[:8]}"'
        if request.headers.get("if-none-match") == etag:
            return Answer(304, b"", {"ETag": etag})
        return Answer(200, newest, {"ETag": etag, **self.headers})

    def _paged(self, request: Request, found: list[Any]) -> Answer:
        size, page = min(self.most, int(request.parameters["per_page"])), int(request.parameters.get("page", 1))
        start = (page - 1) * size
        headers = dict(self.headers)
        if start + size < len(found):
            headers["Link"] = f'<{self.site.url(request.path)}?page={page + 1}>; rel="next", <http://x/>; rel="last"'
        return Answer(200, found[start : start + size], headers)

    # -- discussions

    def _graphql(self, request: Request) -> Answer:
        variables = request.json()["variables"]
        self.tokens.append(request.headers.get("authorization", ""))
        self.listings.append(variables)
        self.before(variables)
        backwards = variables["direction"] == "DESC"
        found = sorted(self.discussions.values(), key=lambda one: (one["updatedAt"], one["number"]), reverse=backwards)
        if variables["after"]:
            found = [
                one
                for one in found
                if (_mark(one) < variables["after"] if backwards else _mark(one) > variables["after"])
            ]
        shown = found[: min(self.most, variables["count"])]
        info = {"hasNextPage": len(found) > len(shown), "endCursor": _mark(shown[-1]) if shown else None}
        return Answer(200, {"data": {"repository": {"discussions": {"pageInfo": info, "nodes": shown}}}}, self.headers)

    # -- files

    def commit(self, files: dict[str, str | bytes], repository: str = REPOSITORY) -> str:
        """Make these the files of the branch; the commit."""
        data = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
        tree = self._add_tree(repository, data)
        sha = f"c{tree[1:]}"
        body = {"sha": sha, "commit": {"tree": {"sha": tree}, "committer": {"date": "2026-03-01T00:00:00Z"}}}
        self.site.page(f"/repos/{repository}/commits/HEAD", body)
        for path, content in data.items():
            self.site.page(f"/raw/{repository}/{sha}/{path}", content)
            self.site.page(f"/repos/{repository}/contents/{path}", content)
        return sha

    def _add_tree(self, repository: str, files: dict[str, bytes]) -> str:
        sha = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:40]
        folders: dict[str, dict[str, bytes]] = {}
        for path, content in files.items():
            name, slash, rest = path.partition("/")
            folders.setdefault(name if slash else "", {})[rest if slash else path] = content
        own = [_blob(path, content) for path, content in folders.pop("", {}).items()]
        below = {name: self._add_tree(repository, inner) for name, inner in folders.items()}
        flat = [*own, *({"path": n, "type": "tree", "mode": "040000", "sha": s} for n, s in below.items())]
        whole = [_blob(path, content) for path, content in files.items()]
        place = f"/repos/{repository}/git/trees/{sha}"
        self.site.page(place, {"sha": sha, "tree": flat, "truncated": False})
        cut = {"sha": sha, "tree": whole[: self.most_entries], "truncated": len(whole) > self.most_entries}
        self.site.page(f"{place}?recursive=1", cut)
        return sha


def _mark(one: dict[str, Any]) -> str:
    return f"{one['updatedAt']}/{one['number']:06d}"


def _blob(path: str, content: bytes) -> dict[str, Any]:
    sha = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    return {"path": path, "type": "blob", "mode": "100644", "sha": sha, "size": len(content)}

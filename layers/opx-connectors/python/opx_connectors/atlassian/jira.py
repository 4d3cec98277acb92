"""Pulls issues of Jira, in the cloud and in-house.

JQL reads a date in the time zone of the account's profile, and to the minute: changes are queried by milliseconds since
the epoch, which both kinds of Jira accept and which mean the same everywhere.

The cloud pages by a token (`/rest/api/3/search/jql`; the older `/search` is gone there). Data Center pages by position
(`/rest/api/2/search`), and positions shift as issues change: so each page begins at the time of the last issue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from msgspec import field

from opx.connectors.connector import Connector, Options, SourceTools, Texts, read_each
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError
from opx.formats.data.replies import Filled, Loose, OddRecordError, Shape, each_of, odd, shaped, since_of, utc
from opx_connectors.atlassian.access import Api, authorization, root_address
from opx_connectors.atlassian.jira_documents import FIELDS, IssueComment, issue_document

PAGE_ISSUES = 100
PAGE_KEYS = {"cloud": 5_000, "server": 1_000}
"""Issues per page when only keys are requested ("Issue search", Jira Cloud REST API: at most 5,000)."""

STEP_BACK = 20
"""Positions of Data Center that are read twice: as many issues may leave the listing between two pages."""

_CHANGES = "updated ASC, key ASC"
_KEYS = "created ASC, key ASC"
_ORDER = re.compile(r"\border\s+by\b", re.IGNORECASE)


class JiraOptions(Options, frozen=True):
    """Options of Jira. `projects`, `jql` or both select issues."""

    base_url: Annotated[str, about("The address of Jira, such as https://example.atlassian.net.")]
    projects: Annotated[Texts, about("Keys of the projects whose issues are read.")] = ()
    jql: Annotated[str, about("A query in JQL that selects issues, without ORDER BY.")] = ""
    user: Annotated[str, about("The user of the token; left out, the token is a personal access token.")] = ""
    token_secret: Annotated[str, about("The name of the secret with the token.")] = ""
    list_all: Annotated[
        bool,
        about(
            "List all keys at the end of each pull, so that deleted and moved issues are noticed: one "
            "request for 5,000 issues in the cloud, for 1,000 in-house. A pull of everything notices "
            "them anyway."
        ),
    ] = False
    max_comments: Annotated[int, about("Comments of an issue that are read, at most.")] = 50
    extra_fields: Annotated[
        Texts, about("Further text fields with a title, such as customfield_10050=Root cause.")
    ] = ()


class _ServerInfo(Shape, frozen=True, rename="camel"):
    deployment_type: Filled


class _Found(Shape, frozen=True, rename="camel"):
    """Issues of a search. Pages have a token in the cloud, and the number of all issues in-house."""

    issues: list[Any]
    next_page_token: Loose[str] = ""
    is_last: Loose[bool] = False
    total: Loose[int] | None = None


class _Key(Shape, frozen=True):
    key: Filled


class _CommentField(Shape, frozen=True):
    comments: list[Any] = field(default_factory=list)
    total: int | None = None


class _WithComments(Shape, frozen=True):
    comment: _CommentField = _CommentField()


class _CommentsOfIssue(Shape, frozen=True):
    fields: Loose[_WithComments] = _WithComments()


class _Comments(Shape, frozen=True):
    comments: list[Any]


class _WithTime(Shape, frozen=True):
    updated: Filled


class _Changed(Shape, frozen=True):
    fields: _WithTime


class JiraConnector(Connector[JiraOptions]):
    """Pulls one document per issue."""

    about = "issues of Jira, Cloud and Data Center, with comments and links"

    def __init__(self, definition: SourceDefinition, options: JiraOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        self._root = root_address(options.base_url, self.name)
        if not (options.projects or options.jql.strip()):
            raise InvalidInputError(f"{self.name}: give projects, jql, or both")
        if _ORDER.search(options.jql) or len(options.jql) > 2_000:
            raise InvalidInputError(
                f"{self.name}: jql must be a condition of at most 2,000 characters without ORDER BY"
            )
        if not all("=" in each for each in options.extra_fields):
            raise InvalidInputError(f"{self.name}: extra_fields are written as customfield_10050=Root cause")
        self._extra = {each.partition("=")[0]: each.partition("=")[2] for each in options.extra_fields}

    def probe(self) -> None:
        self._search(self._login(), self._jql(), _CHANGES, size=1, fields=["summary"])

    def pull(self, request: PullRequest) -> Iterator[Page]:
        server = self._login()
        cursor: Mapping[str, Any] = request.cursor
        if cursor.get("phase") != "keys":
            for page in self._changes(server, request):
                cursor = page.cursor
                yield page
        if cursor.get("phase") == "keys":
            yield from self._keys(server, cursor)

    def _login(self) -> _Server:
        api = Api(self.web, self._root, authorization(self.options.user, self.options.token_secret, self.secrets))
        reply = api.get("/rest/api/2/serverInfo", "Jira")
        kind = shaped(_ServerInfo, reply.json(), f"{self.name}: {reply.url}").deployment_type.lower()
        return _Server(api, "cloud" if kind == "cloud" else "server")

    # -- changes

    def _changes(self, server: _Server, request: PullRequest) -> Iterator[Page]:
        since = since_of(request.since)
        whole = not since
        ending = {"phase": "keys"} if self.options.list_all and not whole else {}
        position: Mapping[str, Any] = request.cursor
        while True:
            try:
                issues, following = self._step(server, since, position)
            except SourceRefusedError as exc:
                if not _expired(exc, position, request.cursor):
                    raise
                position = {}
                continue
            batch = read_each(issues, lambda issue: self._document(server, issue), _key, self.name)
            seen = max((str(each.metadata["last_updated"]) for each in batch.documents), default="")
            yield batch.page(following or ending, seen_until=seen, complete=whole and not following)
            if not following:
                return
            position = following

    def _step(self, server: _Server, since: str, position: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Returns a page of changes and the position of the next one, {} at the end."""
        began = str(position.get("from") or since)
        token, start = str(position.get("token", "")), int(position.get("start", 0))
        reply = self._search(
            server,
            self._jql(began),
            _CHANGES,
            size=PAGE_ISSUES,
            fields=[*FIELDS, *self._extra],
            token=token,
            start=start,
        )
        issues = reply.issues
        if server.kind == "cloud":
            following = self._next_token(reply, token)
            return issues, {"from": began, "token": following} if following else {}
        if not issues or start + len(issues) >= self._total(reply):
            return issues, {}
        last = _last_change(issues, self.name)
        if last > began:
            return issues, {"from": last}
        return issues, {"from": began, "start": max(start + len(issues) - STEP_BACK, start + 1)}

    # -- keys of all issues

    def _keys(self, server: _Server, cursor: Mapping[str, Any]) -> Iterator[Page]:
        position = cursor
        while True:
            token, start = str(position.get("token", "")), int(position.get("start", 0))
            try:
                reply = self._search(
                    server, self._jql(), _KEYS, size=PAGE_KEYS[server.kind], fields=["key"], token=token, start=start
                )
            except SourceRefusedError as exc:
                if not _expired(exc, position, cursor):
                    raise
                position = {"phase": "keys"}
                continue
            keys = tuple(issue.key for issue in each_of(_Key, reply.issues, self.name))
            position = self._after_keys(server, reply, token, start, len(keys))
            yield Page(unchanged=keys, cursor=position, complete=not position)
            if not position:
                return

    def _after_keys(self, server: _Server, reply: _Found, token: str, start: int, count: int) -> dict[str, Any]:
        if server.kind == "cloud":
            following = self._next_token(reply, token)
            return {"phase": "keys", "token": following} if following else {}
        if not count or start + count >= self._total(reply):
            return {}
        return {"phase": "keys", "start": max(start + count - STEP_BACK, start + 1)}

    # -- requests

    def _jql(self, since: str = "") -> str:
        parts = [f"project in ({', '.join(map(_quoted, self.options.projects))})"] if self.options.projects else []
        if self.options.jql.strip():
            parts.append(f"({self.options.jql.strip()})")
        if since:
            parts.append(f"updated >= {int(datetime.fromisoformat(since).timestamp()) * 1000}")
        return " AND ".join(parts)

    def _search(
        self, server: _Server, jql: str, order: str, *, size: int, fields: list[str], token: str = "", start: int = 0
    ) -> _Found:
        body: dict[str, Any] = {"jql": f"{jql} ORDER BY {order}", "maxResults": size, "fields": fields}
        if server.kind == "cloud":
            body |= {"nextPageToken": token} if token else {}
            reply = server.api.post("/rest/api/3/search/jql", "the search", body)
        else:
            reply = server.api.post("/rest/api/2/search", "the search", {**body, "startAt": start})
        return shaped(_Found, reply.json(), self.name)

    def _next_token(self, reply: _Found, token: str) -> str:
        """Token of the next page, "" after the last one."""
        following = reply.next_page_token
        if reply.is_last or not following:
            return ""
        if following == token:
            raise SourceShapeError(f"{self.name}: the search returns the same page repeatedly")
        return following

    def _total(self, reply: _Found) -> int:
        if reply.total is None:
            raise SourceShapeError(f"{self.name}: expected a number 'total' in the reply")
        return reply.total

    # -- an issue

    def _document(self, server: _Server, issue: Any) -> SourceDocument:
        comments, more = self._comments(server, issue)
        return issue_document(issue, comments=comments, more=more, extra=self._extra, root=self._root)

    def _comments(self, server: _Server, issue: Any) -> tuple[list[Any], int]:
        """Returns the newest comments, newest first, and the number of others; a search returns only some of many."""
        found = odd(_CommentsOfIssue, issue).fields.comment
        given, total = found.comments, len(found.comments) if found.total is None else found.total
        most = self.options.max_comments
        if total > len(given) and most > 0:
            path = f"/rest/api/{3 if server.kind == 'cloud' else 2}/issue/{odd(_Key, issue).key}/comment"
            reply = server.api.request(path, {"orderBy": "-created", "maxResults": most})
            given = given if reply.gone else shaped(_Comments, reply.json(), self.name).comments
        latest = sorted(given, key=lambda each: odd(IssueComment, each).time, reverse=True)[: max(most, 0)]
        return latest, max(total, len(given)) - len(latest)


@dataclass(frozen=True, slots=True)
class _Server:
    """A Jira server: `kind` is `cloud` or `server`, `api` sends requests to it."""

    api: Api
    kind: str


def _expired(refusal: SourceRefusedError, position: Mapping[str, Any], cursor: Mapping[str, Any]) -> bool:
    """True if the refused token is that of an earlier pull: tokens are valid for a week."""
    return refusal.status == 400 and position is cursor and bool(position.get("token"))


def _last_change(issues: list[Any], of: str) -> str:
    try:
        return max(utc(odd(_Changed, issue).fields.updated, "fields.updated") for issue in issues)
    except OddRecordError as exc:
        raise SourceShapeError(f"{of}: {exc}, by which the next page is found") from exc


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _key(issue: Any) -> str:
    key = issue.get("key") if isinstance(issue, dict) else None
    return key if key and isinstance(key, str) else "(an issue without a key)"

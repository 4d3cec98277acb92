"""Pulls issues of a GitHub repository with their comments, closed ones too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from opx.connectors.connector import Connector, Options, SourceTools, Texts, page_of
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.formats.data.replies import Shape, shaped
from opx_connectors.forums.threads import Post, checked_time, described, thread
from opx_connectors.github.api import (
    BASE_URL,
    LIMIT,
    PAGE_SIZE,
    GitHubApi,
    NamedItem,
    User,
    checked_repository,
    has_next,
    listed,
    path_of,
)

_MAINTAINERS = ("OWNER", "MEMBER", "COLLABORATOR")


class GitHubIssuesOptions(Options, frozen=True):
    """Selection of issues. Comments of bots are left out."""

    repository: Annotated[str, about("The repository, as owner/name.")]
    labels: Annotated[Texts, about("Only issues that have all of these labels.")] = ()
    include_pull_requests: Annotated[bool, about("Read pull requests too.")] = False
    max_comments: Annotated[int, about("Comments of an issue that are read, at most.")] = 100
    token_secret: Annotated[str, about("The name of the secret with the token.")] = ""
    base_url: Annotated[str, about("The address of the API; on an Enterprise server it ends with /api/v3.")] = BASE_URL


class _Listed(Shape, frozen=True):
    """The part of an issue that paging needs."""

    number: int
    updated_at: str

    @property
    def name(self) -> str:
        return f"issue {self.number}"


class _Issue(_Listed, frozen=True):
    title: str
    html_url: str = ""
    labels: tuple[str | NamedItem, ...] = ()
    user: User = User()
    created_at: str = ""
    closed_at: str = ""
    state: str = ""
    state_reason: str = ""
    body: str = ""
    comments: int = 0


class GitHubComment(Shape, frozen=True):
    user: User = User()
    author_association: str = ""
    created_at: str = ""
    body: str = ""


class GitHubIssues(Connector[GitHubIssuesOptions]):
    """Issues of a repository with their comments.

    They are read in the order of their last change. GitHub has no accepted answers for issues: comments stay in
    chronological order, those by the project's maintainers are marked.

    Each page requests the issues that changed since the last one of the page before, so that issues which change meanwhile
    are seen again instead of moving others past the page's end. Sources: GitHub's documentation, "REST API endpoints for
    issues" and "... for issue comments".
    """

    about = "issues of a GitHub repository, with their comments"
    limit = LIMIT

    def __init__(self, definition: SourceDefinition, options: GitHubIssuesOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        self._path = path_of("repos", checked_repository(options.repository), "issues")
        self._api = GitHubApi(tools, base_url=options.base_url, token_secret=options.token_secret)

    def probe(self) -> None:
        for item in listed(self._api.get(self._path, query={"per_page": 1, "state": "all"}), self._path):
            _checked(item)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        if not request.cursor and self._is_unchanged() and request.since:
            yield Page()
            return
        position = _Position.of(request)
        again: frozenset[int] = frozenset()
        while True:
            reply = self._api.get(self._path, query=self._query(position))
            items = listed(reply, self._path)
            issues = [_checked(item) for item in items]
            more = has_next(reply) and bool(issues)
            fresh = [
                (issue.number, item) for issue, item in zip(issues, items, strict=True) if issue.number not in again
            ]
            again = position.seen_again(issues)
            position = position.after(issues)
            yield self._page(fresh, position, complete=not more and not request.since)
            if not more:
                return

    def _is_unchanged(self) -> bool:
        """True if no issue has changed since the pull before; such a request doesn't count towards the limit."""
        query: dict[str, str | int] = {"state": "all", "sort": "updated", "direction": "desc", "per_page": 1}
        return self._api.get(self._path, query=query, conditional=True).not_modified

    def _query(self, position: _Position) -> dict[str, str | int]:
        query: dict[str, str | int] = {
            "state": "all",
            "sort": "updated",
            "direction": "asc",
            "per_page": PAGE_SIZE,
            "page": position.page,
        }
        if position.since:
            query["since"] = position.since
        if self.options.labels:
            query["labels"] = ",".join(self.options.labels)
        return query

    def _page(self, issues: list[tuple[int, Any]], position: _Position, *, complete: bool) -> Page:
        wanted = (
            (f"issues/{number}", item)
            for number, item in issues
            if self.options.include_pull_requests or "pull_request" not in item
        )
        return page_of(wanted, self._document, cursor=position.cursor(), seen_until=position.since, complete=complete)

    def _document(self, key: str, item: Any) -> SourceDocument | None:
        """Returns the issue with its comments; None if it was deleted or moved meanwhile."""
        issue = shaped(_Issue, item, f"issue {item['number']}")
        comments = self._comments(issue)
        if comments is None:
            return None
        title = issue.title.strip() or f"Issue {issue.number}"
        metadata = described(
            title=title,
            address=issue.html_url,
            # Labels are objects; old Enterprise servers list names.
            tags=[label if isinstance(label, str) else label.name for label in issue.labels],
            updated=checked_time(issue.updated_at, issue.name),
            created=checked_time(issue.created_at, issue.name),
            author=issue.user.login,
        )
        return SourceDocument(key, thread(title, _state(issue), issue.body, comments), metadata)

    def _comments(self, issue: _Issue) -> list[Post] | None:
        wanted = min(issue.comments, self.options.max_comments)
        posts: list[Post] = []
        page = 1
        while wanted > 0:
            path = f"{self._path}/{issue.number}/comments"
            reply = self._api.get(path, query={"per_page": PAGE_SIZE, "page": page})
            if reply.gone:
                return None
            found = listed(reply, path)
            posts += [
                post_of(shaped(GitHubComment, item, f"comment on {issue.name}")) for item in found if not is_bots(item)
            ]
            if len(posts) >= self.options.max_comments or not has_next(reply):
                break
            page += 1
        return posts[: self.options.max_comments]


@dataclass(frozen=True, slots=True)
class _Position:
    """Position of a pull: page `page` of the issues that changed at `since` (ISO 8601) or later."""

    since: str
    page: int

    @classmethod
    def of(cls, request: PullRequest) -> _Position:
        if not request.cursor:
            return cls(request.since, 1)
        return cls(str(request.cursor.get("since", "")), int(request.cursor.get("page", 1)))

    def after(self, issues: list[_Listed]) -> _Position:
        """Returns the next position: the next page only while more changed in one second than a page holds."""
        last = issues[-1].updated_at if issues else self.since
        return _Position(last, 1) if last != self.since else _Position(self.since, self.page + 1)

    def seen_again(self, issues: list[_Listed]) -> frozenset[int]:
        """Returns the issues of a page that the next one may begin with: those that changed in its last second."""
        last = issues[-1].updated_at if issues else ""
        if last == self.since:
            return frozenset()  # the next is another page of the same listing
        return frozenset(issue.number for issue in issues if issue.updated_at == last)

    def cursor(self) -> dict[str, Any]:
        return {"since": self.since, "page": self.page}


def _checked(item: Any) -> _Listed:
    """Returns the part of an issue that paging needs. Raises `SourceShapeError`."""
    issue = shaped(_Listed, item, "an issue")
    checked_time(issue.updated_at, issue.name)
    return issue


def _state(issue: _Issue) -> str:
    state, reason = issue.state, issue.state_reason.replace("_", " ")
    closed = checked_time(issue.closed_at, issue.name)[:10]
    if state != "closed":
        return "State: open" if state else ""
    return "State: closed" + (f" as {reason}" if reason else "") + (f" on {closed}" if closed else "")


def is_bots(item: Any) -> bool:
    user = item.get("user") if isinstance(item, Mapping) else None
    return isinstance(user, Mapping) and user.get("type") == "Bot"


def post_of(comment: GitHubComment) -> Post:
    author = comment.user.login or "somebody"
    role = " (of the project)" if comment.author_association in _MAINTAINERS else ""
    written = checked_time(comment.created_at, "a comment")[:10]
    return Post(f"Comment by {author}{role}" + (f" on {written}" if written else ""), comment.body)

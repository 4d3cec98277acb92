"""Discussions of a GitHub repository, the accepted answer first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opx.domain.sources import Page, PullRequest, RateLimit, SourceDefinition, SourceDocument
from opx.errors import SourceRefusedError, SourceShapeError
from opx.sources.community.fields import Record
from opx.sources.community.github_api import BASE_URL, LIMIT, GitHubApi, checked_repository
from opx.sources.community.pages import page_of
from opx.sources.community.threads import Post, checked_time, described, thread
from opx.sources.connector import Connector, Options, SourceTools, Texts

PAGE_SIZE = 25
"""With 50 comments and 10 replies to each, some 14,000 nodes a query; GitHub allows 500,000."""

_QUERY = """
query($owner: String!, $name: String!, $after: String, $direction: OrderDirection!, $count: Int!) {
  repository(owner: $owner, name: $name) {
    discussions(first: $count, after: $after, orderBy: {field: UPDATED_AT, direction: $direction}) {
      pageInfo { hasNextPage endCursor }
      nodes {
        number title body url createdAt updatedAt
        author { login }
        category { name }
        labels(first: 20) { nodes { name } }
        answer { id body author { login } }
        comments(first: 50) {
          nodes {
            id body isMinimized
            author { login }
            replies(first: 10) { nodes { id body isMinimized author { login } } }
          }
        }
      }
    }
  }
}
"""


class GitHubDiscussionsOptions(Options, frozen=True):
    """`repository` is owner/name. With `categories`, only discussions in one of these (by name, as shown); with
    `answered_only`, only those with an accepted answer. GitHub's GraphQL API needs a token, also for public ones."""

    repository: str
    token_secret: str
    categories: Texts = ()
    answered_only: bool = False
    base_url: str = BASE_URL


class GitHubDiscussions(Connector[GitHubDiscussionsOptions]):
    """Discussions of a repository, the accepted answer first.

    Everything is read in the order of change: what changes meanwhile comes again at the end. Changes are read
    backwards until where the last pull was, as the API can't begin at a time: what changes meanwhile is for the next
    pull. Hidden comments are left out; of comments the first 50 are taken, of replies the first 10.

    Source: GitHub's documentation, "Using the GraphQL API for Discussions".
    """

    options_type = GitHubDiscussionsOptions

    def __init__(self, definition: SourceDefinition, options: GitHubDiscussionsOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        self._owner, _, self._name = checked_repository(options.repository).partition("/")
        self._api = GitHubApi(
            tools.web, tools.secrets, tools.clock, base_url=options.base_url, token_secret=options.token_secret
        )

    @classmethod
    def rate_limit(cls, options: GitHubDiscussionsOptions) -> RateLimit:  # noqa: ARG003
        return LIMIT

    def probe(self) -> None:
        self._listing("DESC", "", 1)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        direction = "DESC" if request.since else "ASC"
        after, seen = str(request.cursor.get("after", "")), str(request.cursor.get("seen", ""))
        while True:
            found = self._listing(direction, after, PAGE_SIZE)
            nodes = [_checked(node) for node in found.items("nodes", needed=True)]
            changed = [node for node in nodes if _updated(node) >= request.since]
            seen = max([seen, *map(_updated, changed)])
            info = found.record("pageInfo", needed=True)
            more = info.flag("hasNextPage") and len(changed) == len(nodes)
            before, after = after, info.text("endCursor", needed=more)
            if more and after == before:
                raise SourceShapeError("GitHub GraphQL: a page of discussions leads to itself")
            last = not more
            yield page_of(
                ((f"discussions/{node.number('number')}", node) for node in changed),
                self._read,
                cursor={"after": after, "seen": seen},
                seen_until=seen if last or direction == "ASC" else "",
                complete=last and not request.since,
            )
            if last:
                return

    def _listing(self, direction: str, after: str, count: int) -> Record:
        variables = {
            "owner": self._owner,
            "name": self._name,
            "after": after or None,
            "direction": direction,
            "count": count,
        }
        data = self._api.graphql(_QUERY, variables)
        if data.data.get("repository") is None:
            raise SourceRefusedError(f"{self.options.repository}: GitHub shows no such repository to this token", 404)
        return data.record("repository").record("discussions", needed=True)

    def _read(self, key: str, node: Record) -> SourceDocument | None:
        """The discussion; None if it was moved to another category, or its answer was taken back."""
        return _document(key, node) if self._is_wanted(node) else None

    def _is_wanted(self, node: Record) -> bool:
        chosen = self.options.categories
        if chosen and node.record("category").text("name") not in chosen:
            return False
        return not self.options.answered_only or node.data.get("answer") is not None


def _checked(item: Any) -> Record:
    node = Record.of(item, "a discussion")
    number = node.number("number", needed=True)
    checked_time(node.text("updatedAt", needed=True), f"discussion {number}")
    return Record(node.data, f"discussion {number}")


def _updated(node: Record) -> str:
    return checked_time(node.text("updatedAt"), node.name)


def _document(key: str, node: Record) -> SourceDocument:
    title = node.text("title", needed=True)
    category = node.record("category").text("name")
    labels = [label.text("name") for label in node.record("labels").records("nodes")]
    answer = node.record("answer")
    facts = f"Category: {category}. " if category else ""
    facts += "Answered." if answer.data else "Without an accepted answer."
    metadata = described(
        title=title,
        address=node.text("url"),
        tags=[*labels, *([category] if category else [])],
        updated=_updated(node),
        created=checked_time(node.text("createdAt"), node.name),
        author=_author(node),
    )
    return SourceDocument(key, thread(title, facts, node.text("body"), _posts(node, answer)), metadata)


def _posts(node: Record, answer: Record) -> Iterator[Post]:
    """The answer, and then the comments with the replies to them. The answer may be a reply itself."""
    known = answer.text("id") if answer.data else ""
    if answer.data:
        yield Post(f"Accepted answer by {_author(answer)}", answer.text("body"))
    for comment in node.record("comments").records("nodes"):
        if comment.flag("isMinimized"):
            continue
        if not known or comment.text("id") != known:
            yield Post(f"Comment by {_author(comment)}", comment.text("body"))
        for reply in comment.record("replies").records("nodes"):
            if not reply.flag("isMinimized") and not (known and reply.text("id") == known):
                yield Post(f"Reply by {_author(reply)} to {_author(comment)}", reply.text("body"))


def _author(node: Record) -> str:
    return node.record("author").text("login") or "somebody"

"""Pulls discussions of a GitHub repository, the accepted answer first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from opx.connectors.connector import Connector, Options, SourceTools, Texts, page_of
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import SourceRefusedError, SourceShapeError
from opx.formats.data.replies import Shape, shaped
from opx_connectors.forums.threads import Post, checked_time, described, thread
from opx_connectors.github.api import BASE_URL, LIMIT, GitHubApi, NamedItem, User, checked_repository

PAGE_SIZE = 25
"""Discussions per query. With 50 comments and 10 replies each, some 14,000 nodes; GitHub allows 500,000."""

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
    """Selection of discussions."""

    repository: Annotated[str, about("The repository, as owner/name.")]
    token_secret: Annotated[
        str,
        about("The name of the secret with a token, which GitHub's GraphQL API needs for public repositories too."),
    ]
    categories: Annotated[Texts, about("Only discussions in one of these categories, by name as shown.")] = ()
    answered_only: Annotated[bool, about("Read only discussions with an accepted answer.")] = False
    base_url: Annotated[str, about("The address of the API, for an Enterprise server.")] = BASE_URL


class _Labels(Shape, frozen=True):
    nodes: tuple[NamedItem, ...] = ()


class _Reply(Shape, frozen=True, rename="camel"):
    id: str = ""
    body: str = ""
    author: User = User()
    is_minimized: bool = False

    @property
    def by(self) -> str:
        return self.author.login or "somebody"


class _Replies(Shape, frozen=True):
    nodes: tuple[_Reply, ...] = ()


class _Comment(_Reply, frozen=True, rename="camel"):
    replies: _Replies = _Replies()


class _Comments(Shape, frozen=True):
    nodes: tuple[_Comment, ...] = ()


class _Listed(Shape, frozen=True, rename="camel"):
    """The part of a discussion that paging needs."""

    number: int
    updated_at: str

    @property
    def name(self) -> str:
        return f"discussion {self.number}"

    @property
    def updated(self) -> str:
        return checked_time(self.updated_at, self.name)


class _Discussion(_Listed, frozen=True, rename="camel"):
    title: str
    body: str = ""
    url: str = ""
    created_at: str = ""
    author: User = User()
    category: NamedItem = NamedItem()
    labels: _Labels = _Labels()
    answer: _Reply | None = None
    comments: _Comments = _Comments()


class _PageInfo(Shape, frozen=True, rename="camel"):
    has_next_page: bool = False
    end_cursor: str = ""


class _Discussions(Shape, frozen=True, rename="camel"):
    nodes: tuple[Any, ...]
    page_info: _PageInfo


class _Repository(Shape, frozen=True):
    discussions: _Discussions


class _Found(Shape, frozen=True):
    repository: _Repository | None = None


class GitHubDiscussions(Connector[GitHubDiscussionsOptions]):
    """Discussions of a repository, the accepted answer first.

    A first pull reads all in the order of change: discussions that change meanwhile are listed again at the end. Later
    pulls read changes backwards to the position of the last pull, as the API can't begin at a time: changes made meanwhile
    are for the next pull. Hidden comments are left out; the first 50 comments are included, and the first 10 replies.

    Source: GitHub's documentation, "Using the GraphQL API for Discussions".
    """

    about = "discussions of a GitHub repository, with their answers"
    limit = LIMIT

    def __init__(self, definition: SourceDefinition, options: GitHubDiscussionsOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        self._owner, _, self._name = checked_repository(options.repository).partition("/")
        self._api = GitHubApi(tools, base_url=options.base_url, token_secret=options.token_secret)

    def probe(self) -> None:
        self._listing("DESC", "", 1)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        direction = "DESC" if request.since else "ASC"
        after, seen = str(request.cursor.get("after", "")), str(request.cursor.get("seen", ""))
        while True:
            found = self._listing(direction, after, PAGE_SIZE)
            nodes = [(shaped(_Listed, node, "a discussion"), node) for node in found.nodes]
            changed = [(listed, node) for listed, node in nodes if listed.updated >= request.since]
            seen = max([seen, *(listed.updated for listed, _ in changed)])
            more = found.page_info.has_next_page and len(changed) == len(nodes)
            before, after = after, found.page_info.end_cursor
            if more and after == before:
                raise SourceShapeError("GitHub GraphQL: a page of discussions leads to itself")
            last = not more
            yield page_of(
                ((f"discussions/{listed.number}", node) for listed, node in changed),
                self._read,
                cursor={"after": after, "seen": seen},
                seen_until=seen if last or direction == "ASC" else "",
                complete=last and not request.since,
            )
            if last:
                return

    def _listing(self, direction: str, after: str, count: int) -> _Discussions:
        variables = {
            "owner": self._owner,
            "name": self._name,
            "after": after or None,
            "direction": direction,
            "count": count,
        }
        found = self._api.graphql(_QUERY, variables, _Found)
        if found.repository is None:
            raise SourceRefusedError(f"{self.options.repository}: GitHub shows no such repository to this token", 404)
        return found.repository.discussions

    def _read(self, key: str, node: Any) -> SourceDocument | None:
        """Returns the discussion; None if it was moved to another category, or its answer was withdrawn."""
        found = shaped(_Discussion, node, f"discussion {node['number']}")
        return _document(key, found) if self._is_wanted(found) else None

    def _is_wanted(self, found: _Discussion) -> bool:
        chosen = self.options.categories
        if chosen and found.category.name not in chosen:
            return False
        return not self.options.answered_only or found.answer is not None


def _document(key: str, found: _Discussion) -> SourceDocument:
    category = found.category.name
    facts = f"Category: {category}. " if category else ""
    facts += "Answered." if found.answer else "Without an accepted answer."
    metadata = described(
        title=found.title,
        address=found.url,
        tags=[*(label.name for label in found.labels.nodes), *([category] if category else [])],
        updated=found.updated,
        created=checked_time(found.created_at, found.name),
        author=found.author.login or "somebody",
    )
    return SourceDocument(key, thread(found.title, facts, found.body, _posts(found)), metadata)


def _posts(found: _Discussion) -> Iterator[Post]:
    """Posts of a discussion: the answer, then the comments with their replies. The answer may be a reply itself."""
    known = found.answer.id if found.answer else ""
    if found.answer:
        yield Post(f"Accepted answer by {found.answer.by}", found.answer.body)
    for comment in found.comments.nodes:
        if comment.is_minimized:
            continue
        if not known or comment.id != known:
            yield Post(f"Comment by {comment.by}", comment.body)
        for reply in comment.replies.nodes:
            if not reply.is_minimized and not (known and reply.id == known):
                yield Post(f"Reply by {reply.by} to {comment.by}", reply.body)

"""Pulls topics of forums that run Discourse, as many vendors' do; the post marked as the solution comes first."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from opx.connectors.connector import Connector, Options, SourceTools, Texts, page_of
from opx.domain.knowledge import Category, Tier
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, RateLimit, SourceDefinition, SourceDocument
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, UnparsableDocumentError
from opx.formats.data.replies import Shape, shaped
from opx.formats.source import HEAD_BYTES, Source
from opx_connectors.forums.threads import Post, checked_time, described, thread

POSTS_A_REQUEST = 20
_REGULAR_POST = 1
_CATEGORY = re.compile(r"[\w-]+(?:/[\w-]+)*\Z")
_NO_CATEGORY = Category("web/forums", Tier.INTERNET, 0.5, "permanent", "")
"""The HTML parser doesn't look at it."""


class DiscourseOptions(Options, frozen=True):
    """Selection of topics."""

    base_url: Annotated[str, about("The forum's address.")]
    categories: Annotated[
        Texts,
        about(
            "Categories as in the forum's addresses, such as support/5; none means all that are "
            "public, or visible to the user of the key."
        ),
    ] = ()
    solved_only: Annotated[bool, about("Read only topics with a solution.")] = False
    max_posts: Annotated[int, about("Posts of a topic that are read, at most.")] = 40
    key_secret: Annotated[str, about("The name of the secret with an API key.")] = ""
    key_user: Annotated[str, about("The user of the API key.")] = "system"


class _Listed(Shape, frozen=True):
    """A topic as listed."""

    id: int
    bumped_at: str
    pinned: bool = False
    pinned_globally: bool = False

    @property
    def bumped(self) -> str:
        return checked_time(self.bumped_at, f"topic {self.id}")

    @property
    def stands_above(self) -> bool:
        """Pinned topics stand at the top of a list, whenever they were bumped."""
        return self.pinned or self.pinned_globally


class _TopicList(Shape, frozen=True):
    topics: tuple[_Listed, ...]
    more_topics_url: str = ""


class _Listing(Shape, frozen=True):
    topic_list: _TopicList


class _Tag(Shape, frozen=True):
    name: str = ""


class _Post(Shape, frozen=True):
    id: int
    post_type: int = 0
    post_number: int = 0
    username: str = ""
    cooked: str = ""
    accepted_answer: bool = False


class _Stream(Shape, frozen=True):
    posts: tuple[_Post, ...]
    stream: tuple[Any, ...] = ()


class _Accepted(Shape, frozen=True):
    post_number: int = 0


class _Topic(Shape, frozen=True):
    title: str
    post_stream: _Stream
    slug: str = ""
    tags: tuple[str | _Tag, ...] = ()
    created_at: str = ""
    accepted_answer: _Accepted = _Accepted()


class _MorePosts(Shape, frozen=True):
    post_stream: _Stream


class Discourse(Connector[DiscourseOptions]):
    """Topics of a forum that runs Discourse, the solution first.

    They are read from the one that was bumped last down to the position of the last pull: topics that are bumped meanwhile
    move others down, so that those come twice and none is missed. After a pull of everything the beginning is read again,
    for topics that were bumped before they were read: only then all topics were listed.

    A topic's posts by people are included up to `max_posts`, besides the solution. Sources: Discourse API documentation,
    "Topics" and "Categories"; the fields of the solution are those of the plugin Discourse Solved.
    """

    about = "topics of a vendor's forum that runs on Discourse"
    limit = RateLimit(30, 10.0)  # a forum's own default is 50 requests in 10 seconds and 200 in a minute

    def __init__(self, definition: SourceDefinition, options: DiscourseOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        for category in options.categories:
            if not _CATEGORY.match(category):
                raise InvalidInputError(
                    f"categories: {category!r} must be as in the forum's addresses, such as support/5"
                )
        self._base = options.base_url.rstrip("/")
        self._lists = tuple(f"/c/{category}/l/latest.json" for category in options.categories) or ("/latest.json",)

    def probe(self) -> None:
        for path in self._lists:
            self._topics(path, 0)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        position = _Position.of(request)
        while True:
            topics, more = self._topics(self._lists[position.at], position.page)
            seen = max([position.seen, *(topic.bumped for topic in topics)])
            wanted = [topic for topic in topics if topic.bumped >= position.floor]
            more = more and all(topic.stands_above or topic.bumped >= position.floor for topic in topics)
            position = position.after(seen, more=more, lists=len(self._lists), everything=not request.since)
            last = position.phase == "done"
            yield page_of(
                ((f"t/{topic.id}", topic) for topic in wanted),
                self._document,
                cursor=position.cursor(),
                seen_until=position.begun if last else "",
                complete=last and not request.since,
            )
            if last:
                return

    def _topics(self, path: str, page: int) -> tuple[tuple[_Listed, ...], bool]:
        """Returns a page of the listing, and True if more pages follow."""
        reply = self._get(path, {"order": "activity", "ascending": "false", "no_definitions": "true", "page": page})
        if reply is None:
            raise SourceRefusedError(f"{self._base}{path}: the forum has no such list, or it is not public", 404)
        listing = shaped(_Listing, reply, self._base + path).topic_list
        for topic in listing.topics:
            checked_time(topic.bumped_at, f"topic {topic.id}")
        return listing.topics, bool(listing.more_topics_url) and bool(listing.topics)

    def _get(self, path: str, query: Mapping[str, str | int] | None = None) -> Any:
        """Returns the object of a reply, None if there is none (any more)."""
        headers = {"accept": "application/json"}
        if self.options.key_secret:
            headers |= {"api-key": self.secrets.get(self.options.key_secret), "api-username": self.options.key_user}
        reply = self.web.get(self._base + path, query=query, headers=headers)
        if reply.gone:
            return None
        found = reply.json()
        if not isinstance(found, dict):
            raise SourceShapeError(f"{self._base}{path}: expected an object; the forum's format may have changed")
        return found

    # -- topics

    def _document(self, key: str, listed: _Listed) -> SourceDocument | None:
        """Returns the topic; None if it was deleted or hidden meanwhile, or has no solution although one is required."""
        number = listed.id
        reply = self._visible(f"/t/{number}.json")
        if reply is None or reply.get("deleted_at"):
            return None
        topic = shaped(_Topic, reply, f"topic {number}")
        solution = self._solution(number, topic)
        if self.options.solved_only and solution is None:
            return None
        posts = [post for post in self._posts(number, topic) if post.post_type in (0, _REGULAR_POST)]
        first = posts[0] if posts and posts[0].post_number == 1 else None
        tags = [tag if isinstance(tag, str) else tag.name for tag in topic.tags]  # newer forums list objects
        metadata = described(
            title=topic.title,
            address=f"{self._base}/t/{topic.slug or 'topic'}/{number}",
            tags=[*tags, *(["solved"] if solution else [])],
            updated=listed.bumped,
            created=checked_time(topic.created_at, f"topic {number}"),
            author=first.username if first else "",
        )
        facts = "Solved." if solution else ""
        body = _markdown(first) if first else ""
        return SourceDocument(key, thread(topic.title, facts, body, _sections(posts, first, solution)), metadata)

    def _visible(self, path: str) -> Any:
        """Returns the reply; None if there is none, or if access is denied: a topic moved to a restricted category."""
        try:
            return self._get(path)
        except SourceRefusedError as exc:
            if exc.status == 403:
                return None
            raise

    def _posts(self, number: int, topic: _Topic) -> list[_Post]:
        """Returns the first posts; those that are not in the topic itself are fetched by their ids."""
        posts = list(topic.post_stream.posts)
        known = {post.id for post in posts}
        wanted = [each for each in topic.post_stream.stream[: self.options.max_posts] if each not in known]
        for start in range(0, len(wanted), POSTS_A_REQUEST):
            ids = wanted[start : start + POSTS_A_REQUEST]
            more = self._get(f"/t/{number}/posts.json?{urlencode([('post_ids[]', each) for each in ids])}")
            if more:
                posts += shaped(_MorePosts, more, f"posts of topic {number}").post_stream.posts
        return sorted(posts, key=lambda post: post.post_number)[: self.options.max_posts]

    def _solution(self, number: int, topic: _Topic) -> _Post | None:
        """Returns the post that was accepted as the answer."""
        accepted = topic.accepted_answer.post_number
        for post in topic.post_stream.posts:
            if post.accepted_answer or (accepted and post.post_number == accepted):
                return post
        reply = self._visible(f"/posts/by_number/{number}/{accepted}.json") if accepted else None
        return None if reply is None else shaped(_Post, reply, f"post {accepted} of topic {number}")


@dataclass(frozen=True, slots=True)
class _Position:
    """Position of a pull: page `page` of list `at`, down to topics bumped at `floor`. `phase` is `all`, then `again` for
    topics that were bumped since the pull began (`begun`, by the forum's time), then `done`. `seen` is the newest time
    seen."""

    at: int
    page: int
    floor: str
    phase: str
    begun: str
    seen: str

    @classmethod
    def of(cls, request: PullRequest) -> _Position:
        cursor = request.cursor
        if not cursor or cursor.get("phase") == "done":
            return cls(0, 0, request.since, "all", "", "")
        names = ("floor", "phase", "begun", "seen")
        return cls(int(cursor["at"]), int(cursor["page"]), *(str(cursor[name]) for name in names))

    def after(self, seen: str, *, more: bool, lists: int, everything: bool) -> _Position:
        begun = self.begun or seen
        if more:
            return _Position(self.at, self.page + 1, self.floor, self.phase, begun, seen)
        if self.at + 1 < lists:
            return _Position(self.at + 1, 0, self.floor, self.phase, begun, seen)
        if self.phase == "all" and everything and begun:
            return _Position(0, 0, begun, "again", begun, seen)
        return _Position(0, 0, self.floor, "done", begun, seen)

    def cursor(self) -> dict[str, Any]:
        return asdict(self)


def _sections(posts: list[_Post], first: _Post | None, solution: _Post | None) -> Iterator[Post]:
    if solution:
        yield Post(f"Solution by {solution.username or 'somebody'}", _markdown(solution))
    shown = {first.post_number if first else 0, solution.post_number if solution else 0}
    for post in posts:
        if post.post_number not in shown:
            yield Post(f"Reply by {post.username or 'somebody'}", _markdown(post))


def _markdown(post: _Post) -> str:
    """Converts a post's HTML to Markdown; "" for one without text. Raises `SourceShapeError` for unreadable HTML."""
    from opx.formats.sandbox.apart import parse_html

    if not post.cooked.strip():
        return ""
    data = f"<main>{post.cooked}</main>".encode("utf-8", "replace")
    source = Source(f"post {post.id}.html", data[:HEAD_BYTES], io.BytesIO(data[HEAD_BYTES:]), _NO_CATEGORY)
    try:
        return "".join(parse_html(source).lines)
    except UnparsableDocumentError as exc:
        if "no text of its own" in str(exc):
            return ""
        raise SourceShapeError(f"a post: {exc}") from exc

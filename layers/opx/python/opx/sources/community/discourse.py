"""Topics of forums that run Discourse, as many vendors' do; what was marked as the solution comes first."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from opx.domain.knowledge import Category, Tier
from opx.domain.sources import Page, PullRequest, RateLimit, SourceDefinition, SourceDocument
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, UnparsableDocumentError
from opx.ingestion.parsing.source import HEAD_BYTES, Source
from opx.sources.community.fields import Record
from opx.sources.community.pages import page_of
from opx.sources.community.threads import Post, checked_time, described, thread
from opx.sources.connector import Connector, Options, SourceTools, Texts

POSTS_A_REQUEST = 20
_REGULAR_POST = 1
_CATEGORY = re.compile(r"[\w-]+(?:/[\w-]+)*\Z")
_NO_CATEGORY = Category("web/forums", Tier.INTERNET, 0.5, "permanent", "")
"""The HTML parser doesn't look at it."""


class DiscourseOptions(Options, frozen=True):
    """`base_url` is the forum's address. `categories` are as in its addresses, `slug/id` (`support/5`); without them all
    topics are read that anybody may see, or the user of the key. With `solved_only`, only topics with a solution."""

    base_url: str
    categories: Texts = ()
    solved_only: bool = False
    max_posts: int = 40
    key_secret: str = ""
    key_user: str = "system"


class Discourse(Connector[DiscourseOptions]):
    """Topics of a forum that runs Discourse, the solution first.

    They are read from the one that was bumped last to the one where the last pull was: what is bumped meanwhile moves
    others down, so that they come twice and none is missed. After a pull of everything the beginning is read again, for
    what was bumped before it was read: only then all topics were named.

    A topic's posts by people are taken up to `max_posts`, besides the solution. Sources: Discourse API documentation,
    "Topics" and "Categories"; the fields of the solution are those of the plugin Discourse Solved.
    """

    options_type = DiscourseOptions

    def __init__(self, definition: SourceDefinition, options: DiscourseOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        for category in options.categories:
            if not _CATEGORY.match(category):
                raise InvalidInputError(
                    f"categories: {category!r} must be as in the forum's addresses, such as support/5"
                )
        self._base = options.base_url.rstrip("/")
        self._lists = tuple(f"/c/{category}/l/latest.json" for category in options.categories) or ("/latest.json",)

    @classmethod
    def rate_limit(cls, options: DiscourseOptions) -> RateLimit:  # noqa: ARG003
        return RateLimit(30, 10.0)  # a forum's own default is 50 requests in 10 seconds and 200 in a minute

    def probe(self) -> None:
        for path in self._lists:
            self._topics(path, 0)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        place = _Place.of(request)
        while True:
            topics, more = self._topics(self._lists[place.at], place.page)
            seen = max([place.seen, *map(_bumped, topics)])
            wanted = [topic for topic in topics if _bumped(topic) >= place.floor]
            more = more and all(_is_pinned(topic) or _bumped(topic) >= place.floor for topic in topics)
            place = place.after(seen, more=more, lists=len(self._lists), everything=not request.since)
            last = place.phase == "done"
            yield page_of(
                ((f"t/{topic.number('id')}", topic) for topic in wanted),
                self._document,
                cursor=place.cursor(),
                seen_until=place.begun if last else "",
                complete=last and not request.since,
            )
            if last:
                return

    def _topics(self, path: str, page: int) -> tuple[list[Record], bool]:
        """A page of the listing, and whether it goes on."""
        reply = self._get(path, {"order": "activity", "ascending": "false", "no_definitions": "true", "page": page})
        if reply is None:
            raise SourceRefusedError(f"{self._base}{path}: the forum has no such list, or not for everybody", 404)
        listing = reply.record("topic_list", needed=True)
        topics = [_checked(item) for item in listing.items("topics", needed=True)]
        return topics, bool(listing.text("more_topics_url")) and bool(topics)

    def _get(self, path: str, query: Mapping[str, str | int] | None = None) -> Record | None:
        """The reply, None if there is nothing (any more)."""
        headers = {"accept": "application/json"}
        if self.options.key_secret:
            headers |= {"api-key": self.secrets.get(self.options.key_secret), "api-username": self.options.key_user}
        reply = self.web.get(self._base + path, query=query, headers=headers)
        return None if reply.gone else Record.of(reply.json(), self._base + path)

    # -- topics

    def _document(self, key: str, listed: Record) -> SourceDocument | None:
        """The topic; None if it was deleted or hidden meanwhile, or has no solution although one is wanted."""
        number = listed.number("id")
        topic = self._visible(f"/t/{number}.json")
        if topic is None or topic.data.get("deleted_at"):
            return None
        solution = self._solution(number, topic)
        if self.options.solved_only and solution is None:
            return None
        posts = [post for post in self._posts(number, topic) if post.number("post_type") in (0, _REGULAR_POST)]
        first = posts[0] if posts and posts[0].number("post_number") == 1 else None
        title = topic.text("title", needed=True)
        tags = [_tag(tag) for tag in topic.items("tags")]
        metadata = described(
            title=title,
            address=f"{self._base}/t/{topic.text('slug') or 'topic'}/{number}",
            tags=[*tags, *(["solved"] if solution else [])],
            updated=_bumped(listed),
            created=checked_time(topic.text("created_at"), topic.name),
            author=first.text("username") if first else "",
        )
        facts = "Solved." if solution else ""
        body = _markdown(first) if first else ""
        return SourceDocument(key, thread(title, facts, body, _sections(posts, first, solution)), metadata)

    def _visible(self, path: str) -> Record | None:
        """The reply; None if there is nothing, or nothing for us: a topic that was moved to where we may not look."""
        try:
            return self._get(path)
        except SourceRefusedError as exc:
            if exc.status == 403:
                return None
            raise

    def _posts(self, number: int, topic: Record) -> list[Record]:
        """The first posts, those that are not in the topic itself asked for by their ids."""
        stream = topic.record("post_stream", needed=True)
        posts = [Record.of(item, f"a post of topic {number}") for item in stream.items("posts", needed=True)]
        known = {post.number("id", needed=True) for post in posts}
        wanted = [each for each in stream.items("stream")[: self.options.max_posts] if each not in known]
        for start in range(0, len(wanted), POSTS_A_REQUEST):
            ids = wanted[start : start + POSTS_A_REQUEST]
            more = self._get(f"/t/{number}/posts.json?{urlencode([('post_ids[]', each) for each in ids])}")
            if more:
                posts += more.record("post_stream", needed=True).records("posts", needed=True)
        return sorted(posts, key=lambda post: post.number("post_number"))[: self.options.max_posts]

    def _solution(self, number: int, topic: Record) -> Record | None:
        """The post that was accepted as the answer."""
        accepted = topic.record("accepted_answer").number("post_number")
        stream = topic.record("post_stream", needed=True).records("posts")
        for post in stream:
            if post.flag("accepted_answer") or (accepted and post.number("post_number") == accepted):
                return post
        return self._visible(f"/posts/by_number/{number}/{accepted}.json") if accepted else None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a pull is: page `page` of list `at`, down to topics bumped at `floor`. `phase` is `all`, then `again` for
    what was bumped since the pull `begun` (by the forum's time), then `done`. `seen` is the newest time seen."""

    at: int
    page: int
    floor: str
    phase: str
    begun: str
    seen: str

    @classmethod
    def of(cls, request: PullRequest) -> _Place:
        cursor = request.cursor
        if not cursor or cursor.get("phase") == "done":
            return cls(0, 0, request.since, "all", "", "")
        names = ("floor", "phase", "begun", "seen")
        return cls(int(cursor["at"]), int(cursor["page"]), *(str(cursor[name]) for name in names))

    def after(self, seen: str, *, more: bool, lists: int, everything: bool) -> _Place:
        begun = self.begun or seen
        if more:
            return _Place(self.at, self.page + 1, self.floor, self.phase, begun, seen)
        if self.at + 1 < lists:
            return _Place(self.at + 1, 0, self.floor, self.phase, begun, seen)
        if self.phase == "all" and everything and begun:
            return _Place(0, 0, begun, "again", begun, seen)
        return _Place(0, 0, self.floor, "done", begun, seen)

    def cursor(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "page": self.page,
            "floor": self.floor,
            "phase": self.phase,
            "begun": self.begun,
            "seen": self.seen,
        }


def _checked(item: Any) -> Record:
    topic = Record.of(item, "a topic")
    number = topic.number("id", needed=True)
    checked_time(topic.text("bumped_at", needed=True), f"topic {number}")
    return Record(topic.data, f"topic {number}")


def _bumped(topic: Record) -> str:
    return checked_time(topic.text("bumped_at"), topic.name)


def _is_pinned(topic: Record) -> bool:
    """Pinned topics stand at the top of a list, whenever they were bumped."""
    return topic.flag("pinned") or topic.flag("pinned_globally")


def _tag(tag: Any) -> str:
    """A name; newer forums list objects."""
    return tag if isinstance(tag, str) else Record.of(tag, "a tag").text("name")


def _sections(posts: list[Record], first: Record | None, solution: Record | None) -> Iterator[Post]:
    if solution:
        yield Post(f"Solution by {solution.text('username') or 'somebody'}", _markdown(solution))
    shown = {first.number("post_number") if first else 0, solution.number("post_number") if solution else 0}
    for post in posts:
        if post.number("post_number") not in shown:
            yield Post(f"Reply by {post.text('username') or 'somebody'}", _markdown(post))


def _markdown(post: Record) -> str:
    """A post's HTML as Markdown; "" for one without text. Raises `SourceShapeError` for HTML that can't be read."""
    from opx.ingestion.parsing.html import parse_html

    cooked = post.text("cooked")
    if not cooked.strip():
        return ""
    data = f"<main>{cooked}</main>".encode("utf-8", "replace")
    source = Source(f"{post.name}.html", data[:HEAD_BYTES], io.BytesIO(data[HEAD_BYTES:]), _NO_CATEGORY)
    try:
        return "".join(parse_html(source).lines)
    except UnparsableDocumentError as exc:
        if "no text of its own" in str(exc):
            return ""
        raise SourceShapeError(f"a post: {exc}") from exc

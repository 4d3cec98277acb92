"""A Discourse forum on 127.0.0.1 with topics that a test sets: listings from the one bumped last, 20 posts a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.doubles.http_double import Request
from tests.doubles.misbehaving_site import Answer, MisbehavingSite


def a_topic(number: int, *, bumped: str = "", **fields: Any) -> dict[str, Any]:
    record = {
        "id": number,
        "title": f"Topic {number}",
        "slug": f"topic-{number}",
        "created_at": "2026-01-01T00:00:00.000Z",
        "bumped_at": bumped or f"2026-02-01T00:00:{number:02d}.250Z",
        "tags": ["vpn"],
        "pinned": False,
    }
    return {**record, **fields}


def a_post(number: int, html: str, *, by: str = "ann", **fields: Any) -> dict[str, Any]:
    return {"id": 1000 + number, "post_number": number, "post_type": 1, "username": by, "cooked": html, **fields}


class DiscourseDouble:
    """Served by a `MisbehavingSite`. `before` is called before each listing is answered, with its parameters."""

    def __init__(self, site: MisbehavingSite, *, most: int = 30, most_posts: int = 20) -> None:
        self.site = site
        self.most = most
        self.most_posts = most_posts
        self.topics: dict[int, dict[str, Any]] = {}
        self.posts: dict[int, list[dict[str, Any]]] = {}
        self.listings: list[dict[str, str]] = []
        self.keys: set[str] = set()
        self.before: Callable[[dict[str, str]], None] = lambda parameters: None
        site.on("/latest.json", self._list)

    def put(self, topic: dict[str, Any], *posts: dict[str, Any], path: str = "/latest.json") -> None:
        number = topic["id"]
        self.topics[number] = topic
        self.posts[number] = list(posts) or [a_post(1, f"<p>Text {number}</p>")]
        self.site.on(f"/t/{number}.json", lambda request: Answer(200, self._topic(number)))
        self.site.on(f"/t/{number}/posts.json", lambda request: Answer(200, self._chosen(number, request)))
        for post in posts:
            self.site.page(f"/posts/by_number/{number}/{post['post_number']}.json", post)

    def delete(self, number: int, *, listed: bool = False) -> None:
        """`listed`: it was still listed when the listing was made."""
        self.site.remove(f"/t/{number}.json")
        if not listed:
            del self.topics[number]

    def _list(self, request: Request) -> Answer:
        parameters = request.parameters
        self.keys.add(request.headers.get("api-key", ""))
        self.listings.append(parameters)
        self.before(parameters)
        topics = sorted(self.topics.values(), key=lambda topic: (topic["pinned"], topic["bumped_at"]), reverse=True)
        start = int(parameters["page"]) * self.most
        listing: dict[str, Any] = {"per_page": self.most, "topics": topics[start : start + self.most]}
        if start + self.most < len(topics):
            listing["more_topics_url"] = f"/latest?page={int(parameters['page']) + 1}"
        return Answer(200, {"users": [], "topic_list": listing})

    def _topic(self, number: int) -> dict[str, Any]:
        posts = self.posts[number]
        stream = {"posts": posts[: self.most_posts], "stream": [post["id"] for post in posts]}
        return {**self.topics[number], "post_stream": stream}

    def _chosen(self, number: int, request: Request) -> dict[str, Any]:
        wanted = {int(value) for name, value in parse_qsl(urlsplit(request.target).query) if name == "post_ids[]"}
        return {"post_stream": {"posts": [post for post in self.posts[number] if post["id"] in wanted]}}

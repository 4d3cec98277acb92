"""Doubles of two forums: Discourse, and the API of Stack Exchange."""

from __future__ import annotations

import gzip
import json
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


BEGAN = 1_770_000_000


def a_question(number: int, *, at: int = 0, **fields: Any) -> dict[str, Any]:
    record = {
        "question_id": number,
        "title": f"Question &quot;{number}&quot;",
        "body_markdown": f"Why &lt;{number}&gt;?",
        "tags": ["nginx"],
        "score": 5,
        "link": f"https://stackoverflow.com/questions/{number}",
        "creation_date": BEGAN,
        "last_activity_date": at or BEGAN + number,
        "owner": {"display_name": "Ann &amp; Bob"},
        "answers": [],
    }
    return {**record, **fields}


def an_answer(number: int, text: str, *, score: int = 3, accepted: bool = False) -> dict[str, Any]:
    return {
        "answer_id": number,
        "body_markdown": text,
        "score": score,
        "is_accepted": accepted,
        "owner": {"display_name": f"user {number}"},
    }


class StackExchangeDouble:
    """Served by a `MisbehavingSite`. `wrapper` has more fields of each reply; `before` is called before a listing."""

    def __init__(self, site: MisbehavingSite, *, most: int = 100) -> None:
        self.site = site
        self.most = most
        self.questions: dict[int, dict[str, Any]] = {}
        self.listings: list[dict[str, str]] = []
        self.filters: list[dict[str, str]] = []
        self.wrapper: dict[str, Any] = {"quota_remaining": 290}
        self.before: Callable[[dict[str, str]], None] = lambda parameters: None
        site.on("/2.3/questions", self._list)
        site.on("/2.3/filters/create", self._filter)

    def put(self, *questions: dict[str, Any]) -> None:
        self.questions.update({question["question_id"]: question for question in questions})

    def _list(self, request: Request) -> Answer:
        parameters = request.parameters
        self.listings.append(parameters)
        self.before(parameters)
        tags, since = parameters["tagged"].split(";"), int(parameters.get("min", 0))
        found = [
            question
            for question in self.questions.values()
            if question["last_activity_date"] >= since and set(tags) <= set(question["tags"])
        ]
        found.sort(key=lambda question: (question["last_activity_date"], question["question_id"]))
        size, page = min(self.most, int(parameters["pagesize"])), int(parameters["page"])
        shown = found[(page - 1) * size : page * size]
        return packed({"items": shown, "has_more": len(found) > page * size, **self.wrapper})

    def _filter(self, request: Request) -> Answer:
        self.filters.append(request.parameters)
        return packed({"items": [{"filter": "!made", "filter_type": "safe"}], **self.wrapper})


def packed(body: Any) -> Answer:
    headers = {"Content-Type": "application/json; charset=utf-8", "Content-Encoding": "gzip"}
    return Answer(200, gzip.compress(json.dumps(body).encode()), headers)

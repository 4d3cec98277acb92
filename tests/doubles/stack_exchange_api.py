"""The Stack Exchange API on 127.0.0.1 over questions that a test sets; replies are always compressed, as its own are."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

from tests.doubles.http_double import Request
from tests.doubles.misbehaving_site import Answer, MisbehavingSite

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

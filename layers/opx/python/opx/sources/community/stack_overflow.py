"""Questions of Stack Overflow and its sister sites with their answers, the accepted one first."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from opx.domain.sources import Page, PullRequest, RateLimit, SourceDefinition, SourceDocument
from opx.domain.times import iso_time
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.sources.community.fields import Record
from opx.sources.community.pages import page_of
from opx.sources.community.threads import Post, described, thread
from opx.sources.connector import Connector, Options, SourceTools, Texts

PAGE_SIZE = 100
MAX_PAUSE_SECONDS = 60
_FIELDS = (
    ".backoff",
    ".error_id",
    ".error_message",
    ".has_more",
    ".items",
    ".quota_remaining",
    "answer.answer_id",
    "answer.body_markdown",
    "answer.is_accepted",
    "answer.owner",
    "answer.score",
    "question.accepted_answer_id",
    "question.answers",
    "question.body_markdown",
    "question.closed_reason",
    "question.creation_date",
    "question.last_activity_date",
    "question.link",
    "question.owner",
    "question.question_id",
    "question.score",
    "question.tags",
    "question.title",
    "shallow_user.display_name",
)


class StackOverflowOptions(Options, frozen=True):
    """`site` is the API's name of one (`stackoverflow`, `serverfault`, `unix`, `dba`). `tags`: questions with at least
    one of them; several that must come together are one entry, joined by `;`. Questions and answers below `min_score`
    are left out, but for accepted answers; of answers the best `max_answers` are taken.

    `filter` is a filter of the API; left out, one is made: it names the fields that are read. `key_secret` names the
    key of an application, with which 10,000 requests a day are free instead of 300.
    """

    tags: Texts
    site: str = "stackoverflow"
    min_score: int = 1
    answered_only: bool = False
    max_answers: int = 10
    key_secret: str = ""
    filter: str = ""
    base_url: str = "https://api.stackexchange.com/2.3"


class StackOverflow(Connector[StackOverflowOptions]):
    """Questions of a Stack Exchange site with their answers.

    They are read tag by tag, in the order of their last activity. Each page asks for what was active since the last
    question of the one before: pages beyond the 25th need a user's token, and questions that change meanwhile would
    move others past a page's end.

    A question with several of the tags comes with each, and is the same document. Sources: Stack Exchange API
    documentation, "Usage of /questions", "Throttles", "Custom Filters", "Common Wrapper Object".
    """

    options_type = StackOverflowOptions

    def __init__(self, definition: SourceDefinition, options: StackOverflowOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        if not options.tags:
            raise InvalidInputError("stack_overflow: give at least one tag; a whole site is more than can be pulled")
        self.sleep: Callable[[float], None] = time.sleep
        self._filter = options.filter
        self._pause = 0

    @classmethod
    def rate_limit(cls, options: StackOverflowOptions) -> RateLimit:  # noqa: ARG003
        return RateLimit(20, 1.0)  # more than 30 a second are banned for a while

    def probe(self) -> None:
        for item in self._questions(self.options.tags[0], _Place(0, 0, 1), 1).items("items", needed=True):
            _checked(item)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        since = _seconds(request.since)
        place = _Place.of(request.cursor, since)
        while True:
            again: frozenset[int] = frozenset()
            more = True
            while more:
                answer = self._questions(self.options.tags[place.tag], place, PAGE_SIZE)
                questions = [_checked(item) for item in answer.items("items", needed=True)]
                more = answer.flag("has_more") and bool(questions)
                fresh = [one for one in questions if one.number("question_id") not in again]
                again = place.seen_again(questions)
                place = place.after(questions) if more else _Place(place.tag + 1, since, 1)
                last = place.tag == len(self.options.tags)
                yield self._page(fresh, place.cursor(), complete=last and not since)
                if last:
                    return
                self._heed_quota(answer)

    def _questions(self, tag: str, place: _Place, size: int) -> Record:
        query: dict[str, str | int] = {
            "site": self.options.site,
            "tagged": tag,
            "sort": "activity",
            "order": "asc",
            "page": place.page,
            "pagesize": size,
            "filter": self._made_filter(),
        }
        if place.since:
            query["min"] = place.since
        return self._asked("/questions", query)

    def _made_filter(self) -> str:
        """Filters never change or expire: asking for the same fields again gives the same one."""
        if not self._filter:
            query: dict[str, str | int] = {"base": "none", "include": ";".join(_FIELDS), "unsafe": "false"}
            made = self._asked("/filters/create", query).records("items", needed=True)
            if not made:
                raise SourceShapeError("Stack Exchange made no filter; give one as the option filter")
            self._filter = made[0].text("filter", needed=True)
        return self._filter

    def _asked(self, path: str, query: Mapping[str, str | int]) -> Record:
        if self._pause:
            self.sleep(self._pause)
            self._pause = 0
        sent = dict(query)
        if self.options.key_secret:
            sent["key"] = self.secrets.get(self.options.key_secret)
        try:
            reply = self.web.get(self.options.base_url.rstrip("/") + path, query=sent)
        except SourceRefusedError as exc:
            if exc.status != 400:
                raise
            hint = "check the options site, tags, filter and the key; or there were too many requests: wait a day"
            raise SourceRefusedError(f"Stack Exchange doesn't take the request (400): {hint}", 400) from exc
        if reply.gone:
            raise SourceRefusedError(f"Stack Exchange knows no {path}; check base_url", reply.status)
        answer = Record.of(reply.json(), "Stack Exchange")
        if answer.data.get("error_id") is not None:
            message = answer.text("error_message")[:200]
            raise SourceRefusedError(f"Stack Exchange: error {answer.number('error_id')}: {message}", 400)
        return answer

    def _heed_quota(self, answer: Record) -> None:
        """Wait as the API asks before the next request, or end the pull if that is for longer."""
        pause = answer.number("backoff")
        if answer.data.get("quota_remaining") == 0:
            wait = _until_midnight(self.clock())
            more_quota = "" if self.options.key_secret else "; with a key (option key_secret) there are 10,000 a day"
            raise SourceUnavailableError(f"Stack Exchange's requests of today are used up{more_quota}", wait)
        if pause > MAX_PAUSE_SECONDS:
            raise SourceUnavailableError(f"Stack Exchange asks to wait for {pause} s", float(pause))
        self._pause = max(0, pause)

    def _page(self, questions: list[Record], cursor: dict[str, int], *, complete: bool) -> Page:
        keyed = ((f"{self.options.site}/{question.number('question_id')}", question) for question in questions)
        return page_of(keyed, self._read, cursor=cursor, complete=complete)

    def _read(self, key: str, question: Record) -> SourceDocument | None:
        """The question; None if it was wanted once, and was voted down since."""
        return self._document(key, question) if self._is_wanted(question) else None

    def _is_wanted(self, question: Record) -> bool:
        if self.options.answered_only and not question.data.get("accepted_answer_id"):
            return False
        return question.number("score", needed=True) >= self.options.min_score

    def _document(self, key: str, question: Record) -> SourceDocument:
        title = html.unescape(question.text("title", needed=True))
        closed = question.text("closed_reason")
        facts = f"Score {question.number('score')}." + (f" Closed: {html.unescape(closed)}." if closed else "")
        body = html.unescape(question.text("body_markdown", needed=True))
        metadata = described(
            title=title,
            address=question.text("link", needed=True),
            tags=[str(tag) for tag in question.items("tags")],
            updated=iso_time(question.number("last_activity_date")),
            created=iso_time(question.number("creation_date")) if question.data.get("creation_date") else "",
            author=_author(question),
        )
        return SourceDocument(key, thread(title, facts, body, self._answers(question)), metadata)

    def _answers(self, question: Record) -> Iterator[Post]:
        ranked = sorted(
            question.records("answers"), key=lambda each: (not each.flag("is_accepted"), -each.number("score"))
        )
        for answer in ranked[: self.options.max_answers]:
            accepted, score = answer.flag("is_accepted"), answer.number("score")
            if accepted or score >= self.options.min_score:
                kind = "Accepted answer" if accepted else "Answer"
                yield Post(f"{kind} by {_author(answer)}, score {score}", html.unescape(answer.text("body_markdown")))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a pull is: page `page` of the questions with the tag at `tag` that were active at `since` or later (in
    seconds since the epoch)."""

    tag: int
    since: int
    page: int

    @classmethod
    def of(cls, cursor: Mapping[str, Any], since: int) -> _Place:
        if not cursor:
            return cls(0, since, 1)
        return cls(int(cursor["tag"]), int(cursor["since"]), int(cursor["page"]))

    def after(self, questions: list[Record]) -> _Place:
        last = questions[-1].number("last_activity_date")
        return _Place(self.tag, last, 1) if last != self.since else _Place(self.tag, self.since, self.page + 1)

    def seen_again(self, questions: list[Record]) -> frozenset[int]:
        """The questions that the next page may begin with: those of this one's last second."""
        last = questions[-1].number("last_activity_date") if questions else 0
        if last == self.since:
            return frozenset()
        return frozenset(one.number("question_id") for one in questions if one.number("last_activity_date") == last)

    def cursor(self) -> dict[str, int]:
        return {"tag": self.tag, "since": self.since, "page": self.page}


def _checked(item: Any) -> Record:
    question = Record.of(item, "a question")
    number = question.number("question_id", needed=True)
    question.number("last_activity_date", needed=True)
    return Record(question.data, f"question {number}")


def _author(item: Record) -> str:
    return html.unescape(item.record("owner").text("display_name")) or "somebody"


def _seconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp()) if moment else 0


def _until_midnight(now: float) -> float:
    today = datetime.fromtimestamp(now, UTC)
    midnight = (today + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return (midnight - today).total_seconds()

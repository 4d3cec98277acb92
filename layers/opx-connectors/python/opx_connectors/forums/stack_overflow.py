"""Pulls questions of Stack Overflow and its sister sites with their answers, the accepted one first."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from opx.connectors.connector import Connector, Options, SourceTools, Texts, page_of
from opx.domain.ids import iso_time
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, RateLimit, SourceDefinition, SourceDocument
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.formats.data.replies import Shape, each_of, shaped
from opx_connectors.forums.threads import Post, described, thread

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
    """Selection of questions and answers."""

    tags: Annotated[
        Texts,
        about(
            "Questions with at least one of these tags; several that must come together are one "
            "entry, joined by a semicolon."
        ),
    ]
    site: Annotated[str, about("The API's name of the site, such as stackoverflow, serverfault, unix or dba.")] = (
        "stackoverflow"
    )
    min_score: Annotated[
        int, about("Questions and answers below this score are left out, but for accepted answers.")
    ] = 1
    answered_only: Annotated[bool, about("Read only questions with an accepted answer.")] = False
    max_answers: Annotated[int, about("The best answers of a question that are read, at most.")] = 10
    key_secret: Annotated[
        str,
        about("The name of the secret with the key of an application: 10,000 requests a day instead of 300."),
    ] = ""
    filter: Annotated[
        str, about("A filter of the API; left out, one is created that lists the fields that are read.")
    ] = ""
    base_url: Annotated[str, about("The address of the API.")] = "https://api.stackexchange.com/2.3"


class _Owner(Shape, frozen=True):
    display_name: str = ""


class _Answer(Shape, frozen=True):
    owner: _Owner = _Owner()
    score: int = 0
    is_accepted: bool = False
    body_markdown: str = ""


class _Listed(Shape, frozen=True):
    """The part of a question that paging needs."""

    question_id: int
    last_activity_date: int


class _Wanted(Shape, frozen=True):
    """The part of a question that decides whether it is included."""

    score: int


class _Question(_Listed, frozen=True):
    title: str
    link: str
    body_markdown: str
    score: int = 0
    closed_reason: str = ""
    creation_date: int = 0
    owner: _Owner = _Owner()
    tags: tuple[Any, ...] = ()
    answers: tuple[_Answer, ...] = ()


class _Wrapper(Shape, frozen=True):
    """The object around every reply ("Common Wrapper Object")."""

    items: tuple[Any, ...] | None = None
    has_more: bool = False
    backoff: int = 0
    quota_remaining: Any = None
    error_id: int | None = None
    error_message: str = ""


class _MadeFilter(Shape, frozen=True):
    filter: str


class StackOverflow(Connector[StackOverflowOptions]):
    """Questions of a Stack Exchange site with their answers.

    They are read tag by tag, in the order of their last activity. Each page requests the questions that were active since
    the last one of the page before: pages beyond the 25th need a user's token, and questions that change meanwhile would
    move others past a page's end.

    A question with several of the tags is listed with each, and is one document. Sources: Stack Exchange API
    documentation, "Usage of /questions", "Throttles", "Custom Filters", "Common Wrapper Object".
    """

    about = "questions of Stack Overflow and its sister sites, with their answers"
    limit = RateLimit(20, 1.0)  # more than 30 a second are banned for a while

    def __init__(self, definition: SourceDefinition, options: StackOverflowOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        if not options.tags:
            raise InvalidInputError("stack_overflow: give at least one tag; a whole site is more than can be pulled")
        self.sleep: Callable[[float], None] = time.sleep
        self._filter = options.filter
        self._pause = 0

    def probe(self) -> None:
        for item in _items(self._questions(self.options.tags[0], _Position(0, 0, 1), 1)):
            _checked(item)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        since = int(datetime.fromisoformat(request.since).timestamp()) if request.since else 0
        position = _Position.of(request.cursor, since)
        while True:
            again: frozenset[int] = frozenset()
            more = True
            while more:
                answer = self._questions(self.options.tags[position.tag], position, PAGE_SIZE)
                questions = [(_checked(item), item) for item in _items(answer)]
                more = answer.has_more and bool(questions)
                fresh = [(one.question_id, item) for one, item in questions if one.question_id not in again]
                again = position.seen_again([one for one, _ in questions])
                position = position.after(questions[-1][0]) if more else _Position(position.tag + 1, since, 1)
                last = position.tag == len(self.options.tags)
                keyed = ((f"{self.options.site}/{number}", item) for number, item in fresh)
                yield page_of(keyed, self._read, cursor=position.cursor(), complete=last and not since)
                if last:
                    return
                self._heed_quota(answer)

    def _questions(self, tag: str, position: _Position, size: int) -> _Wrapper:
        query: dict[str, str | int] = {
            "site": self.options.site,
            "tagged": tag,
            "sort": "activity",
            "order": "asc",
            "page": position.page,
            "pagesize": size,
            "filter": self._made_filter(),
        }
        if position.since:
            query["min"] = position.since
        return self._request("/questions", query)

    def _made_filter(self) -> str:
        """Creates the filter, or returns the given one. Filters never change or expire: the same fields give the same one."""
        if not self._filter:
            query: dict[str, str | int] = {"base": "none", "include": ";".join(_FIELDS), "unsafe": "false"}
            made = each_of(_MadeFilter, _items(self._request("/filters/create", query)), "Stack Exchange")
            if not made:
                raise SourceShapeError("Stack Exchange created no filter; set the option filter")
            self._filter = made[0].filter
        return self._filter

    def _request(self, path: str, query: Mapping[str, str | int]) -> _Wrapper:
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
            raise SourceRefusedError(f"Stack Exchange rejected the request (400): {hint}", 400) from exc
        if reply.gone:
            raise SourceRefusedError(f"Stack Exchange knows no {path}; check base_url", reply.status)
        answer = shaped(_Wrapper, reply.json(), "Stack Exchange")
        if answer.error_id is not None:
            raise SourceRefusedError(f"Stack Exchange: error {answer.error_id}: {answer.error_message[:200]}", 400)
        return answer

    def _heed_quota(self, answer: _Wrapper) -> None:
        """Waits as the API requests before the next request, or ends the pull if the wait is longer."""
        pause = answer.backoff
        if answer.quota_remaining == 0:
            wait = _until_midnight(self.clock())
            more_quota = "" if self.options.key_secret else "; with a key (option key_secret) there are 10,000 a day"
            raise SourceUnavailableError(f"Stack Exchange's requests of today are used up{more_quota}", wait)
        if pause > MAX_PAUSE_SECONDS:
            raise SourceUnavailableError(f"Stack Exchange requires a pause of {pause} s", float(pause))
        self._pause = max(0, pause)

    def _read(self, key: str, item: Any) -> SourceDocument | None:
        """Returns the question; None if it matched once, and was voted down since."""
        name = f"question {item['question_id']}"
        if not self._is_wanted(item, name):
            return None
        return self._document(key, shaped(_Question, item, name))

    def _is_wanted(self, item: Any, name: str) -> bool:
        if self.options.answered_only and not item.get("accepted_answer_id"):
            return False
        return shaped(_Wanted, item, name).score >= self.options.min_score

    def _document(self, key: str, question: _Question) -> SourceDocument:
        title = html.unescape(question.title)
        closed = question.closed_reason
        facts = f"Score {question.score}." + (f" Closed: {html.unescape(closed)}." if closed else "")
        body = html.unescape(question.body_markdown)
        metadata = described(
            title=title,
            address=question.link,
            tags=[str(tag) for tag in question.tags],
            updated=iso_time(question.last_activity_date),
            created=iso_time(question.creation_date) if question.creation_date else "",
            author=_author(question),
        )
        return SourceDocument(key, thread(title, facts, body, self._answers(question)), metadata)

    def _answers(self, question: _Question) -> Iterator[Post]:
        ranked = sorted(question.answers, key=lambda each: (not each.is_accepted, -each.score))
        for answer in ranked[: self.options.max_answers]:
            if answer.is_accepted or answer.score >= self.options.min_score:
                kind = "Accepted answer" if answer.is_accepted else "Answer"
                heading = f"{kind} by {_author(answer)}, score {answer.score}"
                yield Post(heading, html.unescape(answer.body_markdown))


@dataclass(frozen=True, slots=True)
class _Position:
    """Position of a pull: page `page` of the questions with the tag at `tag` that were active at `since` or later (in
    seconds since the epoch)."""

    tag: int
    since: int
    page: int

    @classmethod
    def of(cls, cursor: Mapping[str, Any], since: int) -> _Position:
        if not cursor:
            return cls(0, since, 1)
        return cls(int(cursor["tag"]), int(cursor["since"]), int(cursor["page"]))

    def after(self, question: _Listed) -> _Position:
        """Returns the position behind the last question of a page."""
        last = question.last_activity_date
        return _Position(self.tag, last, 1) if last != self.since else _Position(self.tag, self.since, self.page + 1)

    def seen_again(self, questions: list[_Listed]) -> frozenset[int]:
        """Returns the questions that the next page may begin with: those of this one's last second."""
        last = questions[-1].last_activity_date if questions else 0
        if last == self.since:
            return frozenset()
        return frozenset(one.question_id for one in questions if one.last_activity_date == last)

    def cursor(self) -> dict[str, int]:
        return asdict(self)


def _items(answer: _Wrapper) -> tuple[Any, ...]:
    if answer.items is None:
        raise SourceShapeError("Stack Exchange: the field 'items' is missing; the source's format may have changed")
    return answer.items


def _checked(item: Any) -> _Listed:
    return shaped(_Listed, item, "a question")


def _author(item: _Question | _Answer) -> str:
    return html.unescape(item.owner.display_name) or "somebody"


def _until_midnight(now: float) -> float:
    today = datetime.fromtimestamp(now, UTC)
    midnight = (today + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return (midnight - today).total_seconds()

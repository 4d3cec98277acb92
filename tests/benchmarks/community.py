"""Developers' platforms of realistic size for `source_speed`, served by another process.

`python -m tests.benchmarks.community NAME` serves one until its standard input ends, and prints its address.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from opx.adapters.web import open_web
from opx.domain.sources import SourceDocument
from tests.doubles.discourse_forum import BEGAN, a_post, a_question, a_topic, an_answer, packed
from tests.doubles.github_api import REPOSITORY, a_comment, an_issue
from tests.doubles.http_double import Request
from tests.doubles.misbehaving_site import Answer, MisbehavingSite
from tests.support.feed_support import a_connector

TEXT = "The node runs out of memory when the cache is warmed, and the kernel ends the process with a signal. " * 20
COUNT = 5_000
FILES = 2_000


def issue_documents() -> Iterator[SourceDocument]:
    """5,000 issues of 2 KB, every tenth with three comments."""
    yield from _fetched("github_issues", "", repository=REPOSITORY)


def docs_documents() -> Iterator[SourceDocument]:
    """2,000 pages of 2 KB."""
    yield from _fetched("github_docs", "", repository=REPOSITORY, raw="/raw")


def question_documents() -> Iterator[SourceDocument]:
    """5,000 questions with three answers of 2 KB each."""
    yield from _fetched("stack_overflow", "/2.3", tags=("nginx",))


def topic_documents() -> Iterator[SourceDocument]:
    """1,000 topics of five posts of 2 KB as HTML."""
    yield from _fetched("discourse", "")


def _fetched(kind: str, path: str, *, raw: str = "", **options: Any) -> Iterator[SourceDocument]:
    with _served(kind) as url:
        host = url.removeprefix("http://")
        given = {**options, "base_url": url + path, **({"raw_url": url + raw} if raw else {})}
        with closing(open_web(allowed_hosts=(host,))) as web:
            yield from a_connector(kind, web, given).fetch()


@contextmanager
def _served(name: str) -> Iterator[str]:
    line = [sys.executable, "-m", "tests.benchmarks.community", name]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate("")


def _serve_issues(site: MisbehavingSite) -> None:
    comments = [a_comment(TEXT) for _ in range(3)]

    def issue(number: int) -> dict[str, Any]:
        moment = (
            f"2026-01-{1 + number // 3600:02d}T{number // 60 % 60 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
        )
        return an_issue(number, updated=moment, body=TEXT, comments=3 if number % 10 == 0 else 0)

    issues = sorted((issue(number) for number in range(1, COUNT + 1)), key=lambda one: str(one["updated_at"]))

    def listing(request: Request) -> Answer:
        found = [one for one in issues if one["updated_at"] >= request.parameters.get("since", "")]
        page, size = int(request.parameters.get("page", 1)), int(request.parameters["per_page"])
        more = {"Link": '<http://x/>; rel="next"'} if len(found) > page * size else {}
        return Answer(200, found[(page - 1) * size : page * size], more)

    site.on(f"/repos/{REPOSITORY}/issues", listing)
    for one in issues:
        site.on(f"/repos/{REPOSITORY}/issues/{one['number']}/comments", Answer(200, comments))


def _serve_docs(site: MisbehavingSite) -> None:
    from tests.doubles.github_api import GitHubDouble

    page = f"---\ntitle: T\nms.date: 01/02/2026\n---\n# T\n\n> [!NOTE]\n> {TEXT}\n"
    files: dict[str, str | bytes] = {f"docs/{number // 100}/page-{number}.md": page for number in range(FILES)}
    GitHubDouble(site, most_entries=100_000).commit(files)


def _serve_questions(site: MisbehavingSite) -> None:
    answers = [an_answer(number, TEXT, accepted=number == 2) for number in range(1, 4)]
    questions = [a_question(number, body_markdown=TEXT, answers=answers) for number in range(1, COUNT + 1)]

    def listing(request: Request) -> Answer:
        first = max(0, int(request.parameters.get("min", 0)) - BEGAN - 1)
        return packed({"items": questions[first : first + 100], "has_more": first + 100 < COUNT, "quota_remaining": 9})

    site.on("/2.3/questions", listing)
    site.on("/2.3/filters/create", packed({"items": [{"filter": "!x"}]}))


def _serve_topics(site: MisbehavingSite) -> None:
    posts = [a_post(number, f"<p>{TEXT}</p><pre><code>x &lt; y</code></pre>") for number in range(1, 6)]
    topics = [
        a_topic(number, bumped=f"2026-01-01T00:{number // 60:02d}:{number % 60:02d}Z") for number in range(1000, 0, -1)
    ]

    def listing(request: Request) -> Answer:
        first = 30 * int(request.parameters["page"])
        more = {"more_topics_url": "/latest"} if first + 30 < len(topics) else {}
        return Answer(200, {"topic_list": {"topics": topics[first : first + 30], **more}})

    site.on("/latest.json", listing)
    for topic in topics:
        stream = {"posts": posts, "stream": [post["id"] for post in posts]}
        site.on(f"/t/{topic['id']}.json", Answer(200, {**topic, "post_stream": stream}))


_SITES: dict[str, Callable[[MisbehavingSite], None]] = {
    "discourse": _serve_topics,
    "github_docs": _serve_docs,
    "github_issues": _serve_issues,
    "stack_overflow": _serve_questions,
}


if __name__ == "__main__":
    with MisbehavingSite() as served:
        _SITES[sys.argv[1]](served)
        print(served.url(), flush=True)
        sys.stdin.read()

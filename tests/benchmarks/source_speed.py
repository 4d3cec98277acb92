"""Measures documents per second that connectors read from a local server, and their peak memory.

`python -m tests.benchmarks.source_speed [names]`; each runs in a process of its own, so that peaks don't mix. The
server runs in another one: its memory and most of its time don't count.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from opx.domain.sources import SourceDocument
from tests.benchmarks import community, feeds, web, workplace

Documents = Callable[[], Iterable[SourceDocument]]


@dataclass(frozen=True, slots=True)
class Measured:
    documents: int
    seconds: float
    cpu_seconds: float
    peak_mib: float


BENCHMARKS: dict[str, Documents] = {
    "attack": feeds.attack_documents,
    "confluence": workplace.page_documents,
    "crawl": web.crawled_documents,
    "crawl_sitemap": web.listed_documents,
    "discourse": community.topic_documents,
    "feed": web.feed_documents,
    "git_history": workplace.commit_documents,
    "github_docs": community.docs_documents,
    "github_issues": community.issue_documents,
    "imap": workplace.mail_documents,
    "jira": workplace.issue_documents,
    "mailbox": workplace.mbox_documents,
    "nvd": feeds.nvd_documents,
    "rfc": feeds.rfc_documents,
    "slack_export": workplace.slack_documents,
    "stack_overflow": community.question_documents,
}
"""By name: a function of this module that yields the documents of one pull (see `Connector.fetch`)."""


def measured(documents: Documents) -> Measured:
    started, cpu = time.perf_counter(), time.process_time()
    count = sum(1 for _ in documents())
    seconds, used = time.perf_counter() - started, time.process_time() - cpu
    return Measured(count, seconds, used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main(names: list[str]) -> None:
    for name in names or sorted(BENCHMARKS):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(_named, (name,))
        rate, alone = found.documents / found.seconds, found.documents / found.cpu_seconds
        speed = f"{rate:>8,.0f}/s, {alone:>8,.0f} per CPU second"
        print(f"{name:16} {found.documents:>8,} documents {speed}  peak {found.peak_mib:,.0f} MiB")


def nvd_first_load() -> None:
    """Estimates a first pull of all of NVD, with an API key and without."""
    for key in (True, False):
        load = feeds.nvd_first_load(key=key)
        limit = f"{load.requests} requests in {load.waiting_hours:.2f} h by the rate limit"
        shown = "with key" if key else "without key"
        print(f"nvd, {shown:11} {load.documents:>8,} documents: {limit}; our share {load.cpu_seconds:.0f} s of CPU")


def _named(name: str) -> Measured:
    return measured(BENCHMARKS[name])


if __name__ == "__main__":
    main(sys.argv[1:])

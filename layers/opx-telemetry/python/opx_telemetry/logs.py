"""Searches log lines for words and phrases within limits of time, bytes and rows.

No part of a query can become a command of the store's query language: stores get its parsed words, never its text.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from opx.errors import InvalidInputError, StoreUnavailableError
from opx.hygiene.secrets import mask
from opx.ports import Clock
from opx.ports.telemetry import LogProgress, LogQuery, LogStore
from opx_telemetry.rules import LogShow, TelemetryRules

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 1.0
MOST_CHARACTERS = 2000
"""Characters shown of a line; the rest is left out."""

_OVERFETCH = 4
"""Factor by which more lines are requested where the store can't match words exactly."""
_BINS = (60, 300, 900, 3600, 21_600, 86_400)
_MOST_BINS = 60
_MEGABYTE = 1_000_000

Sleep = Callable[[float], None]

EVERYTHING = "*"
MOST_WORDS = 10

_TERM = re.compile(r'(?P<minus>-)?(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))')
_PLAIN = re.compile(r"[A-Za-z0-9_\- ]+\Z")


@dataclass(frozen=True, slots=True)
class LogAnswer:
    """Rows of a log search. `matched` is the store's count. `partial`: not everything was searched; `notes` state why."""

    log_group: str
    show: str
    start: int
    end: int
    rows: tuple[Mapping[str, str], ...]
    matched: int = 0
    scanned_bytes: int = 0
    masked: int = 0
    partial: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """A log search: the query, its log group and limits; `show` is one of `LogShow`."""

    query: str
    log_group: str
    minutes: int = 60
    limit: int = 50
    show: str = LogShow.LINES


class LogSearch:
    """Runs log queries, and stops one that takes too long or reads too much."""

    def __init__(self, store: LogStore, rules: TelemetryRules, *, clock: Clock, sleep: Sleep) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock
        self._sleep = sleep

    def answer(self, question: LogQuestion) -> LogAnswer:
        """Runs a log search. Raises `InvalidInputError` for what may not be queried, and `StoreUnavailableError`."""
        deadline = self._clock() + self._rules.seconds
        self._rules.check_log_group(question.log_group)
        self._rules.check_minutes(question.minutes)
        words = read_words(question.query)
        limit = min(question.limit, self._rules.max_rows)
        end = int(self._clock())
        query = _query(question, words, end, limit)
        progress, problem = self._run(query, deadline)
        notes = [*progress.notes, *([problem] if problem else [])]
        if question.show != LogShow.LINES and not words.are_plain:
            notes.append("counted as if punctuation in the query stood for any character, so that it may be too many")
        rows = [row for row in progress.rows if question.show != LogShow.LINES or words.fit(row.get("message", ""))]
        shown = [_cleaned(row) for row in rows[:limit]]
        if question.show == LogShow.LINES and progress.matched > len(shown):
            notes.append(f"the newest {len(shown)} of {progress.matched:,} lines")
        return LogAnswer(
            question.log_group,
            question.show,
            query.start,
            query.end,
            tuple(row for row, _ in shown),
            max(progress.matched, len(shown)),
            progress.scanned_bytes,
            sum(masked for _, masked in shown),
            bool(problem) or not progress.complete,
            tuple(notes),
        )

    def _run(self, query: LogQuery, deadline: float) -> tuple[LogProgress, str]:
        """Returns the progress of a query when it ended or was stopped, and the reason why it was stopped."""
        query_id = self._store.start(query)
        done = False
        try:
            progress, problem = self._wait(query_id, deadline)
            done = progress.is_done
            return progress, problem
        finally:
            if not done:
                self._stop(query_id)

    def _wait(self, query_id: str, deadline: float) -> tuple[LogProgress, str]:
        pause, most = FIRST_PAUSE, self._rules.max_scanned_megabytes * _MEGABYTE
        while True:
            progress = self._store.progress(query_id)
            if progress.failed:
                raise StoreUnavailableError(f"the log query ended as {progress.failed}; query a shorter time range")
            if progress.is_done:
                return progress, ""
            if progress.scanned_bytes > most:
                read = f"{progress.scanned_bytes / _MEGABYTE:,.0f} MB"
                return (
                    progress,
                    f"stopped after {read}, as {most // _MEGABYTE:,} MB may be read; query a shorter time range",
                )
            if self._clock() + pause > deadline:
                return progress, f"stopped after {self._rules.seconds:g} seconds; query a shorter time range"
            self._sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _stop(self, query_id: str) -> None:
        """Stops a query, as running ones cost money. A failure to stop it is logged, not raised: its rows are still shown."""
        try:
            self._store.stop(query_id)
        except StoreUnavailableError as exc:
            log.warning("a log query could not be stopped", exc_info=exc)


def _query(question: LogQuestion, words: Words, end: int, limit: int) -> LogQuery:
    seconds = 60 * question.minutes
    exact = words.are_plain or question.show != LogShow.LINES
    return LogQuery(
        log_group=question.log_group,
        start=end - seconds,
        end=end,
        words=words.wanted,
        without=words.unwanted,
        show=question.show,
        limit=limit if exact else _OVERFETCH * limit,
        bin_seconds=next((size for size in _BINS if seconds <= size * _MOST_BINS), _BINS[-1]),
    )


def _cleaned(row: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """Returns the row with secrets masked and long values cut, and the number of secrets."""
    clean, count = {}, 0
    for name, value in row.items():
        text, found = mask(value)
        count += len(found)
        clean[name] = text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "…"
    return clean, count


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a query. A line fits if it has all of `wanted` and none of `unwanted`, ignoring case and extra spaces."""

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()

    def fit(self, line: str) -> bool:
        text = _folded(line)
        return all(_folded(word) in text for word in self.wanted) and not any(
            _folded(word) in text for word in self.unwanted
        )

    @property
    def are_plain(self) -> bool:
        """True if all words have only ASCII letters, digits, `_`, `-` and spaces: a store may match any character for
        others."""
        return all(_PLAIN.match(word) for word in self.wanted)


def read_words(text: str) -> Words:
    """Parses a query such as `timeout "connection reset" -healthcheck`. Raises `InvalidInputError` for an invalid one."""
    if text.strip() == EVERYTHING:
        return Words()
    if text.count('"') % 2:
        raise InvalidInputError('query has an unclosed "')
    wanted: list[str] = []
    unwanted: list[str] = []
    for term in _TERM.finditer(text):
        word = " ".join((term["phrase"] if term["phrase"] is not None else term["word"]).split())
        _check(word, excluded=bool(term["minus"]))
        (unwanted if term["minus"] else wanted).append(word)
    if not 1 <= len(wanted) + len(unwanted) <= MOST_WORDS:
        raise InvalidInputError(f"query must have 1 to {MOST_WORDS} words and phrases, or be * alone for every line")
    return Words(tuple(wanted), tuple(unwanted))


def _check(word: str, *, excluded: bool) -> None:
    if not any(character.isascii() and character.isalnum() for character in word):
        raise InvalidInputError(f"{word[:60]!r} can't be searched for: a word needs a letter (a-z) or a digit")
    if excluded and not _PLAIN.match(word):
        raise InvalidInputError(f"-{word[:60]} can't be left out: such a word has letters (a-z), digits, _ and - only")


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())

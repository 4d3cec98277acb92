"""Log searches: bounded in time, bytes and rows, with secrets masked."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ports.telemetry import LogProgress, LogQuery
from opx_telemetry.logs import LogAnswer, LogQuestion, LogSearch
from opx_telemetry.rules import TelemetryRules

GROUP = "/ecs/shop"
RULES = TelemetryRules(log_groups=(GROUP,), max_scanned_megabytes=10, max_rows=100, seconds=5)
NOW = 1_750_000_000.4
KEY = "AKIA" + "Q3EGRIBDXPJWTN5L"


class Time:
    """A clock that only sleeping moves on."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeLogs:
    """Answers with what it is given, one after the other and then the last one for ever."""

    def __init__(self, *progress: LogProgress | Exception, stop_fails: bool = False) -> None:
        self._progress = list(progress)
        self._stop_fails = stop_fails
        self.started: list[LogQuery] = []
        self.stopped: list[str] = []

    def start(self, query: LogQuery) -> str:
        self.started.append(query)
        return "query-1"

    def progress(self, query_id: str) -> LogProgress:
        found = self._progress.pop(0) if len(self._progress) > 1 else self._progress[0]
        if isinstance(found, Exception):
            raise found
        return found

    def stop(self, query_id: str) -> None:
        self.stopped.append(query_id)
        if self._stop_fails:
            raise StoreUnavailableError("can't stop")


def lines(messages: Iterable[str]) -> tuple[dict[str, str], ...]:
    return tuple({"time": "2025-06-15 15:06:40.000", "stream": "s", "message": message} for message in messages)


def ended(*messages: str, matched: int = 0) -> LogProgress:
    return LogProgress(True, lines(messages), matched or len(messages), 1000)


RUNNING = LogProgress(False, lines(["error one"]), 1, 500)


def ask(store: FakeLogs, query: str = "error", rules: TelemetryRules = RULES, **question: object) -> LogAnswer:
    time = Time()
    search = LogSearch(store, rules, clock=time, sleep=time.sleep)
    return search.answer(LogQuestion(query, **{"log_group": GROUP, **question}))  # type: ignore[arg-type]


def messages(answer: LogAnswer) -> list[str]:
    return [row["message"] for row in answer.rows]


def test_answer_has_the_lines_once_the_query_has_ended() -> None:
    store = FakeLogs(RUNNING, RUNNING, ended("error one", "error two"))
    answer = ask(store)
    assert messages(answer) == ["error one", "error two"]
    assert (answer.matched, answer.scanned_bytes, answer.partial, answer.notes) == (2, 1000, False, ())
    assert store.stopped == []


def test_query_covers_the_minutes_until_now() -> None:
    store = FakeLogs(ended())
    answer = ask(store, minutes=10)
    assert (store.started[0].start, store.started[0].end) == (1_749_999_400, 1_750_000_000)
    assert (answer.start, answer.end) == (1_749_999_400, 1_750_000_000)


@pytest.mark.parametrize(("minutes", "size"), [(60, 60), (120, 300), (1440, 3600)])
def test_counts_over_time_have_at_most_sixty_bins(minutes: int, size: int) -> None:
    store = FakeLogs(ended())
    ask(store, minutes=minutes, show="over_time")
    assert store.started[0].bin_seconds == size


def test_query_that_takes_too_long_is_stopped_and_what_it_found_is_shown() -> None:
    store = FakeLogs(RUNNING)
    answer = ask(store)
    assert store.stopped == ["query-1"]
    assert messages(answer) == ["error one"]
    assert answer.partial
    assert answer.notes == ("stopped after 5 seconds; query a shorter time range",)


def test_query_that_reads_too_much_is_stopped() -> None:
    store = FakeLogs(RUNNING, LogProgress(False, lines(["error one"]), 1, 25_000_000))
    answer = ask(store)
    assert store.stopped == ["query-1"]
    assert answer.partial
    assert answer.notes == ("stopped after 25 MB, as 10 MB may be read; query a shorter time range",)


def test_query_is_stopped_when_its_results_cannot_be_read() -> None:
    store = FakeLogs(RUNNING, StoreUnavailableError("throttled"))
    with pytest.raises(StoreUnavailableError, match="throttled"):
        ask(store)
    assert store.stopped == ["query-1"]


def test_query_that_failed_is_an_error() -> None:
    with pytest.raises(StoreUnavailableError, match="ended as timeout"):
        ask(FakeLogs(LogProgress(False, failed="timeout")))


def test_results_are_returned_if_the_query_cannot_be_stopped() -> None:
    assert messages(ask(FakeLogs(RUNNING, stop_fails=True))) == ["error one"]


def test_line_that_only_nearly_fits_is_left_out() -> None:
    store = FakeLogs(ended("code=500", "code:500", "code 500"))
    assert messages(ask(store, "code=500", limit=5)) == ["code=500"]
    assert store.started[0].limit == 20  # more than are wanted, as some may be left out


def test_count_with_punctuation_has_a_note_that_it_may_be_too_high() -> None:
    answer = ask(FakeLogs(LogProgress(True, ({"stream": "s", "lines": "3"},))), "code=500", show="by_stream")
    assert answer.rows == ({"stream": "s", "lines": "3"},)
    assert "may be too many" in answer.notes[0]


def test_at_most_the_wanted_number_of_lines_is_shown() -> None:
    answer = ask(FakeLogs(ended(*(f"error {n}" for n in range(10)), matched=1234)), limit=4)
    assert messages(answer) == [f"error {n}" for n in range(4)]
    assert answer.notes == ("the newest 4 of 1,234 lines",)


def test_operators_limit_of_rows_holds() -> None:
    store = FakeLogs(ended())
    ask(store, limit=200)
    assert store.started[0].limit == 100


def test_secrets_are_masked_and_counted() -> None:
    answer = ask(FakeLogs(ended(f"error with {KEY} and {KEY}", "error")))
    assert KEY not in str(answer.rows)
    assert answer.masked == 2


def test_secrets_of_patterns_are_masked_too() -> None:
    answer = ask(FakeLogs(LogProgress(True, ({"pattern": f"key {KEY}", "lines": "2"},))), show="patterns")
    assert KEY not in str(answer.rows)


def test_long_line_is_cut() -> None:
    (message,) = messages(ask(FakeLogs(ended("error " + "x" * 10_000))))
    assert len(message) == 2001
    assert message.endswith("…")


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"log_group": "/other"}, "log group '/other' may not be queried; there are: /ecs/shop"),
        ({"minutes": 1441}, "minutes must be at most 1440"),
        ({"query": '"'}, 'query has an unclosed "'),
    ],
)
def test_an_invalid_query_is_not_started(question: dict[str, object], message: str) -> None:
    store = FakeLogs(ended())
    with pytest.raises(InvalidInputError, match=message):
        ask(store, **question)  # type: ignore[arg-type]
    assert store.started == []

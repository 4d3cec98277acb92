"""Processes that answer questions beside a server."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from opx.domain.policy import READ_SCOPE
from opx.domain.scopes import Identity
from opx.operations import load
from opx.operations.context import Caller
from opx.operations.registry import Function
from opx.operations.system import System
from opx.runtime.metrics import Metric, Report, unreported
from opx.runtime.threads import cores
from opx.settings import Settings
from opx.system import bootstrap
from opx_serve import workers as module
from opx_serve.workers import QUESTIONS as QUESTIONS_OF_PROCESSES
from opx_serve.workers import AnswerProcesses, usual_workers
from tests.support.agent_calls import CORPUS, DISK_TITLE, a_system
from tests.support.fakes import WordsEmbedder
from tests.support.serving_support import LocalServer, over_mcp, serving

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

RIVALS = {"clients/rival/documents/runbooks/safe.md": "# Open the rival safe\n\nTurn the rival wheel twice."}
TOKENS = {name: Caller(Identity(name, "", "bot"), token_scopes=frozenset({READ_SCOPE})) for name in ("acme", "rival")}
OWN = ("receiptId", "timingsMs")
"""Fields that each answer has for itself."""
QUESTIONS = (DISK_TITLE, "open the safe, unseal the vault", "-", "certificate", "x" * 5000)


def started(settings: Settings) -> System:
    return bootstrap(settings, embedder=WordsEmbedder())


def not_started(settings: Settings) -> System:
    raise OSError(f"{settings.home} is gone")


# -- work


def process_of(_: System, report: Report) -> int:
    report(Metric.CONFIDENCE, 0.5, mode="balanced")
    return os.getpid()


def resting(seconds: float, _: System, __: Report) -> int:
    time.sleep(seconds)
    return os.getpid()


def killed_outside(own: int, _: System, __: Report) -> int:
    if os.getpid() != own:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


@contextlib.contextmanager
def some_workers(
    system: System, most: int, start: Callable[[Settings], System] = started, ready: int | None = None
) -> Iterator[AnswerProcesses]:
    """AnswerProcesses, `ready` of them started."""
    workers = AnswerProcesses(system, start, most)
    try:
        for number in range(most if ready is None else ready):
            workers.start_another()
            while workers.ready == number:
                time.sleep(0.02)
        yield workers
    finally:
        workers.close()


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home"), {**CORPUS, **RIVALS}) as found:
        yield found


@pytest.fixture(scope="module")
def two(system: System) -> Iterator[AnswerProcesses]:
    with some_workers(system, 2) as found:
        yield found


class TestAnswers:
    @pytest.mark.parametrize("token", TOKENS)
    @pytest.mark.parametrize("question", QUESTIONS)
    def test_they_are_those_of_the_server_itself(
        self, system: System, two: AnswerProcesses, question: str, token: str
    ) -> None:
        replies = []
        for workers in (None, two):
            with serving(system, TOKENS, workers=workers) as server:
                reply = server("POST", "/knowledge/default/query", {"query": question}, token=token)
                found = {name: value for name, value in reply.json.items() if name not in OWN}
                replies.append((reply.status, reply.headers["content-type"], found))
        assert replies[0] == replies[1]

    def test_questions_are_answered_by_the_processes_and_counted_by_the_server(
        self, system: System, two: AnswerProcesses, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(AnswerProcesses, "_run_here", None)  # the server answers none itself
        with serving(system, workers=two) as server, ThreadPoolExecutor(8) as pool:
            ask = partial(server, "POST", "/knowledge/default/query", {"query": DISK_TITLE})
            replies = [one.result() for one in [pool.submit(ask) for _ in range(20)]]
            metrics = server("GET", "/metrics").data.decode()
        assert {reply.json["results"][0]["metadata"]["title"] for reply in replies} == {DISK_TITLE}
        assert "opx_api_requests_total 20.0" in metrics
        assert 'opx_http_request_seconds_count{route="POST /knowledge/{kbId}/query",status="200"} 20.0' in metrics

    def test_tools_that_search_are_called_there_too(
        self, system: System, two: AnswerProcesses, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(AnswerProcesses, "_run_here", None)
        with serving(system, TOKENS, workers=two) as server:
            found = over_mcp(server, "acme", "search_docs", query=DISK_TITLE)
            refused = over_mcp(server, "acme", "search_docs", query="")
        assert found.content[0].text.startswith(f"Source: {DISK_TITLE}\n")
        assert found.structured_content["answer"] == found.content[0].text
        assert refused.is_error

    def test_clients_see_their_own_documents_alone(self, system: System, two: AnswerProcesses) -> None:
        with serving(system, TOKENS, workers=two) as server:
            titles = {token: _titles(server, token) for token in TOKENS}
        assert "Open the rival safe" in titles["rival"] - titles["acme"]

    def test_what_is_written_is_found_by_each_at_once(self, system: System, two: AnswerProcesses) -> None:
        system.store.put("documents/runbooks/new.md", b"# Zyxwv rotation\n\nRotate the zyxwv.")
        list(system.manager.work())
        with serving(system, workers=two) as server, ThreadPoolExecutor(4) as pool:
            ask = partial(server, "GET", "/knowledge/default/search?q=zyxwv+rotation")
            found = [one.result().json["results"] for one in [pool.submit(ask) for _ in range(6)]]
        assert {results[0]["metadata"]["title"] for results in found} == {"Zyxwv rotation"}

    def test_a_gap_is_recorded_before_the_process_ends(self, system: System, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(AnswerProcesses, "_run_here", None)
        with some_workers(system, 2, ready=1) as workers:
            monkeypatch.setattr(AnswerProcesses, "_another", lambda _: None)
            with serving(system, workers=workers) as server:
                assert server("GET", "/knowledge/default/search?q=brewing+espresso").status == 200
        assert "brewing espresso" in [gap.question for gap in system.records.gaps.gaps("global")]


def _titles(server: LocalServer, token: str) -> set[str]:
    body: dict[str, Any] = {"query": QUESTIONS[1], "config": {"minConfidence": 0, "maxResults": 50}}
    results = server("POST", "/knowledge/default/query", body, token=token).json["results"]
    return {one["metadata"]["title"] for one in results}


class TestProcesses:
    def test_one_is_started_when_questions_come_at_once(self, system: System) -> None:
        with some_workers(system, 2, ready=0) as workers:
            assert workers.run(process_of, unreported) == os.getpid()
            assert workers.ready == 0
            with ThreadPoolExecutor(1) as pool:
                first = pool.submit(workers.run, partial(resting, 0.2), unreported)
                while not first.done() and not workers.ready:
                    workers.run(process_of, unreported)
                while not workers.ready:
                    time.sleep(0.02)
            assert workers.run(process_of, unreported) != os.getpid()

    def test_with_one_everything_is_computed_here(self, system: System) -> None:
        workers = AnswerProcesses(system, started, 1)
        workers.start_another()
        with ThreadPoolExecutor(4) as pool:
            found = [pool.submit(workers.run, partial(resting, 0.05), unreported) for _ in range(8)]
        assert {one.result() for one in found} == {os.getpid()}

    def test_metrics_of_a_process_are_reported_here(self, two: AnswerProcesses) -> None:
        reported: list[tuple[Metric, float, dict[str, str]]] = []

        def report(metric: Metric, value: float = 1.0, /, **labels: str) -> None:
            reported.append((metric, value, labels))

        assert two.run(process_of, report) != os.getpid()
        assert reported == [(Metric.CONFIDENCE, 0.5, {"mode": "balanced"})]

    def test_a_lost_one_is_replaced_and_its_question_answered_here(
        self, system: System, caplog: pytest.LogCaptureFixture
    ) -> None:
        with some_workers(system, 2, ready=1) as workers:
            with caplog.at_level(logging.ERROR):
                assert workers.run(partial(killed_outside, os.getpid()), unreported) == os.getpid()
            assert workers.ready == 0
            workers.start_another()
            while not workers.ready:
                time.sleep(0.02)
            assert workers.run(process_of, unreported) != os.getpid()
        assert "was lost" in caplog.text

    def test_one_that_hangs_is_ended(self, system: System, monkeypatch: pytest.MonkeyPatch) -> None:
        with some_workers(system, 2, ready=1) as workers:
            monkeypatch.setattr(module, "WORK_SECONDS", 0.1)
            monkeypatch.setattr(module, "_END_SECONDS", 0.1)
            assert workers.run(partial(resting, 1.0), unreported) == os.getpid()
            assert workers.ready == 0

    def test_while_all_wait_the_server_answers_itself(self, system: System, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "PATIENCE", 0.05)
        with some_workers(system, 2, ready=1) as workers, ThreadPoolExecutor(1) as pool:
            monkeypatch.setattr(AnswerProcesses, "_another", lambda _: None)
            slow = pool.submit(workers.run, partial(resting, 1.0), unreported)
            while workers._idle:
                time.sleep(0.01)
            assert workers.run(process_of, unreported) == os.getpid()
            assert slow.result() != os.getpid()

    def test_who_waits_longest_has_the_next_turn(self, system: System, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "PATIENCE", 60.0)
        answered: Counter[int] = Counter()

        def ask(number: int) -> None:
            while answered.total() < 40:  # each comes again at the moment at which its process becomes idle
                workers.run(partial(resting, 0.01), unreported)
                answered[number] += 1

        with some_workers(system, 2, ready=1) as workers, ThreadPoolExecutor(4) as pool:
            monkeypatch.setattr(AnswerProcesses, "_another", lambda _: None)
            for client in [pool.submit(ask, number) for number in range(4)]:
                client.result()
        assert len(answered) == 4
        assert max(answered.values()) <= 15

    def test_one_that_does_not_start_is_reported(
        self, system: System, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "PATIENCE", 0.01)
        with some_workers(system, 2, not_started, ready=0) as workers, caplog.at_level(logging.ERROR):
            workers.start_another()
            while "did not start" not in caplog.text:
                time.sleep(0.02)
            assert workers.run(process_of, unreported) == os.getpid()

    def test_they_end_with_the_server(self, system: System) -> None:
        with some_workers(system, 2) as workers:
            processes = {workers.run(process_of, unreported)}
        for process in processes:
            with pytest.raises(ProcessLookupError):
                os.kill(process, 0)
        assert workers.run(process_of, unreported) == os.getpid()

    def test_operations_for_them_exist_and_write_nothing(self) -> None:
        found = [one for one in load() if one.name in QUESTIONS_OF_PROCESSES]
        assert {one.name for one in found} == QUESTIONS_OF_PROCESSES
        assert not [one.name for one in found if one.tool and one.tool.writes]
        assert {one.route.function for one in found if one.route} == {Function.RETRIEVE}

    def test_by_default_there_is_one_for_each_core(self) -> None:
        assert usual_workers() == min(cores(), 8)

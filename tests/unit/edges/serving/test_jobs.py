"""Jobs of a local server: requests performed beside their connection, with their steps as a stream of events."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from opx.domain.policy import READ_SCOPE
from opx.domain.scopes import Identity
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx_quality.quality import (
    AddOwnQuestion,
    ListEvaluations,
    RunEvaluation,
    add_own_question,
    list_evaluations,
    run_evaluation,
)
from opx_serve import jobs, routes
from opx_serve.jobs import prefers_job
from tests.support.agent_calls import CORPUS, DISK_TITLE, a_system
from tests.support.serving_support import JSON, LocalServer, serving

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ASYNC = {"prefer": "respond-async"}
TOKENS = {
    name: Caller(Identity(name.partition("-")[0], "", name), token_scopes=frozenset({READ_SCOPE}))
    for name in ("acme-token", "acme-second", "rival-token")
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home"), CORPUS) as found:
        yield found


@pytest.fixture(scope="module")
def server(system: System) -> Iterator[LocalServer]:
    with serving(system, TOKENS) as found:
        yield found


def research(server: LocalServer, token: str = "acme-token", topic: str = DISK_TITLE) -> dict[str, Any]:
    reply = server("POST", "/research", {"topic": topic}, token=token, headers=ASYNC)
    assert (reply.status, reply.headers["preference-applied"]) == (202, "respond-async")
    found: dict[str, Any] = reply.json
    assert reply.headers["location"] == f"/jobs/{found['jobId']}"
    return found


def ended(server: LocalServer, job_id: str, token: str = "acme-token") -> dict[str, Any]:
    while (job := server("GET", f"/jobs/{job_id}", token=token).json)["state"] in ("running", "cancelling"):
        time.sleep(0.02)
    found: dict[str, Any] = job
    return found


def events_of(data: bytes) -> list[tuple[str, Any]]:
    blocks = (block.split("\n") for block in data.decode().split("\n\n") if block.startswith("event:"))
    return [(lines[0].removeprefix("event: "), json.loads(lines[-1].removeprefix("data: "))) for lines in blocks]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Keeps jobs from ending until it is called."""
    opened = threading.Event()
    answer = routes.Answers.answer

    def waiting(self: Any, raw: Any, caller: Any, progress: Any = None) -> Any:
        if progress is not None:
            progress("waits", 1)
            opened.wait(30)
        return answer(self, raw, caller, progress)

    monkeypatch.setattr(routes.Answers, "answer", waiting)
    yield opened.set
    opened.set()


def test_a_job_ends_with_the_reply_of_the_request(server: LocalServer) -> None:
    job = ended(server, research(server)["jobId"])
    direct = server("POST", "/research", {"topic": DISK_TITLE}, token="acme-token").json
    assert (job["state"], job["status"]) == ("done", 200)
    assert job["result"]["findings"] == direct["findings"]


def test_events_are_the_steps_and_the_end(server: LocalServer) -> None:
    job_id = research(server)["jobId"]
    reply = server("GET", f"/jobs/{job_id}/events", token="acme-token")
    assert reply.headers["content-type"].startswith("text/event-stream")
    *steps, (kind, end) = events_of(reply.data)
    assert {name for name, _ in steps} == {"step"}
    assert len(steps) == len(end["result"]["trace"])
    assert (kind, end["jobId"], end["state"]) == ("end", job_id, "done")


def test_events_go_on_behind_the_last_one_that_was_seen(server: LocalServer) -> None:
    job_id = research(server)["jobId"]
    ended(server, job_id)
    headers = {"last-event-id": "1"}
    everything = events_of(server("GET", f"/jobs/{job_id}/events", token="acme-token").data)
    rest = events_of(server("GET", f"/jobs/{job_id}/events", token="acme-token", headers=headers).data)
    assert rest == everything[1:]


def test_a_refused_request_is_a_failed_job_with_the_refusal(server: LocalServer) -> None:
    reply = server("POST", "/holds", {"reason": "x", "everything": True}, token="acme-token", headers=ASYNC)
    job = ended(server, reply.json["jobId"])
    assert (job["state"], job["status"], job["result"]["error"]["code"]) == ("failed", 403, "forbidden")


def test_a_job_is_its_callers_alone(server: LocalServer) -> None:
    job_id = research(server)["jobId"]
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/events"):
        assert server("GET", path, token="rival-token").refusal == (404, "not_found")
        assert server("GET", path).refusal == (401, "unauthenticated")
    assert job_id not in [job["jobId"] for job in server("GET", "/jobs", token="rival-token").json["jobs"]]
    assert job_id in [job["jobId"] for job in server("GET", "/jobs", token="acme-token").json["jobs"]]


def test_without_the_preference_the_reply_is_that_of_the_request(server: LocalServer) -> None:
    reply = server("POST", "/research", {"topic": DISK_TITLE}, token="acme-token", headers={"prefer": "wait=5"})
    assert (reply.status, "findings" in reply.json) == (200, True)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("respond-async", True),
        ("wait=10, Respond-Async", True),
        ("respond-async; x=1", True),
        ("", False),
        ("async", False),
    ],
)
def test_the_preference_is_read_from_its_header(header: str, expected: bool) -> None:
    assert prefers_job(header) is expected


@pytest.mark.parametrize("limit", ["MOST_RUNNING", "RUNNING_OF_A_CLIENT"])
def test_jobs_at_once_are_limited(
    server: LocalServer, gate: Callable[[], None], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(jobs, limit, 1)
    first = research(server)
    reply = server("POST", "/research", {"topic": DISK_TITLE}, token="acme-token", headers=ASYNC)
    assert (reply.refusal, "retry-after" in reply.headers) == ((503, "busy"), True)
    gate()
    ended(server, first["jobId"])
    ended(server, research(server)["jobId"])


def test_a_client_leaves_jobs_to_others_however_many_tokens_it_has(
    server: LocalServer, gate: Callable[[], None]
) -> None:
    statuses = [
        server("POST", "/research", {"topic": "disk"}, token=token, headers=ASYNC).status
        for token in ("acme-token", "acme-second") * 8
    ]
    own = research(server, "rival-token")["jobId"]
    gate()
    assert statuses == [202] * jobs.RUNNING_OF_A_CLIENT + [503] * (16 - jobs.RUNNING_OF_A_CLIENT)
    assert ended(server, own, "rival-token")["state"] == "done"
    while "running" in [job["state"] for token in TOKENS for job in jobs_of(server, token)]:
        time.sleep(0.02)


def jobs_of(server: LocalServer, token: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server("GET", "/jobs", token=token).json["jobs"]
    return found


def test_a_client_leaves_streams_to_others(
    server: LocalServer, gate: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "STREAMS_OF_A_CLIENT", 1)
    job_id, other = research(server)["jobId"], research(server, "rival-token")["jobId"]
    with closing(opened_stream(server, job_id)), closing(opened_stream(server, other, "rival-token")):
        assert server("GET", f"/jobs/{job_id}/events", token="acme-token").refusal == (503, "busy")
    gate()
    ended(server, job_id)
    ended(server, other, "rival-token")


def test_the_jobs_of_a_client_push_out_none_of_others(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "KEPT", 2)
    kept = research(server, "rival-token")["jobId"]
    ended(server, kept, "rival-token")
    for _ in range(4):
        ended(server, research(server)["jobId"])
    assert server("GET", f"/jobs/{kept}", token="rival-token").json["state"] == "done"


def test_a_job_that_takes_too_long_ends_at_its_next_step(
    server: LocalServer, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "JOB_SECONDS", 0.2)
    found = ended(server, research(server)["jobId"])
    assert (found["state"], found["status"], found["result"]["error"]["code"]) == ("failed", 504, "too_slow")
    assert "start it again" in found["result"]["error"]["message"]


def test_ended_jobs_are_forgotten_after_many(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "KEPT", 2)
    job_ids = []
    for _ in range(4):
        job_ids.append(research(server)["jobId"])
        ended(server, job_ids[-1])
    assert server("GET", f"/jobs/{job_ids[0]}", token="acme-token").status == 404
    assert server("GET", f"/jobs/{job_ids[-1]}", token="acme-token").status == 200


def opened_stream(server: LocalServer, job_id: str, token: str = "acme-token") -> Any:
    """A connection on which the events of a job come; the head of the reply and the first step were read."""
    connection = server.connect()
    head = f"GET /jobs/{job_id}/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
    connection.sendall(head.encode())
    received = b""
    while b"event: step" not in received:
        received += connection.recv(4096)
    return connection


def is_busy(server: LocalServer, job_id: str) -> bool:
    """True while no other stream of the job may be opened."""
    with server.connect() as connection:
        connection.sendall(
            f"GET /jobs/{job_id}/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer acme-token\r\n\r\n".encode()
        )
        return b" 503 " in connection.recv(4096)


def test_streams_at_once_are_limited_and_free_when_the_client_goes_away(
    server: LocalServer, gate: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MOST_STREAMS", 1)
    job_id = research(server)["jobId"]
    with closing(opened_stream(server, job_id)):
        assert server("GET", f"/jobs/{job_id}/events", token="acme-token").refusal == (503, "busy")
    while is_busy(server, job_id):  # until the server notices that the client is gone
        time.sleep(0.02)
    gate()
    assert ended(server, job_id)["state"] == "done"


def test_streams_end_when_the_server_does(system: System, gate: Callable[[], None]) -> None:
    with serving(system, TOKENS) as server:
        connection = opened_stream(server, research(server)["jobId"])
        started = time.monotonic()
    taken = time.monotonic() - started
    gate()
    with closing(connection):
        rest = b"".join(iter(lambda: connection.recv(4096), b""))
    assert b"event: end" not in rest
    assert taken < 8  # the time that a request in progress gets is longer


def test_bodies_are_refused_before_there_is_a_job(server: LocalServer) -> None:
    reply = server("POST", "/research?x=%ff", b"{}", token="acme-token", headers={**JSON, **ASYNC})
    assert reply.status == 400


# -- cancelling


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has jobs report a step every few milliseconds, for half a minute at most, in place of their work; the number of
    those reported."""
    reported: list[int] = []

    def stepping(self: Any, raw: Any, caller: Any, progress: Any) -> Any:
        for number in range(3000):
            progress("goes on", number)
            reported.append(number)
            time.sleep(0.01)
        raise AssertionError("nothing cancelled it")

    monkeypatch.setattr(routes.Answers, "answer", stepping)
    return reported


def test_a_cancelled_job_ends_at_its_next_step(server: LocalServer, steps: list[int]) -> None:
    job = research(server)
    reply = server("DELETE", f"/jobs/{job['jobId']}", token="acme-token")
    assert (reply.status, reply.json["state"]) == (202, "cancelling")
    found = ended(server, job["jobId"])
    assert (found["state"], found["status"], found["result"]["error"]["code"]) == ("cancelled", 409, "cancelled")
    count = len(steps)
    time.sleep(0.1)
    assert len(steps) == count


def test_a_job_of_another_caller_is_not_cancelled(server: LocalServer, gate: Callable[[], None]) -> None:
    job = research(server)
    assert server("DELETE", f"/jobs/{job['jobId']}", token="rival-token").status == 404
    gate()
    assert ended(server, job["jobId"])["state"] == "done"


def test_a_job_that_is_done_stays_done(server: LocalServer) -> None:
    job = research(server)
    assert ended(server, job["jobId"])["state"] == "done"
    assert server("DELETE", f"/jobs/{job['jobId']}", token="acme-token").json["state"] == "done"


def test_a_cancelled_evaluation_keeps_its_replies_and_goes_on(system: System) -> None:
    caller = Caller(Identity(), owns_system=True)
    for number in range(3):
        add_own_question(Context(system, caller), AddOwnQuestion(f"{DISK_TITLE} {number}"))

    def cancel(step: str, count: int) -> None:
        raise jobs.JobCancelled

    with pytest.raises(jobs.JobCancelled):
        run_evaluation(Context(system, caller, progress=cancel), RunEvaluation())
    (run,) = list_evaluations(Context(system, caller), ListEvaluations()).runs
    assert (run.state, run.asked) == ("running", 1)
    assert run_evaluation(Context(system, caller), RunEvaluation(run.run_id)).asked == 3

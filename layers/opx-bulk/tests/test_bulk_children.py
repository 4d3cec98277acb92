"""Child processes of a bulk job end at any time: the shard is tried again, and a document at which they end is named."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from opx.errors import StoreUnavailableError, ThrottledError
from opx.runtime.children import Child, ChildLostError
from opx_bulk.capability import Bulk
from opx_bulk.local import ATTEMPTS, LocalRunner
from opx_bulk.preparing import READ_DIED
from tests.support.bulk_support import FOLDER, begun, contents, put_pages, run, system_at

FATAL = b"the parser dies of this"


@contextmanager
def dying(home: Path, most: int) -> Iterator[Bulk]:
    """Bulk jobs in a process that ends when it reads a fatal document, or after reading `most`."""
    with system_at(home) as system:
        pipeline, read = system.ingestion.pipeline, 0
        cut = pipeline.cut

        def fatal(key: str, stack: object) -> object:
            nonlocal read
            read += 1
            with system.store.open(key) as stream:
                if FATAL in stream.read() or read > most:
                    os.kill(os.getpid(), signal.SIGKILL)
            return cut(key, stack)  # type: ignore[arg-type]

        pipeline.cut = fatal  # type: ignore[method-assign,assignment]
        yield system.part(Bulk.of)


def test_documents_at_which_processes_end_are_named_and_all_others_are_ingested(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with system_at(home) as system:
        put_pages(system, 6)
        fatal = [f"{FOLDER}page-001a.md", f"{FOLDER}page-004a.md"]
        for key in fatal:
            system.corpus.quiet_store.put(key, b"# Fatal\n\n" + FATAL)
        opened = partial(dying, home, 1000)
        runner = LocalRunner(system.part(Bulk.of).stages, system.work, opened=opened, processes=1)
        report = runner.run(begun(system).job_id)
        assert (report.documents, report.ingested, report.failed, report.unsettled) == (8, 6, 2, 0)
        assert [(one.object_key, one.reason) for one in report.failures] == [(key, READ_DIED) for key in fatal]
        assert sorted(one.object_key for one in system.corpus.failures.items()) == fatal
        assert not set(contents(system)["catalog"]) & set(fatal)


def test_a_document_at_which_a_store_is_busy_in_a_later_attempt_is_prepared_in_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 3)
        job, stages, pipeline = begun(system).job_id, system.part(Bulk.of).stages, system.ingestion.pipeline
        while not stages.list(job):
            pass

        def busy(key: str, stack: object) -> object:
            raise ThrottledError("too many requests", 1.0)

        with monkeypatch.context() as patched:
            patched.setattr(pipeline, "cut", busy)
            with pytest.raises(ThrottledError):
                stages.prepare(job, 0, attempt=2)
        prepared = stages.prepare(job, 0, attempt=3)
        assert (len(prepared.left), prepared.failures) == (3, ())


def test_a_shard_at_which_every_process_ends_is_abandoned_with_its_documents_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with system_at(home) as system:
        keys = put_pages(system, 12)
        runner = LocalRunner(system.part(Bulk.of).stages, system.work, opened=partial(dying, home, 0), processes=1)
        report = runner.run(begun(system).job_id)
        assert (report.documents, report.failed, report.unsettled) == (12, 12, 0)
        assert [one.object_key for one in report.failures] == keys
        assert all(f"ended {ATTEMPTS} times" in one.reason for one in report.failures)
        system.corpus.failures.resolve(keys[0])
        assert run(system).ingested == 12  # the next job does it


def test_a_shard_that_cannot_be_prepared_now_is_read_when_it_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 3)
        stages, apply = system.part(Bulk.of).stages, system.part(Bulk.of).stages.apply
        failing: list[Exception] = [ThrottledError("the quota is used up"), StoreUnavailableError("busy")]

        def applied(job_id: str, shard: int) -> object:
            if failing:
                raise failing.pop()
            return apply(job_id, shard)

        monkeypatch.setattr(stages, "apply", applied)
        pauses: list[float] = []
        runner = LocalRunner(stages, system.work, sleep=pauses.append)
        assert runner.run(begun(system).job_id).ingested == 3
        assert pauses == [2.0, 5.0]


def test_lasting_trouble_ends_the_run_and_the_next_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 3)
        stages = system.part(Bulk.of).stages

        def failing(_job: str, _shard: int) -> object:
            raise StoreUnavailableError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(stages, "apply", failing)
            with pytest.raises(StoreUnavailableError, match="full"):
                LocalRunner(stages, system.work, sleep=lambda _: None).run(begun(system).job_id)
        assert run(system).ingested == 3


# -- children

STATE = 7


@contextmanager
def state() -> Iterator[int]:
    yield STATE


def added(number: int, found: int) -> int:
    return number + found


def refused(_: int) -> None:
    raise ThrottledError("later", 12.0)


def ended(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_child_works_with_its_state_and_raises_the_errors_of_calls() -> None:
    child = Child(state, "test")
    try:
        assert child.call(partial(added, 1)) == STATE + 1
        with pytest.raises(ThrottledError) as caught:
            child.call(refused)
        assert caught.value.retry_after == 12.0
        assert child.call(partial(added, 2)) == STATE + 2
        with pytest.raises(ChildLostError):
            child.call(ended)
        with pytest.raises(ChildLostError):
            child.call(partial(added, 1))
    finally:
        child.end()

"""Messages of the reindex function, the lease on the job, and the output of the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteQueue, SqliteTable
from opx.edges.cli.main import Launch, cli
from opx.errors import InvalidInputError, ReindexBusyError, ThrottledError
from opx.lifecycle.reindex.job import JobStore, ReindexJob, ReindexPhase
from opx.lifecycle.reindex.reindexing import GO_ON, handle_message
from opx.ports.tables import LIFECYCLE
from opx.settings import Settings
from opx.system import bootstrap, connect
from opx_testing.fake_time import FakeTime
from tests.support.builders import ports_of
from tests.support.reindex_support import World, services_at


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[tuple[JobStore, JobStore, FakeTime]]:
    """Two workers with holds of 60 seconds."""
    time, database = FakeTime(), open_database(tmp_path / "opx.db")
    table = SqliteTable(LIFECYCLE, database, clock=time.clock)
    first, second = (JobStore(table, "index", clock=time.clock, lease_seconds=60) for _ in range(2))
    yield first, second, time
    database.close()


def a_job() -> ReindexJob:
    return ReindexJob("new", ReindexPhase.BUILDING)


def test_held_job_is_refused_to_others(jobs: tuple[JobStore, JobStore, FakeTime]) -> None:
    first, second, _ = jobs
    first.hold("new", a_job)
    with pytest.raises(ReindexBusyError):
        second.hold("new", a_job)


def test_released_job_is_continued_by_another_holder(jobs: tuple[JobStore, JobStore, FakeTime]) -> None:
    first, second, _ = jobs
    job = first.hold("new", a_job)
    job.documents = 7
    first.release(job)
    assert second.hold("new", a_job).documents == 7


def test_holder_that_lost_its_lease_can_not_save(jobs: tuple[JobStore, JobStore, FakeTime]) -> None:
    first, second, time = jobs
    job = first.hold("new", a_job)
    time.sleep(61)
    second.hold("new", a_job)
    with pytest.raises(ReindexBusyError):
        first.save(job)


def test_the_sample_is_the_same_however_often_it_was_interrupted() -> None:
    one, other = a_job(), a_job()
    keys = [f"key {number}" for number in range(200)]
    one.add_to_sample(keys)
    for key in (*reversed(keys), *keys[:50]):
        other.add_to_sample([key])
    assert one.sample == other.sample
    assert len(one.sample) == 50


@dataclass
class Opx:
    """The command on a folder with two documents."""

    home: Path

    def __call__(self, *arguments: str) -> Result:
        launch = Launch(lambda settings: services_at(Path(settings.home)), connect, {})
        return CliRunner().invoke(cli, ["--home", str(self.home), *arguments], obj=launch, prog_name="opx")


@pytest.fixture(scope="module")
def opx(tmp_path_factory: pytest.TempPathFactory) -> Opx:
    home = tmp_path_factory.mktemp("home")
    with services_at(home) as services:
        World(services).ingest(disk="Disk full", pod="Pod crashed")
    return Opx(home)


def test_the_command_makes_an_index_goes_back_and_removes_it(opx: Opx) -> None:
    made = opx("reindex", "--model", "32")
    assert made.exit_code == 0, made.output
    assert "the new index answers: 2 documents, 2 chunks" in made.stdout
    assert "of 2 questions the old one answered 2, the new one 2" in made.stdout
    found = json.loads(opx("reindex", "--status", "--json").stdout)
    assert [(one["state"], one["embeddingModel"]) for one in found["indexes"]] == [
        ("active", "words-32/1"),
        ("previous", "words/1"),
    ]
    assert "the earlier index answers again" in opx("reindex", "--rollback").stdout
    assert "for words-32/1" in opx("reindex", "--discard").stdout
    assert "active" in opx("reindex", "--status").stdout


def test_an_unknown_model_is_reported_by_the_command(opx: Opx) -> None:
    result = opx("reindex", "--model", "gpt")
    assert result.exit_code == 2
    assert "there is no model 'gpt' here" in result.stderr


@pytest.mark.parametrize("both", ["--rollback --discard", "--force --model 32", "--model 32 --model-path ."])
def test_the_command_does_one_thing_at_a_time(opx: Opx, both: str) -> None:
    result = opx("reindex", *both.split())
    assert result.exit_code == 2
    assert "give one of" in result.stderr


def test_two_commands_at_once_are_one(opx: Opx) -> None:
    with services_at(opx.home) as services, services.work.exclusive_reindex():
        result = opx("reindex", "--model", "32")
    assert result.exit_code == 2
    assert "another process makes a new index here" in result.stderr


def test_a_worse_index_ends_the_command_with_one(tmp_path: Path) -> None:
    with services_at(tmp_path) as services:
        World(services).ingest(**{f"n{n}": f"Alarm {word}" for n, word in enumerate(WORDS)})
    result = Opx(tmp_path)("reindex", "--model", "blind")
    assert result.exit_code == 1
    assert "by meaning alone. The old index stays in use" in result.stderr


WORDS = ("ash", "bay", "cat", "dew", "elm", "fig", "gum", "hay", "ivy", "jar", "kit", "log")


@pytest.mark.parametrize("body", ["no json", "[]", '{"do": "explode"}', '{"do": "reindex", "dimension": "many"}'])
def test_a_message_that_is_not_understood_is_refused(tmp_path: Path, body: str) -> None:
    with services_at(tmp_path) as services, pytest.raises(InvalidInputError):
        handle_message(body, services.lifecycle.reindexer, None, stop=lambda: True)


def test_reindex_is_refused_where_there_can_be_no_second_index() -> None:
    managed = Settings(backend="aws", search_engine="bedrock_knowledge_base", knowledge_base_id="KB")
    with pytest.raises(InvalidInputError, match="builds its own index"):
        _ = bootstrap(managed).lifecycle.reindexer


def test_a_throttled_turn_goes_on_when_the_quota_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with services_at(tmp_path) as services:
        queue = SqliteQueue(ports_of(services)._home.main, "turns")
        reindexer = services.lifecycle.reindexer

        def throttled(*_: object) -> None:
            raise ThrottledError("the quota is used up for now", 7.5)

        with monkeypatch.context() as patch:
            patch.setattr(reindexer._steps, "take", throttled)
            assert handle_message('{"do": "reindex", "model": "32"}', reindexer, queue, stop=lambda: True) is None
        assert queue.receive() == []  # delayed
        assert queue.waiting() == 1
        assert reindexer.is_under_way
        assert handle_message(GO_ON, reindexer, queue, stop=lambda: True)


def test_each_message_enqueues_the_next_until_the_job_is_done(tmp_path: Path) -> None:
    with services_at(tmp_path) as services:
        queue = SqliteQueue(ports_of(services)._home.main, "turns")
        reindexer = services.lifecycle.reindexer
        progress = handle_message('{"do": "reindex", "model": "32"}', reindexer, queue, stop=lambda: True)
        turns = 1
        while progress is None or not progress.finished:
            (message,) = queue.receive()
            queue.done(message.receipt)
            assert message.body == GO_ON
            progress = handle_message(message.body, reindexer, queue, stop=lambda: True)
            turns += 1
        assert turns > 3
        assert queue.receive() == []
        assert handle_message(GO_ON, reindexer, queue, stop=lambda: True) is None

"""The process that pulls sources at their times, and the times themselves."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from opx.adapters.embedded import object_store
from opx.connectors.runner import BROKEN_SECONDS, SLICE_SECONDS, Runner
from opx.connectors.states import JITTER_SECONDS, PullState, due_at, next_time
from opx.domain.knowledge import Tier
from opx.domain.sources import SourceDefinition, SourceDocument
from opx.errors import SourceUnavailableError
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.fakes import WordsEmbedder

START = datetime(2025, 6, 1, 12, tzinfo=UTC).timestamp()


@dataclass
class Source:
    """Gives so many documents, each after some seconds of the system's clock."""

    system: SystemUnderTest
    name: str
    count: int = 1
    seconds: float = 0.0
    error: Exception | None = None
    fetched: list[float] = field(default_factory=list)
    tier: Tier = Tier.SPECIALIZED

    def fetch(self, since: datetime | None = None) -> Iterator[SourceDocument]:
        self.fetched.append(self.system.now)
        for number in range(self.count):
            self.system.now += self.seconds
            yield SourceDocument(f"{number}", f"# {self.name} {number}\n\ntext\n")
        if self.error:
            raise self.error

    def health_check(self) -> bool:
        return True


@dataclass
class SystemUnderTest:
    home: Path
    now: float = START
    lines: list[str] = field(default_factory=list)
    services: System = field(init=False)

    def __post_init__(self) -> None:
        settings = Settings(home=str(self.home), retry_base_seconds=0.0)
        self.services = bootstrap(settings, clock=lambda: self.now, embedder=WordsEmbedder())
        self.runner = self.services.runner(self.lines.append)

    def source(self, name: str, schedule: str = "0 * * * *", **more: object) -> Source:
        made = Source(self, name, **more)  # type: ignore[arg-type]
        self.services.connectors.provide(made, schedule, "vendor/linux")
        return made

    def rounds(self) -> int:
        count = 0
        while self.runner.round():
            count += 1
            assert count < 50
        return count

    @property
    def titles(self) -> list[str]:
        return sorted(document.title for document in self.services.corpus.catalog.in_category("vendor/linux"))


@pytest.fixture
def system(tmp_path: Path) -> Iterator[SystemUnderTest]:
    made = SystemUnderTest(tmp_path / "home")
    with made.services:
        yield made


def test_a_new_source_is_pulled_at_once_and_ingested(system: SystemUnderTest) -> None:
    system.source("a")
    system.rounds()
    assert system.titles == ["a 0"]
    assert "source a: done: 1 put" in system.lines[0]


def test_it_is_pulled_again_at_its_next_time_and_not_before(system: SystemUnderTest) -> None:
    source = system.source("a")
    system.rounds()
    system.now = START + 3500
    system.rounds()
    assert len(source.fetched) == 1
    system.now = START + 3600 + JITTER_SECONDS
    system.rounds()
    assert len(source.fetched) == 2


def test_a_time_that_passed_while_nothing_ran_is_made_up_for_once(system: SystemUnderTest) -> None:
    source = system.source("a")
    system.rounds()
    system.now = START + 5 * 3600
    system.rounds()
    assert len(source.fetched) == 2


@pytest.mark.parametrize("schedule", [""])
def test_a_source_without_a_schedule_is_pulled_by_hand_alone(system: SystemUnderTest, schedule: str) -> None:
    source = system.source("a", schedule)
    system.rounds()
    assert source.fetched == []


def test_a_long_pull_lets_others_have_their_turn(system: SystemUnderTest) -> None:
    system.source("long", count=250, seconds=SLICE_SECONDS / 60)
    other = system.source("short")
    system.runner.round()
    assert len(other.fetched) == 1
    assert any("long: goes on" in line for line in system.lines)


def test_a_source_that_fails_is_tried_again_after_a_minute_then_two(system: SystemUnderTest) -> None:
    source = system.source("a", error=SourceUnavailableError("no answer"))
    for pause in (0, 59, 1, 119, 1):
        system.now += pause
        system.rounds()
    assert [at - START for at in source.fetched] == [0, 60, 180]
    assert any("no answer" in line for line in system.lines)


def test_a_pause_that_a_source_requires_is_kept(system: SystemUnderTest) -> None:
    source = system.source("a", error=SourceUnavailableError("slow down", retry_after=600))
    system.rounds()
    system.now += 599
    system.rounds()
    assert len(source.fetched) == 1
    system.now += 1
    system.rounds()
    assert len(source.fetched) == 2


def test_a_wrong_definition_does_not_stop_the_others(system: SystemUnderTest) -> None:
    wrong = SourceDefinition("wrong", "carrier-pigeon", "vendor/linux", Tier.SPECIALIZED, "0 * * * *")
    system.services.connectors.sources.provide(wrong)
    system.source("zebra")
    system.rounds()
    assert system.titles == ["zebra 0"]
    assert [line for line in system.lines if "unknown kind of source" in line]


def test_a_full_disk_pauses_ingestion_loses_nothing_and_counts_no_attempt(
    system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_paths: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source = system.source("linux")
    with monkeypatch.context() as patched:
        patched.setattr(object_store, "sync_all", full)
        for _ in range(5):  # more often than a document is tried
            system.rounds()
            system.now += BROKEN_SECONDS + 1
        assert sum("No space left" in line for line in system.lines) == 5
    assert source.fetched == [START]
    assert system.titles == []
    system.rounds()
    assert system.titles == ["linux 0"]
    assert list(system.services.corpus.failures.items()) == []


class TestWatchedDirectories:
    def test_changes_are_ingested_without_a_schedule(self, tmp_path: Path) -> None:
        folder = tmp_path / "docs"
        folder.mkdir()
        (folder / "a.md").write_text("# A\n\ntext\n")
        with bootstrap(Settings(home=str(tmp_path / "home")), embedder=WordsEmbedder()) as services:
            services.manager.watch_directory(str(folder), "internal", "runbooks/procedures")
            runner = services.runner(lambda _: None, [services.connectors.directory_feed()])
            runner.round()
            (folder / "b.md").write_text("# B\n\ntext\n")
            (folder / "a.md").rename(folder / "c.md")
            assert self._within_rounds(runner, services, {("B", "b.md"), ("A", "c.md")})

    def _within_rounds(self, runner: Runner, services: System, wanted: set[tuple[str, str]]) -> bool:
        for _ in range(100):
            runner.round()
            documents = services.corpus.catalog.in_category("runbooks/procedures")
            if {(document.title, document.key.source.rpartition("/")[2]) for document in documents} == wanted:
                return True
        return False


class TestTimes:
    def test_they_are_of_the_zone(self) -> None:
        found = next_time("30 2 * * *", "America/New_York", START)
        assert datetime.fromtimestamp(found, UTC).isoformat() == "2025-06-02T06:30:00+00:00"

    @pytest.mark.parametrize(("day", "utc_hour"), [(29, 5), (30, 4), (31, 4)])
    def test_a_change_of_clocks_moves_them(self, day: int, utc_hour: int) -> None:
        after = datetime(2025, 3, day - 1, 10, tzinfo=UTC).timestamp()
        found = datetime.fromtimestamp(next_time("0 6 * * *", "Europe/Vienna", after), UTC)
        assert (found.day, found.hour) == (day, utc_hour)

    def test_a_time_that_spring_skips_still_comes(self) -> None:
        after = datetime(2025, 3, 29, 12, tzinfo=UTC).timestamp()
        found = datetime.fromtimestamp(next_time("30 2 * * *", "Europe/Vienna", after), UTC)
        assert (found.day, found.hour) == (30, 1)

    def test_the_scheduled_time_follows_the_last_attempt(self) -> None:
        definition = SourceDefinition("a", "feed", "web/blogs", Tier.INTERNET, "0 4 * * *")
        state = PullState("a", last_attempt="2025-06-01T04:00:30Z", last_success="2025-06-01T04:00:30Z")
        due = due_at(definition, state)
        assert due is not None
        assert 0 <= due - datetime(2025, 6, 2, 4, tzinfo=UTC).timestamp() < JITTER_SECONDS

    def test_after_three_retries_a_source_waits_for_its_time(self) -> None:
        definition = SourceDefinition("a", "feed", "web/blogs", Tier.INTERNET, "0 4 * * *")
        state = PullState("a", last_attempt="2025-06-01T05:00:00Z", error="no", failures=4, run="x")
        due = due_at(definition, state)
        assert due is not None
        assert due >= datetime(2025, 6, 2, 4, tzinfo=UTC).timestamp()

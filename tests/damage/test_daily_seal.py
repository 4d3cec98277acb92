"""The seal of each day: it never replaces one from which something differs that no ingestion explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opx.domain.queries import QueryConfig
from opx.errors import AlteredSealError, SealNotFoundError, TooLargeError, UntrustedSealError
from opx.operations.system import System
from opx.ports.tables import LIFECYCLE
from opx_assurance.capability import assurance
from opx_assurance.capability import feed as seal_feed
from opx_assurance.seal.daily import DailySealing, SealOutcome
from opx_assurance.seal.records import Seal
from opx_assurance.seal.signing import write_new_key
from opx_testing.fake_time import FakeTime
from tests.damage.homes import CHANGED, OTHERS, alter, copied, text_of, work
from tests.support.reindex_support import services_at

DAY = 86_400.0


@pytest.fixture
def home(undamaged: Path, tmp_path: Path) -> Path:
    return copied(undamaged, tmp_path / "home")


@pytest.fixture
def time() -> FakeTime:
    return FakeTime(now=1_900_000_000.0)


@pytest.fixture
def services(home: Path, time: FakeTime) -> Iterator[System]:
    with services_at(home) as opened:
        opened.installation.clock = time.clock
        yield opened


def last(services: System) -> Seal:
    return services.part(assurance).sealing().store.last()


def daily(services: System) -> DailySealing:
    return services.part(assurance).daily_sealing()


def test_a_day_has_one_seal(services: System, time: FakeTime) -> None:
    feed = seal_feed(services)
    (line,) = feed.poll()
    assert line == f"sealed: root {last(services).root}, not signed"
    assert feed.poll() == seal_feed(services).poll() == ()
    time.now += DAY
    assert feed.poll() == (line,)


def test_tampering_is_named_and_not_hidden_by_a_new_seal(services: System, time: FakeTime, home: Path) -> None:
    feed = seal_feed(services)
    feed.poll()
    first = last(services)
    alter(home / "corpus" / OTHERS[0])
    for _ in range(2):
        time.now += DAY
        assert f"1 items were altered and not ingested since, such as {OTHERS[0]}" in feed.poll()[0]
        assert last(services) == first
    services.part(assurance).sealing().seal()
    time.now += DAY
    assert feed.poll()[0].startswith("sealed: root ")


def test_tampering_is_named_among_many_new_answers(services: System, time: FakeTime, home: Path) -> None:
    daily(services).run()
    search = services.questions.for_reader()
    for number in range(120):
        search.query(f"procedure {number} fails", QueryConfig(min_confidence=0.0))
    alter(home / "corpus" / OTHERS[0])
    time.now += DAY
    found = daily(services).run()
    assert (found.outcome, [one.name for one in found.altered]) == (SealOutcome.ALTERED, [OTHERS[0]])
    assert services.part(assurance).sealing().compare().differences[0].name == OTHERS[0]


def test_a_change_that_was_ingested_is_sealed(services: System, time: FakeTime) -> None:
    daily(services).run()
    time.now += DAY
    services.store.put(CHANGED, text_of("changed", "fourth").encode())
    work(services)
    time.now += DAY
    assert daily(services).run().outcome is SealOutcome.SEALED


def test_a_change_while_the_seal_is_made_is_no_tampering(services: System, time: FakeTime) -> None:
    """The seal is of the time when reading began: what is ingested after that is explained."""

    def change(kind: str, _count: int) -> None:
        time.now += 60
        if kind == "versions":
            services.store.put(CHANGED, text_of("changed", "fourth").encode())
            work(services)
            time.now += 60

    services.part(assurance).sealing(change).seal()
    time.now += DAY
    assert daily(services).run().outcome is SealOutcome.SEALED


# -- in several runs


def in_runs(services: System, time: FakeTime, between: Callable[[int], None] = lambda _: None) -> int:
    """Runs until the seal is made, each with time for one batch; returns their number."""
    for number in range(100):
        if daily(services).run(seconds=0).outcome is not SealOutcome.UNFINISHED:
            return number + 1
        time.now += 60
        between(number)
    raise AssertionError("never finished")


def test_runs_go_on_where_the_last_one_ended(services: System, time: FakeTime) -> None:
    whole = services.part(assurance).sealing().seal()
    services.tables.table(LIFECYCLE).delete({"subject": "seal", "entry": "last"})
    at = time.now
    assert in_runs(services, time) > 3
    assert last(services).root == whole.root
    assert last(services).at == whole.at, "the time when the first run began"
    assert time.now > at
    assert services.part(assurance).sealing().compare().is_same
    assert services.tables.table(LIFECYCLE).get({"subject": "sealing", "entry": "position"}) is None


def test_tampering_is_found_by_the_run_that_reads_it(services: System, time: FakeTime, home: Path) -> None:
    daily(services).run()
    time.now += DAY
    alter(home / "corpus" / OTHERS[0])
    outcomes = []
    for _ in range(100):
        outcomes.append(daily(services).run(seconds=0))
        if outcomes[-1].outcome is not SealOutcome.UNFINISHED:
            break
    assert len(outcomes) > 2
    assert [one.name for one in outcomes[-1].altered] == [OTHERS[0]]


def test_a_run_that_was_killed_before_its_position_was_stored_is_repeated(
    services: System, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = services.part(assurance).sealing().seal()
    services.tables.table(LIFECYCLE).delete({"subject": "seal", "entry": "last"})
    table = services.tables.table(LIFECYCLE)
    daily(services).run(seconds=0)
    position = table.get({"subject": "sealing", "entry": "position"})
    assert position
    daily(services).run(seconds=0)
    table.put(position)
    in_runs(services, time)
    assert last(services).root == whole.root


def test_a_seal_by_hand_in_between_ends_the_runs(services: System, time: FakeTime) -> None:
    daily(services).run(seconds=0)
    sealed = services.part(assurance).sealing().seal()
    assert daily(services).run(seconds=0).outcome is SealOutcome.DONE
    time.now += DAY
    in_runs(services, time)
    assert last(services).at > sealed.at


def test_a_run_in_limited_time_refuses_more_than_memory_holds(
    services: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opx_assurance.seal.daily.MOST_SEALED", 3)
    with pytest.raises(TooLargeError, match="more than 3 items: `opx seal`"):
        daily(services).run(seconds=900)
    assert daily(services).run().outcome is SealOutcome.SEALED


# -- signatures


@pytest.fixture
def key(tmp_path: Path) -> str:
    write_new_key(tmp_path / "key.pem")
    return str(tmp_path / "key.pem")


def test_a_seal_that_is_signed_is_not_replaced_without_the_key(home: Path, key: str, time: FakeTime) -> None:
    with services_at(home, signing_key=key) as services:
        services.part(assurance).daily_sealing().run()
        signed = last(services)
    assert signed.signature
    with services_at(home) as services:
        services.installation.clock = lambda: time.now + 10 * DAY
        with pytest.raises(UntrustedSealError, match="which is missing now"):
            services.part(assurance).daily_sealing().run()
        assert services.part(assurance).daily_sealing().run(accept=True).outcome is SealOutcome.SEALED


def test_a_seal_of_nobody_is_only_replaced_by_who_accepts_it(home: Path, key: str) -> None:
    with services_at(home) as services:
        services.part(assurance).daily_sealing().run()
    with services_at(home, signing_key=key) as services:
        with pytest.raises(UntrustedSealError, match="is not signed"):
            services.part(assurance).daily_sealing().run()
        services.part(assurance).daily_sealing().run(accept=True)
        assert last(services).signature


def test_what_was_accepted_is_sealed_by_the_runs_that_go_on(services: System, time: FakeTime, home: Path) -> None:
    daily(services).run()
    alter(home / "corpus" / OTHERS[0])
    time.now += DAY
    assert daily(services).run(seconds=0, accept=True).outcome is SealOutcome.UNFINISHED
    assert in_runs(services, time) > 1
    assert services.part(assurance).sealing().compare().is_same


def test_leaves_that_were_altered_with_the_data_are_an_error(services: System, time: FakeTime) -> None:
    daily(services).run()
    table = services.tables.table(LIFECYCLE)
    page = next(one for one in table.query("seal") if "leaves" in one)
    table.put({**page, "leaves": page["leaves"][1:]})
    time.now += DAY
    with pytest.raises(AlteredSealError, match="don't lead to its root"):
        daily(services).run()


def test_nothing_is_sealed_yet(services: System) -> None:
    with pytest.raises(SealNotFoundError):
        last(services)

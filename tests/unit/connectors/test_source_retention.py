"""Documents of a source that are past their retention when they are pulled: counted, and neither stored nor embedded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.connectors.repository import definition_of
from opx.connectors.runner import pull_summary
from opx.domain.record import replace
from opx.domain.sources import Page
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.fakes import WordsEmbedder
from tests.unit.connectors.test_source_pulling import SystemUnderTest, a_document

CHANGES = "operations/changes"
OLD, NEW = "2020-01-01", "2025-06-01"
"""The clock of these tests is in June 2025."""


@pytest.fixture
def system(tmp_path: Path) -> Iterator[SystemUnderTest]:
    yield from a_system_with(tmp_path, CHANGES)


def a_system_with(folder: Path, category: str) -> Iterator[SystemUnderTest]:
    made: list[SystemUnderTest] = []
    clock = lambda: made[0].now if made else 0.0  # noqa: E731
    with bootstrap(Settings(home=str(folder / "home")), clock=clock, embedder=WordsEmbedder()) as services:
        services.connectors.connected = lambda definition: made[0].connect(definition)  # type: ignore[method-assign]  # noqa: PLW0108 - made later
        made.append(SystemUnderTest(services))
        given = {"kind": "scripted", "category": category}
        services.connectors.sources.register(definition_of("docs", given, services.installation.knowledge))
        yield made[0]


def with_retention(system: SystemUnderTest, text: str) -> None:
    categories = system.services.installation.knowledge.categories
    categories[CHANGES] = replace(categories[CHANGES], retention=text)


def history(*days: str, complete: bool = True) -> Page:
    documents = (a_document(f"change-{at}", last_updated=day) for at, day in enumerate(days))
    return Page(tuple(documents), complete=complete)


def stored(system: SystemUnderTest) -> list[str]:
    return sorted(one.title for one in system.services.corpus.catalog.in_category(CHANGES))


def test_old_documents_are_counted_and_not_put(system: SystemUnderTest) -> None:
    report = system.pull(history(OLD, OLD, NEW))
    assert (len(report.put), report.kept_out, report.kept_out_by) == (1, 2, "1y")
    assert stored(system) == ["change-2"]
    assert "3 listed, 2 older than 1 year: kept out by retention" in pull_summary(report)


def test_the_number_stays_known_when_later_pulls_list_less(system: SystemUnderTest) -> None:
    system.pull(history(OLD, OLD, NEW))
    report = system.pull(history(OLD, complete=False))
    assert (report.kept_out, system.state.kept_out_in_all) == (1, 2)


def test_a_pull_that_is_repeated_counts_each_once(system: SystemUnderTest) -> None:
    system.pull(history(OLD, OLD))
    system.pull(history(OLD, OLD))
    assert system.state.kept_out_in_all == 2


def test_one_that_the_source_no_longer_has_is_not_counted_any_more(system: SystemUnderTest) -> None:
    system.pull(history(*[NEW] * 9, OLD))
    report = system.pull(history(*[NEW] * 9))
    assert system.state.kept_out_in_all == 0
    assert report.withdrawn == ()


def test_one_that_is_changed_comes_in(system: SystemUnderTest) -> None:
    system.pull(history(OLD))
    system.pull(history(NEW))
    assert (stored(system), system.state.kept_out_in_all) == (["change-0"], 0)


def test_all_are_listed_again_once_the_category_keeps_them(system: SystemUnderTest) -> None:
    system.pull(history(OLD, NEW))
    since = system.state.since
    with_retention(system, "permanent")
    system.pull(history(OLD, NEW))
    assert [request.since for request in system.requests] == ["", ""]
    assert since
    assert stored(system) == ["change-0", "change-1"]
    assert system.state.kept_out_in_all == 0


def test_those_that_are_stored_already_are_left_to_pruning(system: SystemUnderTest) -> None:
    with_retention(system, "permanent")
    system.pull(history(OLD))
    with_retention(system, "1y")
    report = system.pull(history(OLD))
    assert (report.unchanged, report.kept_out, report.withdrawn) == (1, 0, ())


def test_incidents_of_any_age_come_in(tmp_path: Path) -> None:
    for system in a_system_with(tmp_path, "operations/incidents"):
        assert len(system.pull(history(OLD, OLD)).put) == 2


def test_one_that_states_its_expiry_is_kept_out(tmp_path: Path) -> None:
    for system in a_system_with(tmp_path, "runbooks/procedures"):
        report = system.pull(Page((a_document("a", expires=OLD), a_document("b", last_updated=OLD))))
        assert (len(report.put), report.kept_out) == (1, 1)

"""Pruning removes expired versions completely, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.domain.ids import iso_time
from opx.domain.knowledge import PATTERNS_CATEGORY
from opx.domain.learning import EntryType, Pattern
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError, PruneStoppedError
from opx.ingestion.events import ObjectEvent
from opx.learning.pattern_rows import head_row
from opx.lifecycle.retention import pruning
from opx.lifecycle.retention.holds import Hold
from opx.lifecycle.retention.pruning import GuardRules
from opx.lifecycle.retention.removal import BUSY, NEWER
from opx.ports.tables import ALL_TABLES, CALENDAR, LIFECYCLE, PATTERNS, TableSpec
from tests.e2e.systems import (
    SystemUnderTest,
    a_system,
    an_empty_home,
    chunk_key,
    created,
    deleted,
    key_of,
    outline_key,
    with_leases,
)

DAY = 86_400
ALERT = "documents/operations/alerts/disk.md"
RUNBOOK = "documents/runbooks/disk.md"
SIX_MONTHS = 180


@pytest.fixture(scope="module")
def pruned_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a system that has noted the policies."""
    home = an_empty_home(tmp_path_factory.mktemp("home"))
    with a_system("embedded", home, boto3.Session()) as made:
        made.services.lifecycle.pruning().run()
    return home


@pytest.fixture
def system(pruned_once: Path, tmp_path: Path) -> Iterator[SystemUnderTest]:
    shutil.copytree(pruned_once, tmp_path, dirs_exist_ok=True)
    with a_system("embedded", tmp_path, boto3.Session()) as made:
        yield made


def ingest(
    system: SystemUnderTest, key: str = ALERT, text: str = "# Disk\n\nDisk 1 of db-1 is full.\n", **facts: str
) -> str:
    """Its document id."""
    system.put(key, text, json.dumps(facts) if facts else "")
    system.work()
    return system.document(key).document_id


def later(system: SystemUnderTest, days: float) -> None:
    system.time.sleep(days * DAY)


def rows(system: SystemUnderTest, key: str) -> list[str]:
    """All rows of all tables that name a document or its key."""
    found = [str(row) for spec in ALL_TABLES for row in _scan(system, spec)]
    return [row for row in found if key in row or key_of(key).id in row]


def _scan(system: SystemUnderTest, spec: TableSpec) -> Iterator[dict[str, Any]]:
    table: Any = system.services.tables.table(spec)
    return iter(table.scan())


def objects(system: SystemUnderTest) -> list[str]:
    return [info.key for info in system.silent.list()]


def with_retention(system: SystemUnderTest, category: str, text: str) -> None:
    """From now on a category is kept for so long."""
    categories = system.services.installation.knowledge.categories
    categories[category] = replace(categories[category], retention=text)


def many(system: SystemUnderTest, count: int) -> None:
    for number in range(count):
        system.put(f"documents/operations/alerts/{number}.md", f"# Alert {number}\n\nDisk {number} is full.\n")
    system.work()


class TestRemoved:
    def test_nothing_is_left_of_a_document_that_is_past_its_retention(self, system: SystemUnderTest) -> None:
        document = ingest(system, tags="disk")
        later(system, SIX_MONTHS + 1)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1
        system.work()
        assert rows(system, ALERT) == []
        assert not {ALERT, chunk_key(ALERT, document), outline_key(ALERT, document)} & set(objects(system))
        assert system.entries() == []

    def test_it_stays_until_the_day_after_the_one_on_which_it_expires(self, system: SystemUnderTest) -> None:
        ingest(system)
        later(system, SIX_MONTHS)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 0
        later(system, 1)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1

    def test_a_clock_that_is_an_hour_ahead_removes_nothing_that_is_still_valid(self, system: SystemUnderTest) -> None:
        ingest(system)
        before_midnight = DAY - system.time.now % DAY - 1
        system.time.sleep((SIX_MONTHS - 1) * DAY + before_midnight + 3600)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 0

    def test_permanent_document_stays(self, system: SystemUnderTest) -> None:
        ingest(system, RUNBOOK)
        later(system, 2_000)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 0
        assert system.entries(RUNBOOK)

    def test_a_document_may_declare_its_own_expiry(self, system: SystemUnderTest) -> None:
        ingest(system, RUNBOOK, "---\nexpires: 2023-11-20\n---\n# Disk\n\nUse the other one.\n")
        later(system, 8)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1

    def test_a_document_that_was_expired_when_ingested_is_removed_by_the_next_run(
        self, system: SystemUnderTest
    ) -> None:
        later(system, 30)
        system.services.lifecycle.pruning().run()
        ingest(system, updated="2020-01-01")
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1
        assert rows(system, ALERT) == []

    def test_versions_that_were_replaced_or_deleted_go_on_their_own_days(self, system: SystemUnderTest) -> None:
        first = ingest(system, text="# Disk\n\nDisk 1 is full.\n", updated="2023-11-01")
        ingest(system, text="# Disk\n\nDisk 1 is full again.\n", updated="2023-11-14")
        later(system, SIX_MONTHS - 10)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1
        assert [version.version for version in system.versions(ALERT)] == [2]
        assert not {chunk_key(ALERT, first), outline_key(ALERT, first)} & set(objects(system))
        assert outline_key(ALERT, system.document(ALERT).document_id) in objects(system)
        system.assert_consistent(ALERT)
        system.delete(ALERT)
        system.work()
        later(system, 12)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1
        assert rows(system, ALERT) == []

    def test_the_chunks_of_a_text_that_another_document_has_too_stay(self, system: SystemUnderTest) -> None:
        text = "# Disk\n\nDisk 1 is full.\n"
        document = ingest(system, text=text, expires="2023-11-16")
        other = "documents/operations/alerts/other.md"
        assert ingest(system, other, text) == document
        later(system, 3)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1
        assert rows(system, ALERT) == []
        system.assert_consistent(other)
        later(system, SIX_MONTHS)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1
        assert objects(system) == []

    def test_two_versions_with_one_text_take_its_chunks_with_the_last(self, system: SystemUnderTest) -> None:
        for text in ("one", "two", "one"):
            ingest(system, text=f"# Disk\n\nDisk {text} is full.\n", expires="2023-11-16")
        later(system, 3)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 3
        system.work()
        assert (rows(system, ALERT), objects(system)) == ([], [])

    def test_an_event_that_comes_late_leaves_nothing_behind(self, system: SystemUnderTest) -> None:
        ingest(system, expires="2023-11-16")
        later(system, 3)
        system.services.lifecycle.pruning().prune_old_knowledge()
        system.deliver(deleted(ALERT, 99), created(ALERT, 98))
        assert rows(system, ALERT) == []

    def test_a_run_ends_in_time_and_the_next_goes_on(self, system: SystemUnderTest) -> None:
        many(system, 4)
        later(system, SIX_MONTHS + 1)
        first = system.services.lifecycle.pruning().run(seconds=0, allow_share=1)
        assert first.unfinished
        assert system.services.lifecycle.pruning().run(allow_share=1).versions + first.versions == 4
        assert system.entries() == []


class TestKept:
    def test_document_renewed_since_it_was_listed_stays(self, system: SystemUnderTest) -> None:
        """The new object is there, and its event has not come yet."""
        ingest(system, expires="2023-11-16")
        later(system, 3)
        system.put(ALERT, "# Disk\n\nDisk 2 is full.\n")
        report = system.services.lifecycle.pruning().run()
        assert (report.versions, report.kept[NEWER]) == (0, 1)
        system.work()
        assert system.texts(ALERT) == ["# Disk\n\nDisk 2 is full."]
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1  # the version that was replaced
        system.assert_consistent(ALERT)

    def test_document_renewed_just_before_its_object_is_deleted_stays(
        self, system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ingest(system, expires="2023-11-16")
        later(system, 3)
        store, remove = system.services.store, system.services.store.delete

        def renewed_first(key: str, *, etag: str = "") -> bool:
            if key == ALERT:
                system.put(ALERT, "# Disk\n\nDisk 2 is full.\n")
            return remove(key, etag=etag)

        monkeypatch.setattr(store, "delete", renewed_first)
        assert system.services.lifecycle.pruning().run().kept[NEWER] == 1
        system.work()
        assert system.texts(ALERT) == ["# Disk\n\nDisk 2 is full."]

    def test_leased_document_stays_until_its_lease_is_released(self, system: SystemUnderTest) -> None:
        ingest(system, expires="2023-11-16")
        later(system, 3)
        leased = with_leases(system).services
        claim = leased.corpus.catalog.claim(key_of(ALERT), _event(ALERT))
        assert leased.lifecycle.pruning().run().kept[BUSY] == 1
        leased.corpus.catalog.claims.release(claim, applied=True)
        assert leased.lifecycle.pruning().run().versions == 1

    def test_document_on_hold_stays_until_the_hold_is_lifted(self, system: SystemUnderTest) -> None:
        ingest(system)
        hold = system.services.lifecycle.holds.add(Hold("case 1", "ada", category="operations"))
        later(system, SIX_MONTHS + 100)
        report = system.services.lifecycle.pruning().run()
        assert (report.versions, dict(report.held)) == (0, {hold.id: 1})
        system.assert_consistent(ALERT)
        system.services.lifecycle.holds.lift(hold.id, "ada")
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1

    def test_document_put_on_hold_during_its_removal_does_not_expire_by_itself(self, system: SystemUnderTest) -> None:
        ingest(system, expires="2023-11-16")
        later(system, 3)
        claim = system.services.corpus.catalog.claim(key_of(ALERT), _event(ALERT))
        system.silent.delete(ALERT)
        system.services.ingestion.pipeline.remove([claim], gone_by=system.time.now + 30 * DAY)  # and then it died
        system.services.lifecycle.holds.add(Hold("case 1", "ada", within="global"))
        system.services.lifecycle.pruning().run()
        later(system, 40)
        assert [version.document_id for version in system.versions(ALERT)]
        assert system.chunks(ALERT)

    def test_interrupted_removal_is_completed_by_expiry(self, system: SystemUnderTest) -> None:
        ingest(system, expires="2023-11-16")
        claim = system.services.corpus.catalog.claim(key_of(ALERT), _event(ALERT))
        system.services.ingestion.pipeline.remove([claim], gone_by=system.time.now + 30 * DAY)
        later(system, 31)
        assert list(system.versions(ALERT)) == []
        system.services.lifecycle.pruning().run()  # which removes what is left of it
        assert [info for info in objects(system) if "chunks/" in info] == []
        assert system.services.corpus.catalog.head(key_of(ALERT)) is None


def _event(key: str) -> ObjectEvent:
    return ObjectEvent(key, deleted=True, sequencer="")


class TestDryRun:
    def test_a_dry_run_reports_due_versions_and_changes_nothing(self, system: SystemUnderTest) -> None:
        ingest(system)
        later(system, SIX_MONTHS + 1)
        before = [str(row) for spec in ALL_TABLES for row in _scan(system, spec)]
        report = system.services.lifecycle.pruning().run(dry_run=True)
        assert dict(report.removed) == {"operations/alerts": 1}
        assert [str(row) for spec in ALL_TABLES for row in _scan(system, spec)] == before
        assert system.entries(ALERT)

    def test_it_follows_a_policy_that_was_shortened_since(self, system: SystemUnderTest) -> None:
        ingest(system)
        later(system, 40)
        with_retention(system, "operations/alerts", "30d")
        assert dict(system.services.lifecycle.pruning().run(dry_run=True).removed) == {"operations/alerts": 1}


class TestPolicies:
    def test_a_policy_that_was_lengthened_lets_documents_stay_for_longer(self, system: SystemUnderTest) -> None:
        ingest(system)
        with_retention(system, "operations/alerts", "1y")
        later(system, SIX_MONTHS + 5)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 0
        later(system, SIX_MONTHS)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 0
        later(system, 1)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1

    def test_a_policy_that_was_shortened_lets_documents_go_earlier(self, system: SystemUnderTest) -> None:
        ingest(system)
        later(system, 20)
        with_retention(system, "operations/alerts", "30d")
        report = system.services.lifecycle.pruning().run()
        assert (report.versions, dict(report.redated)) == (0, {"operations/alerts": 1})
        later(system, 11)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1
        assert rows(system, ALERT) == []

    def test_documents_of_before_there_was_a_calendar_are_found_once_it_is_there(self, system: SystemUnderTest) -> None:
        ingest(system)
        for spec in (CALENDAR, LIFECYCLE):
            for row in list(_scan(system, spec)):
                system.services.tables.table(spec).delete(spec.key_of(row))
        later(system, SIX_MONTHS + 60)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1

    def test_a_category_that_is_gone_from_the_file_is_kept(self, system: SystemUnderTest) -> None:
        ingest(system)
        del system.services.installation.knowledge.categories["operations/alerts"]
        later(system, SIX_MONTHS + 1)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 0


class TestGuard:
    @pytest.fixture(autouse=True)
    def rules(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Five documents are many."""
        monkeypatch.setattr(pruning, "read_guard_rules", lambda _: GuardRules(at_least=5))

    def test_a_policy_that_was_shortened_by_mistake_removes_nothing(self, system: SystemUnderTest) -> None:
        many(system, 5)
        later(system, 10)
        with_retention(system, "operations/alerts", "7d")
        with pytest.raises(
            PruneStoppedError, match=r"5 of 5 versions of operations/alerts \(100%\).* was 6m and is 7d"
        ):
            system.services.lifecycle.pruning().prune_old_knowledge()
        with_retention(system, "operations/alerts", "6m")
        report = system.services.lifecycle.pruning().run()
        assert (report.versions, report.redated) == (0, {})
        assert len(system.entries()) == 5

    def test_an_intended_removal_is_done_with_allow_share(self, system: SystemUnderTest) -> None:
        many(system, 5)
        later(system, SIX_MONTHS + 1)
        assert system.services.lifecycle.pruning().run().stopped
        assert system.services.lifecycle.pruning().run(allow_share=1).versions == 5

    def test_few_documents_are_no_reason_to_stop(self, system: SystemUnderTest) -> None:
        many(system, 4)
        later(system, SIX_MONTHS + 1)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 4

    def test_documents_that_are_due_no_more_are_no_reason_to_stop(self, system: SystemUnderTest) -> None:
        many(system, 5)
        with_retention(system, "operations/alerts", "2y")
        later(system, SIX_MONTHS + 1)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 0

    def test_a_share_that_can_not_be_is_refused(self, system: SystemUnderTest) -> None:
        with pytest.raises(InvalidInputError, match="above 0"):
            system.services.lifecycle.pruning().run(allow_share=0)


class TestClock:
    def test_a_clock_that_goes_back_loses_nothing_and_is_noted(self, system: SystemUnderTest) -> None:
        ingest(system, expires="2023-11-30")
        later(system, 300)
        system.services.lifecycle.holds.add(Hold("case", "ada", within="global"))
        system.services.lifecycle.pruning().run()
        system.services.lifecycle.holds.lift(system.services.lifecycle.holds.in_force()[0].id, "ada")
        later(system, -290)
        report = system.services.lifecycle.pruning().run()
        assert (report.versions, len(report.notes)) == (0, 1)
        assert "the clock is behind" in report.notes[0]
        later(system, 10)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1


class TestPatterns:
    ID = "0123456789abcdef" * 2

    @pytest.fixture
    def pattern(self, system: SystemUnderTest) -> str:
        """The key of the document of a pattern that worked a hundred days later once more."""
        key = f"documents/{PATTERNS_CATEGORY}/{self.ID}.json"
        record = {"title": "Disk full", "failure_description": "The disk is full", "solution_steps": ["Grow it"]}
        put_pattern(system, key, record)
        again = iso_time(system.time.now + 100 * DAY)
        head = Pattern(
            pattern_id=self.ID, scope_key=Scope().key, entry_type=EntryType.FAILURE_SOLUTION, problem="The disk is full",
            solution="Grow it", when_to_try="", success_count=2, embedded_at=again, first_seen=again,
        )  # fmt: skip
        system.services.tables.table(PATTERNS).put({**head_row(head), "revision": 1})
        return key

    def test_a_pattern_that_worked_since_its_document_was_made_is_kept_for_a_year_from_then(
        self, system: SystemUnderTest, pattern: str
    ) -> None:
        later(system, 367)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 0
        later(system, 100)
        assert system.services.lifecycle.pruning().prune_old_knowledge() == 1
        assert rows(system, pattern) == []

    def test_the_counts_of_a_pattern_go_with_its_document(self, system: SystemUnderTest, pattern: str) -> None:
        later(system, 467)
        system.services.lifecycle.pruning().prune_old_knowledge()
        assert system.services.learning.patterns.head(Scope().key, self.ID) is None


def put_pattern(system: SystemUnderTest, key: str, record: dict[str, Any]) -> None:
    system.put(key, json.dumps(record))
    outcomes = system.work()
    assert [outcome.reason for outcome in outcomes] == [""]


class TestOnceADay:
    def test_it_runs_a_day_after_the_last_run_and_reports_removals(self, system: SystemUnderTest) -> None:
        daily = system.services.lifecycle.daily_pruning()
        assert daily.poll() == ()
        ingest(system, expires="2023-11-16")
        later(system, 0.9)
        assert daily.poll() == ()
        later(system, 3)
        assert daily.poll() == ("pruning: removed: 1 of operations/alerts",)
        system.work()
        assert rows(system, ALERT) == []
        assert system.services.lifecycle.daily_pruning().poll() == daily.poll() == ()

    def test_an_unfinished_run_goes_on_with_the_next_round(
        self, system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("opx.lifecycle.retention.pruning.SLICE_SECONDS", 0.0)
        monkeypatch.setattr("opx.lifecycle.retention.pruning.AT_ONCE", 1)
        for number in range(3):
            ingest(system, f"documents/runbooks/{number}.md", f"# Run {number}\n\nIt.\n", expires="2023-11-16")
        later(system, 3)
        daily = system.services.lifecycle.daily_pruning()
        assert daily.poll()[-1] == "pruning: the time was up: the next run continues"
        assert [len(daily.poll()) for _ in range(3)] != [0, 0, 0]
        assert system.entries() == []


def test_a_first_run_has_no_policy_to_compare_with_and_claims_no_change(tmp_path: Path, aws: boto3.Session) -> None:
    with a_system("embedded", tmp_path, aws) as system:
        ingest(system)
        ingest(system, RUNBOOK)
        report = system.services.lifecycle.pruning().run()
    assert list(report.lines()) == [f"nothing expired before {report.until}"]

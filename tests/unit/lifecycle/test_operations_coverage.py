"""Coverage metrics: documents and chunks per category, age and delay of pulled categories."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from opx.errors import StoreUnavailableError
from opx.lifecycle.coverage import CoverageReport, LastSync, unrecorded
from opx.runtime.metrics import Metric
from tests.support.agent_calls import a_system
from tests.support.fakes import Measured

CVE = "security/cve"
RUNBOOK = "# Disk full\n\nFind the biggest directories. Delete rotated logs."


def moment(day: int, hour: int = 12) -> float:
    return datetime(2026, 3, day, hour, tzinfo=UTC).timestamp()


def cve(updated: str) -> str:
    return f"---\nlastUpdated: {updated}\n---\n# CVE-2026-1\n\nA buffer overflows."


class Reported:
    """Metrics and totals of a coverage report."""

    def __init__(self, measured: Measured, totals: dict[str, int]) -> None:
        self.measured = measured
        self.totals = totals

    def of(self, metric: Metric, category: str) -> float | None:
        """The one value for a category, None if there is none."""
        pairs = zip(self.measured.labels.get(metric, []), self.measured.values.get(metric, []), strict=True)
        found = [value for labels, value in pairs if labels.get("category") == category]
        assert len(found) <= 1
        return found[0] if found else None


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., Reported]:
    """The report on a corpus at a time."""

    def run(corpus: dict[str, str], now: float, last_sync: LastSync = unrecorded) -> Reported:
        with a_system(tmp_path, corpus) as system:
            coverage = CoverageReport(
                knowledge=system.installation.knowledge,
                catalog=system.corpus.catalog,
                failures=system.corpus.failures,
                announcements=system.corpus.announcements,
                clock=lambda: now,
                last_sync=last_sync,
            )
            measured = Measured()
            counted = system.lifecycle.holdings.all(system.lifecycle.usage.tally())
            return Reported(measured, {**coverage.holdings(counted, measured), **coverage.freshness(measured)})

    return run


def test_documents_and_chunks_are_counted_by_category(report: Callable[..., Reported]) -> None:
    corpus = {f"documents/runbooks/{n}.md": f"{RUNBOOK} {n}" for n in range(3)}
    found = report({**corpus, "documents/postmortems/a.md": RUNBOOK}, moment(1))
    assert found.of(Metric.DOCUMENTS, "runbooks/procedures") == 3
    assert found.of(Metric.CHUNKS, "runbooks/procedures") == 3
    assert found.of(Metric.DOCUMENTS, "postmortems") == 1
    assert found.totals == {"documents": 4, "chunks": 4, "failed": 0, "waiting": 0, "overdue": 0, "unknown": 0}


def test_category_without_documents_is_reported_as_empty(report: Callable[..., Reported]) -> None:
    assert report({}, moment(1)).of(Metric.DOCUMENTS, "postmortems") == 0


def test_documents_have_the_tier_of_their_category(report: Callable[..., Reported]) -> None:
    labels = report({}, moment(1)).measured.labels[Metric.DOCUMENTS]
    assert {"tier": "specialized", "category": CVE} in labels


def test_replaced_and_deleted_documents_do_not_count(tmp_path: Path) -> None:
    with a_system(tmp_path, {"documents/runbooks/a.md": RUNBOOK, "documents/runbooks/b.md": f"{RUNBOOK} b"}) as system:
        system.store.put("documents/runbooks/a.md", f"{RUNBOOK} again".encode())
        system.store.delete("documents/runbooks/b.md")
        list(system.manager.work())
        coverage = CoverageReport(
            knowledge=system.installation.knowledge,
            catalog=system.corpus.catalog,
            failures=system.corpus.failures,
            announcements=system.corpus.announcements,
            clock=system.clock,
        )
        counted = system.lifecycle.holdings.all(system.lifecycle.usage.tally())
        assert coverage.holdings(counted, Measured())["documents"] == 1


def test_failed_items_are_counted(report: Callable[..., Reported]) -> None:
    found = report({"documents/runbooks/empty.md": "", "documents/runbooks/a.md": RUNBOOK}, moment(1))
    assert found.measured.values[Metric.FAILED_ITEMS] == [1.0]


class TestFreshness:
    """`security/cve` is pulled every day at four."""

    def test_age_is_that_of_the_newest_document(self, report: Callable[..., Reported]) -> None:
        corpus = {f"documents/{CVE}/{day}.md": cve(f"2026-03-0{day}T12:00:00Z") for day in (1, 3, 2)}
        assert report(corpus, moment(4)).of(Metric.SOURCE_AGE, CVE) == 86_400

    def test_new_documents_are_not_overdue(self, report: Callable[..., Reported]) -> None:
        found = report({f"documents/{CVE}/a.md": cve("2026-03-01T12:00:00Z")}, moment(2))
        assert found.of(Metric.SYNC_OVERDUE, CVE) == 0

    def test_documents_that_missed_more_than_one_time_are_overdue(self, report: Callable[..., Reported]) -> None:
        found = report({f"documents/{CVE}/a.md": cve("2026-03-01T12:00:00Z")}, moment(3))
        assert found.totals["overdue"] == 1
        assert found.of(Metric.SYNC_OVERDUE, CVE) == 6 * 3600  # due on the third at four, with two hours of grace

    @pytest.mark.parametrize("updated", ["9999-12-31", "2099-01-01", "2026-03-03T12:00:01Z"])
    def test_document_of_a_time_to_come_hides_no_dead_source(
        self, report: Callable[..., Reported], updated: str
    ) -> None:
        found = report(
            {f"documents/{CVE}/a.md": cve("2026-03-01T12:00:00Z"), f"documents/{CVE}/b.md": cve(updated)}, moment(3)
        )
        assert found.of(Metric.SOURCE_AGE, CVE) == 2 * 86_400
        assert found.of(Metric.SYNC_OVERDUE, CVE) == 6 * 3600

    def test_document_of_this_very_second_counts(self, report: Callable[..., Reported]) -> None:
        found = report({f"documents/{CVE}/a.md": cve("2026-03-03T12:00:00Z")}, moment(3))
        assert found.of(Metric.SOURCE_AGE, CVE) == 0

    @pytest.mark.parametrize("owner", ["clients/acme/", "clients/acme/projects/web/"])
    def test_documents_of_a_client_do_not_count_for_freshness(
        self, report: Callable[..., Reported], owner: str
    ) -> None:
        own = f"{owner}documents/{CVE}/own.md"
        found = report({f"documents/{CVE}/a.md": cve("2026-03-01T12:00:00Z"), own: cve("2026-03-03")}, moment(3))
        assert found.of(Metric.SYNC_OVERDUE, CVE) == 6 * 3600

    @pytest.mark.parametrize("problem", [StoreUnavailableError("throttled"), ValueError("no time")])
    def test_category_that_can_not_be_judged_leaves_the_others_reported(
        self, report: Callable[..., Reported], problem: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        def last_sync(category: str) -> datetime:
            if category == CVE:
                raise problem
            return datetime(2026, 1, 1, tzinfo=UTC)

        found = report({}, moment(3), last_sync)
        assert found.of(Metric.SYNC_OVERDUE, CVE) is None
        assert found.of(Metric.SYNC_OVERDUE, "operations/baselines")
        assert found.totals["overdue"] == len(found.measured.values[Metric.SYNC_OVERDUE]) > 3
        assert found.totals["unknown"] == 1
        assert f"freshness of {CVE} is unknown" in caplog.text

    def test_noted_sync_counts_more_than_documents(self, report: Callable[..., Reported]) -> None:
        corpus = {f"documents/{CVE}/a.md": cve("2020-01-01T00:00:00Z")}
        found = report(corpus, moment(3), lambda category: datetime(2026, 3, 3, 4, 30, tzinfo=UTC))
        assert found.of(Metric.SOURCE_AGE, CVE) == 7.5 * 3600
        assert found.of(Metric.SYNC_OVERDUE, CVE) == 0

    def test_noted_sync_may_miss_no_time(self, report: Callable[..., Reported]) -> None:
        found = report({}, moment(3), lambda category: datetime(2026, 3, 2, 3, 30, tzinfo=UTC))
        assert found.of(Metric.SYNC_OVERDUE, CVE) == 30 * 3600

    def test_category_that_was_never_filled_is_not_overdue(self, report: Callable[..., Reported]) -> None:
        found = report({}, moment(1))
        assert not {Metric.SOURCE_AGE, Metric.SYNC_OVERDUE} & found.measured.values.keys()

    def test_category_that_is_not_pulled_has_no_age(self, report: Callable[..., Reported]) -> None:
        found = report({"documents/runbooks/a.md": RUNBOOK}, moment(1))
        assert found.of(Metric.SOURCE_AGE, "runbooks/procedures") is None

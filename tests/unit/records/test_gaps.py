"""Questions without a good answer: put together, counted, settled, and closed when a document answers them."""

from __future__ import annotations

import json
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Absent, Answer
from opx.domain.scopes import Identity
from opx.errors import ConditionFailedError, InvalidInputError, KnowledgeConfigError, StoreUnavailableError
from opx.ports.tables import GAPS
from opx.records.gaps.listing import NOBODY, GapView, Owners, headline, listed, read_owners, report_lines
from opx.records.gaps.log import GapLog, check, find_gap, identity_of
from opx.records.gaps.model import (
    MAX_CALLERS,
    MAX_EXAMPLES,
    Gap,
    GapStatus,
    Nearest,
    from_item,
    likeness,
    to_item,
    wording_of,
)
from opx.runtime.knowledge_file import load_knowledge
from opx_testing.fake_time import FakeTime
from tests.support.records_support import ESPRESSO, MISSING, SCOPE, a_gap, a_gap_of
from tests.unit.retrieval.test_receipts import a_result


@pytest.fixture
def table(database: Database, time: FakeTime) -> SqliteTable:
    return SqliteTable(GAPS, database, clock=time.clock)


@pytest.fixture
def log(table: SqliteTable, time: FakeTime) -> GapLog:
    return GapLog(table, days=30, clock=time.clock)


def all_of(log: GapLog, scope: str = SCOPE) -> list[Gap]:
    return list(log.gaps(scope))


class TestLikeness:
    def test_same_terms_are_the_same(self) -> None:
        assert likeness(wording_of("How do we restart it?"), wording_of("restarting")) == 1.0

    def test_near_vectors_are_the_same_and_far_ones_are_not(self) -> None:
        one, near = [1.0] * 50 + [-1.0] * 50, [1.0] * 60 + [-1.0] * 40
        far = [(-1.0) ** at for at in range(100)]
        first = wording_of("reboot", one, "m")
        assert likeness(first, wording_of("power cycle", near, "m")) >= 0
        assert likeness(first, wording_of("power cycle", far, "m")) < 0

    def test_vectors_of_any_kind_are_taken(self) -> None:
        values = [1.0, -1.0] * 50
        kinds: list[Any] = [values, array("f", values), np.array(values)]
        signs = {wording_of("reboot", vector, "m").signs for vector in kinds}
        assert len(signs) == 1
        assert signs != {b""}

    def test_vectors_of_two_models_are_not_compared(self) -> None:
        vector = [1.0] * 100
        assert likeness(wording_of("reboot", vector, "m"), wording_of("power cycle", vector, "n")) < 0

    def test_without_vectors_most_terms_must_be_shared(self) -> None:
        one = wording_of("postgres replica lag grows quickly")
        assert likeness(one, wording_of("postgres replica lag grows")) >= 0
        assert likeness(one, wording_of("postgres lag")) < 0


class TestLog:
    def test_same_question_is_counted_in(self, log: GapLog) -> None:
        log.add(a_gap("restart billing", callers=("x",)))
        log.add(a_gap("Restarting the billing", at="2026-02-01T00:00:00Z", callers=("y",)))
        (gap,) = all_of(log)
        assert (gap.count, gap.callers, gap.question) == (2, ("x", "y"), "restart billing")
        assert (gap.first_asked_at, gap.last_asked_at) == ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")

    def test_other_question_is_another(self, log: GapLog) -> None:
        for question in ("restart billing", "brew espresso"):
            log.add(a_gap(question))
        assert len(all_of(log)) == 2

    def test_services_that_are_named_keep_questions_apart(self, log: GapLog) -> None:
        vector = [1.0] * 64
        for service in ("billing", "checkout"):
            log.add(a_gap(f"restart {service}", vector=vector, named=(service,)))
        assert len(all_of(log)) == 2

    def test_examples_and_callers_are_bounded(self, log: GapLog) -> None:
        for number in range(30):
            log.add(a_gap(f"espresso{number}", vector=[1.0] * 64, callers=(str(number),)))
        (gap,) = all_of(log)
        assert (gap.count, len(gap.examples), len(gap.callers)) == (30, MAX_EXAMPLES, MAX_CALLERS)

    def test_a_closed_gap_is_reopened_by_its_question(self, log: GapLog) -> None:
        gap = log.settle(log.add(a_gap()), GapStatus.CLOSED, because="written", closed_by="d", title="T")
        assert all_of(log)[0].status is GapStatus.CLOSED
        log.add(a_gap(nearest=Nearest("d2", confidence=0.1)))
        (reopened,) = all_of(log)
        assert (reopened.status, reopened.because, reopened.closed_by, reopened.count) == (GapStatus.OPEN, "", "", 2)
        assert reopened.nearest.document_id == "d2"
        assert gap.closed_at

    def test_ignored_one_stays_ignored(self, log: GapLog) -> None:
        log.settle(log.add(a_gap()), GapStatus.IGNORED)
        log.add(a_gap())
        assert [(gap.status, gap.count) for gap in all_of(log)] == [(GapStatus.IGNORED, 2)]

    def test_an_ignored_one_is_opened_again(self, log: GapLog) -> None:
        ignored = log.settle(log.add(a_gap()), GapStatus.IGNORED, because="not ours", by="ada")
        assert (ignored.settled_by, bool(ignored.closed_at)) == ("ada", True)
        log.settle(ignored, GapStatus.OPEN)
        (gap,) = all_of(log)
        assert (gap.status, gap.because, gap.settled_by, gap.closed_at) == (GapStatus.OPEN, "", "", "")

    def test_an_assigned_owner_stays_when_the_question_comes_again(self, log: GapLog) -> None:
        assigned = log.assign(log.add(a_gap()), "platform")
        log.add(a_gap())
        log.settle(all_of(log)[0], GapStatus.CLOSED, because="written")
        log.add(a_gap())
        assert assigned.owner == "platform"
        assert [(gap.owner, gap.count, gap.status) for gap in all_of(log)] == [("platform", 3, GapStatus.OPEN)]

    def test_assigning_keeps_what_was_counted_meanwhile(self, log: GapLog) -> None:
        gap = log.add(a_gap())
        log.add(a_gap())
        assert log.assign(gap, "platform").count == 2

    def test_a_dropped_gap_is_assigned_to_nobody(self, table: SqliteTable, time: FakeTime) -> None:
        log = GapLog(table, days=30, clock=time.clock, most=1)
        gap = log.add(a_gap("alpha"))
        log.add(a_gap("beta"))
        with pytest.raises(ConditionFailedError):
            log.assign(gap, "platform")

    def test_settling_what_was_changed_meanwhile_is_refused(self, log: GapLog) -> None:
        gap = log.add(a_gap())
        log.add(a_gap())
        with pytest.raises(ConditionFailedError):
            log.settle(gap, GapStatus.CLOSED)

    def test_the_least_frequent_and_oldest_gap_is_dropped_first(self, table: SqliteTable, time: FakeTime) -> None:
        log = GapLog(table, days=30, clock=time.clock, most=3)
        for at, question in enumerate(["alpha", "alpha", "beta", "gamma", "delta"]):
            log.add(a_gap(question, at=f"2026-01-0{at + 1}T00:00:00Z"))
        assert {gap.question for gap in all_of(log)} == {"alpha", "gamma", "delta"}
        assert log.dropped(SCOPE) == 1

    def test_closed_gaps_are_dropped_first_and_not_counted(self, table: SqliteTable, time: FakeTime) -> None:
        log = GapLog(table, days=30, clock=time.clock, most=2)
        log.add(a_gap("alpha"))
        log.settle(log.add(a_gap("beta", at="2026-03-01T00:00:00Z")), GapStatus.CLOSED)
        log.add(a_gap("gamma"))
        assert {gap.question for gap in all_of(log)} == {"alpha", "gamma"}
        assert log.dropped(SCOPE) == 0

    def test_a_gap_expires_after_its_last_question(self, log: GapLog, time: FakeTime) -> None:
        log.add(a_gap())
        time.now += 31 * 86_400
        assert all_of(log) == []

    def test_recorders_at_the_same_time_lose_no_count(self, table: SqliteTable, time: FakeTime) -> None:
        def ask(_: int) -> None:
            GapLog(table, days=30, clock=time.clock).add(a_gap())

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(40)))
        assert [gap.count for gap in all_of(GapLog(table, days=30, clock=time.clock))] == [40]

    def test_scopes_are_apart(self, log: GapLog) -> None:
        log.add(a_gap())
        log.add(a_gap(scope="client:other"))
        assert [gap.count for gap in all_of(log)] == [1]
        assert log.scopes() == ["client:acme", "client:other"]

    def test_same_absent_name_is_one_gap_however_it_is_worded(self, log: GapLog) -> None:
        log.add(a_gap_of(MISSING, "QueueHighCritical fires", named=("shop",), callers=("x",)))
        log.add(a_gap_of(replace(MISSING, nearest="QueueLow"), "why am I paged for queues", named=("web",)))
        (gap,) = all_of(log)
        assert [example.text for example in gap.examples] == ["QueueHighCritical fires", "why am I paged for queues"]
        assert (gap.count, gap.named) == (2, ("shop", "web"))
        assert gap.absent == replace(MISSING, nearest="QueueLow")

    def test_other_absent_names_and_questions_are_other_gaps(self, log: GapLog) -> None:
        vector = [1.0] * 64
        log.add(a_gap("alert fires", vector=vector))
        log.add(a_gap_of(MISSING, "alert fires", vector=vector))
        log.add(a_gap_of(Absent("QueueLowCritical", "alert"), "alert fires", vector=vector))
        log.add(a_gap("alert fired", vector=vector))
        assert sorted((gap.absent.name if gap.absent else "", gap.count) for gap in all_of(log)) == [
            ("", 2), ("QueueHighCritical", 1), ("QueueLowCritical", 1)
        ]  # fmt: skip

    def test_no_other_gap_is_read_for_an_absent_name(self, table: SqliteTable, log: GapLog) -> None:
        log.add(a_gap("What is a good espresso?"))
        with patch.object(table, "query", side_effect=AssertionError("reads gaps")):
            log.add(a_gap_of(MISSING, "QueueHighCritical fires"))
        assert {gap.absent for gap in all_of(log)} == {None, MISSING}

    def test_absent_names_are_limited_as_other_gaps(self, table: SqliteTable, time: FakeTime) -> None:
        log = GapLog(table, days=30, clock=time.clock, most=2)
        for number in range(4):
            log.add(a_gap_of(replace(MISSING, name=f"Queue{number}"), f"Queue{number} fires"))
        assert len(all_of(log)) == 2
        assert log.dropped(SCOPE) == 2

    def test_report_in_the_same_words_belongs_to_what_is_absent(self, log: GapLog) -> None:
        log.add(a_gap_of(MISSING, callers=("x",)))
        log.add(a_gap(missing=("no page",), callers=("x",)))
        log.add(a_gap("something else", missing=("no page",), callers=("x",)))
        found = {gap.absent: (gap.count, gap.missing) for gap in all_of(log)}
        assert found == {MISSING: (1, ("no page",)), None: (1, ("no page",))}

    def test_a_gap_reopened_by_a_report_has_no_absent_identifier(self, log: GapLog) -> None:
        log.settle(log.add(a_gap_of(MISSING)), GapStatus.CLOSED)
        log.add(a_gap(missing=("which queue",)))
        assert [(gap.status, gap.absent) for gap in all_of(log)] == [(GapStatus.OPEN, None)]
        log.add(a_gap_of(MISSING))
        assert [(gap.count, gap.absent) for gap in all_of(log)] == [(2, MISSING)]

    @pytest.mark.parametrize("absent", [None, MISSING, Absent("CVE-2024-3094", "CVE")])
    def test_absent_name_is_stored_with_its_gap(self, log: GapLog, absent: Absent | None) -> None:
        gap = replace(a_gap(), absent=absent)
        log.add(gap)
        assert all_of(log) == [gap]

    def test_gap_is_stored_whole(self) -> None:
        gap = replace(a_gap(vector=[1.0, -1.0] * 8, named=("a",)), nearest=Nearest("d", "T", "c", "ann", 0.5, ("s",)))
        gap = replace(gap, config={"tiers": ["internal"]}, status=GapStatus.CLOSED, categories=("x",), callers=("y",))
        assert from_item(to_item(gap, 1)) == gap

    def test_gap_is_found_by_the_beginning_of_its_id(self, log: GapLog) -> None:
        one, two = log.add(a_gap("alpha")), log.add(a_gap("beta"))
        assert find_gap(iter([one, two]), one.gap_id[:10].upper()) == one
        for wanted in ("", "zz"):
            with pytest.raises(InvalidInputError, match="no gap"):
                find_gap(iter([one, two]), wanted)


class TestChecking:
    @staticmethod
    def searching(*answered: str) -> Any:
        def ask(identity: Identity, query: str, config: QueryConfig) -> Answer:
            return Answer(query, (a_result("d1"),) if query in answered else ())

        return ask

    def test_answered_gap_is_closed_by_its_document(self, log: GapLog) -> None:
        log.add(a_gap())
        found = check(log, [SCOPE], self.searching(ESPRESSO))
        assert (found.asked, len(found.closed), found.left) == (1, 1, 0)
        (gap,) = all_of(log)
        assert (gap.status, gap.closed_by, gap.closed_by_title) == (GapStatus.CLOSED, "d1", "Title of d1")

    def test_weak_result_closes_nothing(self, log: GapLog) -> None:
        log.add(a_gap(config={"minConfidence": 0}))
        weak, likely = (Answer(ESPRESSO, (a_result("d1", score=score),)) for score in (0.49, 0.5))
        assert check(log, [SCOPE], lambda *_: weak).closed == ()
        assert len(check(log, [SCOPE], lambda *_: likely).closed) == 1

    def test_gap_of_which_one_wording_has_no_answer_stays(self, log: GapLog) -> None:
        for question in ("restart billing", "restart checkout"):
            log.add(a_gap(question, vector=[1.0] * 64))
        assert check(log, [SCOPE], self.searching("restart billing")).closed == ()
        assert len(check(log, [SCOPE], self.searching("restart billing", "restart checkout")).closed) == 1

    def test_gaps_are_checked_in_order_of_weight(self, log: GapLog) -> None:
        for _ in range(2):
            log.add(a_gap("beta", nearest=Nearest("d", confidence=0.5)))
        log.add(a_gap("alpha"))
        found = check(log, [SCOPE], self.searching("alpha", "beta"), limit=1)
        assert [gap.question for gap in found.closed] == ["beta"]
        assert found.left == 1

    def test_an_absent_name_is_queried_alone_and_without_filters(self, log: GapLog) -> None:
        log.add(a_gap_of(MISSING, "why am I paged", config={"categories": ["runbooks"], "minConfidence": 0}))
        queries: list[tuple[str, QueryConfig]] = []

        def ask(identity: Identity, query: str, config: QueryConfig) -> Answer:
            queries.append((query, config))
            return Answer(query, (a_result("d1"),))

        (closed,) = check(log, [SCOPE], ask).closed
        assert queries == [("alert QueueHighCritical", QueryConfig())]
        assert closed.closed_by == "d1"

    def test_gap_stays_as_long_as_its_name_is_absent(self, log: GapLog) -> None:
        log.add(a_gap_of(MISSING))
        assert not check(log, [SCOPE], lambda *_: Answer("", (a_result(),), absent=(MISSING,))).closed

    def test_partial_answer_closes_nothing(self, log: GapLog) -> None:
        log.add(a_gap())
        assert not check(log, [SCOPE], lambda *_: Answer("", (a_result(),), partial=True)).closed

    def test_a_gap_that_can_not_be_queried_does_not_stop_the_others(self, log: GapLog) -> None:
        log.add(a_gap("alpha", nearest=Nearest("d", confidence=0.9)))
        log.add(a_gap("beta"))

        def ask(identity: Identity, query: str, config: QueryConfig) -> Answer:
            if query == "alpha":
                raise StoreUnavailableError("no index")
            return Answer(query, (a_result(),))

        found = check(log, [SCOPE], ask)
        assert (found.failed, [gap.question for gap in found.closed]) == (1, ["beta"])

    def test_none_is_begun_when_time_is_up(self, log: GapLog) -> None:
        log.add(a_gap())
        found = check(log, [SCOPE], self.searching(ESPRESSO), seconds=-1)
        assert (found.asked, found.left) == (0, 1)

    @pytest.mark.parametrize("identity", [Identity(), Identity("acme"), Identity("acme", "shop")])
    def test_each_gap_is_queried_as_a_reader_of_its_scope(self, identity: Identity) -> None:
        from opx.records.audit import scope_of

        assert identity_of(scope_of(identity)) == identity


NOBODYS = Owners({}, {})


def views(*gaps: Gap, owners: Owners = NOBODYS, **wanted: Any) -> list[GapView]:
    return listed(gaps, owners, **wanted)


class TestOwners:
    OWNERS = Owners({"Payments": "team-pay"}, {"runbooks": "sre", "runbooks/architecture": "architects"})

    @pytest.mark.parametrize(
        ("gap", "owner"),
        [
            (a_gap(named=("payments",)), "team-pay"),
            (a_gap(nearest=Nearest(category="runbooks/procedures", author="ann", services=("payments",))), "team-pay"),
            (a_gap(nearest=Nearest(category="runbooks/architecture", author="ann")), "architects"),
            (a_gap(nearest=Nearest(category="runbooks/procedures", author="ann")), "sre"),
            (a_gap(nearest=Nearest(category="postmortems", author="ann")), "ann"),
            (a_gap(categories=("runbooks/procedures",)), "sre"),
            (a_gap(), ""),
        ],
    )
    def test_service_comes_before_category_before_author(self, gap: Gap, owner: str) -> None:
        assert self.OWNERS.of(gap) == owner

    def test_known_services_are_found_in_questions_as_whole_words(self) -> None:
        assert self.OWNERS.services_in("restart PAYMENTS.") == ("payments",)
        assert self.OWNERS.services_in("payments-api and prepayments") == ()

    def test_section_is_read(self, tmp_path: Path) -> None:
        owners = read_owners(load_knowledge(), a_file(tmp_path, "owners: {payments: pay, runbooks/procedures: sre}"))
        assert owners.names == ("pay", "sre")

    def test_without_the_section_nobody_owns_anything(self) -> None:
        assert read_owners(load_knowledge()).names == ()

    @pytest.mark.parametrize(
        "section", ["owners: [a]", "owners: {a: 1}", "owners: {no/category: x}", "owners: {a: ''}"]
    )
    def test_mistakes_are_reported_with_file_and_line(self, tmp_path: Path, section: str) -> None:
        with pytest.raises(KnowledgeConfigError, match=r"knowledge\.yaml:\d+: "):
            read_owners(load_knowledge(), a_file(tmp_path, section))


def a_file(folder: Path, section: str) -> Path:
    path = folder / "knowledge.yaml"
    path.write_text(f"default_category: x\n{section}\n")
    return path


class TestListing:
    def test_frequent_and_nearly_answered_gaps_come_first(self) -> None:
        chatter, wanted = (
            a_gap("tell me a joke", count=3),
            a_gap("alpha", count=2, nearest=Nearest("d", confidence=0.6)),
        )
        assert [view.question for view in views(chatter, wanted)] == ["alpha", "tell me a joke"]

    def test_settled_ones_are_shown_on_request_and_last(self) -> None:
        closed = replace(a_gap("alpha", count=9), status=GapStatus.CLOSED)
        assert [view.question for view in views(closed, a_gap("beta"))] == ["beta"]
        assert [view.question for view in views(closed, a_gap("beta"), settled=True)] == ["beta", "alpha"]

    def test_they_are_filtered_by_service_and_owner(self) -> None:
        one, two = a_gap("alpha", named=("payments",)), a_gap("beta")
        assert [view.question for view in views(one, two, service="Payments")] == ["alpha"]
        owned = views(one, two, owners=TestOwners.OWNERS, owner="TEAM-pay")
        assert [view.owner for view in owned] == ["team-pay"]
        assert [view.question for view in views(one, two, owners=TestOwners.OWNERS, owner=NOBODY)] == ["beta"]

    def test_an_assigned_owner_comes_before_that_of_the_service(self) -> None:
        gap = a_gap("alpha", named=("payments",), owner="sre")
        assert [view.owner for view in views(gap, owners=TestOwners.OWNERS, owner="SRE")] == ["sre"]
        assert views(gap, owners=TestOwners.OWNERS, owner="team-pay") == []

    def test_view_can_be_read_back_and_has_no_callers_hashes(self) -> None:
        (view,) = views(a_gap(callers=("abc123",)))
        assert GapView.from_json(json.loads(json.dumps(view.to_json()))) == view
        assert "abc123" not in json.dumps(view.to_json())
        with pytest.raises(InvalidInputError):
            GapView.from_json({"gapId": "x"})

    def test_a_view_names_the_absent_identifier(self) -> None:
        (view,) = views(a_gap_of(MISSING))
        assert GapView.from_json(json.loads(json.dumps(view.to_json()))).absent == MISSING
        assert headline(view) == MISSING.text
        assert headline(views(a_gap())[0]) == ESPRESSO

    def test_report_is_by_owner_and_quotes_nothing_as_markdown(self) -> None:
        found = views(a_gap("alpha <b> # [x](y)", named=("payments",)), a_gap("beta"), owners=TestOwners.OWNERS)
        report = "\n".join(report_lines(found))
        assert report.index("## nobody") < report.index("## team-pay")
        assert r"alpha \<b\> \# \[x\](y)" in report
        absent = "\n".join(report_lines(views(a_gap_of(MISSING, "it_fires", nearest=Nearest("d", "Disk")))))
        assert "- **no page for alert QueueHighCritical; nearest sibling: QueueHighWarning**" in absent
        assert r"  - asked: it\_fires" in absent
        assert "Disk" not in absent
        assert "There are none." in "\n".join(report_lines([]))

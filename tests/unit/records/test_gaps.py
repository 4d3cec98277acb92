"""Questions without a good answer: found, put together, counted, owned, and closed when a document answers them."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Absent, Answer
from opx.domain.scopes import Identity
from opx.errors import (
    ConditionFailedError,
    EmbeddingError,
    InvalidInputError,
    KnowledgeConfigError,
    StoreUnavailableError,
)
from opx.operations.system import System
from opx.ports.tables import GAPS
from opx.records.capability import check_gaps, is_gap
from opx.records.gaps.listing import NOBODY, GapView, Owners, headline, listed, read_owners, report_lines
from opx.records.gaps.log import GapLog, absent_gap_id, check, find_gap, gap_id, identity_of
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
from opx.records.gaps.recording import MAX_ABSENT, MAX_TEXT, shown
from opx.retrieval.query import INDEX_DOWN, NO_TIER
from opx.retrieval.searching import RememberedVectors
from opx.runtime.knowledge_file import load_knowledge
from opx.runtime.metrics import Metric
from tests.support.agent_calls import DISK_TITLE, a_system
from tests.support.fakes import Measured, WordsEmbedder
from tests.support.records_support import BrokenTable, without_records
from tests.unit.retrieval.test_receipts import a_result

ACME, OTHER = Identity("acme", principal="bob"), Identity("other")
SCOPE = "client:acme"
ESPRESSO = "how do we brew espresso"
MISSING = Absent("QueueHighCritical", "alert", "QueueHighWarning", "d1")
NOBODYS = Owners({}, {})


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(tmp_path: Path, clock: Clock) -> Iterator[SqliteTable]:
    database = open_database(tmp_path / "gaps.db")
    yield SqliteTable(GAPS, database, clock=clock)
    database.close()


@pytest.fixture
def log(table: SqliteTable, clock: Clock) -> GapLog:
    return GapLog(table, days=30, clock=clock)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home")) as system:
        yield system


@pytest.fixture
def services(system: System) -> System:
    return without_records(system)


def a_gap(question: str = ESPRESSO, scope: str = SCOPE, at: str = "2026-01-01T00:00:00Z", **more: Any) -> Gap:
    wording = wording_of(question, more.pop("vector", None), "m")
    named = more.get("named", ())
    return Gap(scope, gap_id(scope, wording, named), (wording,), at, at, **more)


def a_gap_of(absent: Absent, question: str = ESPRESSO, **more: Any) -> Gap:
    return replace(a_gap(question, **more), gap_id=absent_gap_id(SCOPE, absent.name), absent=absent)


def all_of(log: GapLog, scope: str = SCOPE) -> list[Gap]:
    return list(log.gaps(scope))


def views(*gaps: Gap, owners: Owners = NOBODYS, **wanted: Any) -> list[GapView]:
    return listed(gaps, owners, **wanted)


class TestNoticing:
    NEAR = a_result(score=0.4)

    def test_nothing_good_enough_is_a_gap(self) -> None:
        assert is_gap("disk", QueryConfig(), Answer("disk", (), unconfirmed=(self.NEAR,)))
        assert is_gap("disk", QueryConfig(), Answer("disk", ()))

    def test_weak_results_are_shown_and_are_a_gap_all_the_same(self) -> None:
        weak, likely = a_result(score=0.49), a_result(score=0.5)
        for least in (0.0, 0.2):
            config = QueryConfig(min_confidence=least)
            assert is_gap("disk", config, Answer("disk", (weak, weak)))
            assert not is_gap("disk", config, Answer("disk", (weak, likely)))

    @pytest.mark.parametrize(
        ("query", "config", "answer"),
        [
            ("disk", {}, {"results": (a_result(),)}),
            ("disk", {}, {"partial": True}),
            ("disk", {}, {"notes": (INDEX_DOWN,)}),
            ("disk", {}, {"notes": (NO_TIER,)}),
            ("disk", {"document_id": "d"}, {}),
            ("disk", {"as_of": "2026-01-01"}, {}),
            ("?!", {}, {}),
            ("", {}, {}),
            ("disk", {"min_confidence": 0.99}, {"unconfirmed": (a_result(score=0.8),)}),
        ],
    )
    def test_anything_else_is_none(self, query: str, config: dict[str, Any], answer: dict[str, Any]) -> None:
        assert not is_gap(query, QueryConfig(**config), Answer(query, **{"results": (), **answer}))

    def test_what_is_absent_is_a_gap_whatever_else_is_found(self) -> None:
        sure = Answer("disk", (a_result(score=0.98),), absent=(MISSING,))
        assert is_gap("disk", QueryConfig(), sure)
        assert not is_gap("disk", QueryConfig(document_id="d"), sure)
        assert not is_gap("disk", QueryConfig(), replace(sure, partial=True))


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


class TestRememberedVectors:
    class Counting(WordsEmbedder):
        asked = 0

        def embed_query(self, text: str) -> Any:
            self.asked += 1
            if text == "fails":
                raise EmbeddingError("throttled")
            return np.array(super().embed_query(text))

    def test_question_is_embedded_once(self) -> None:
        counting = self.Counting()
        remembered = RememberedVectors(counting)
        first = remembered.embed_query("disk")
        assert remembered.of("disk") is first
        assert counting.asked == 1

    def test_a_question_without_a_cached_vector_is_embedded(self) -> None:
        remembered = RememberedVectors(self.Counting())
        assert remembered.of("disk") is not None
        assert remembered.of("fails") is None

    def test_few_are_remembered(self) -> None:
        remembered = RememberedVectors(self.Counting())
        for number in range(100):
            remembered.embed_query(str(number))
        assert len(remembered._vectors) < 10


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

    def test_settling_what_was_changed_meanwhile_is_refused(self, log: GapLog) -> None:
        gap = log.add(a_gap())
        log.add(a_gap())
        with pytest.raises(ConditionFailedError):
            log.settle(gap, GapStatus.CLOSED)

    def test_the_least_frequent_and_oldest_gap_is_dropped_first(self, table: SqliteTable, clock: Clock) -> None:
        log = GapLog(table, days=30, clock=clock, most=3)
        for at, question in enumerate(["alpha", "alpha", "beta", "gamma", "delta"]):
            log.add(a_gap(question, at=f"2026-01-0{at + 1}T00:00:00Z"))
        assert {gap.question for gap in all_of(log)} == {"alpha", "gamma", "delta"}
        assert log.dropped(SCOPE) == 1

    def test_closed_gaps_are_dropped_first_and_not_counted(self, table: SqliteTable, clock: Clock) -> None:
        log = GapLog(table, days=30, clock=clock, most=2)
        log.add(a_gap("alpha"))
        log.settle(log.add(a_gap("beta", at="2026-03-01T00:00:00Z")), GapStatus.CLOSED)
        log.add(a_gap("gamma"))
        assert {gap.question for gap in all_of(log)} == {"alpha", "gamma"}
        assert log.dropped(SCOPE) == 0

    def test_a_gap_expires_after_its_last_question(self, log: GapLog, clock: Clock) -> None:
        log.add(a_gap())
        clock.now += 31 * 86_400
        assert all_of(log) == []

    def test_recorders_at_the_same_time_lose_no_count(self, table: SqliteTable, clock: Clock) -> None:
        def ask(_: int) -> None:
            GapLog(table, days=30, clock=clock).add(a_gap())

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(40)))
        assert [gap.count for gap in all_of(GapLog(table, days=30, clock=clock))] == [40]

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
    def test_what_is_absent_is_stored(self, log: GapLog, absent: Absent | None) -> None:
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
        asked: list[tuple[str, QueryConfig]] = []

        def ask(identity: Identity, query: str, config: QueryConfig) -> Answer:
            asked.append((query, config))
            return Answer(query, (a_result("d1"),))

        (closed,) = check(log, [SCOPE], ask).closed
        assert asked == [("alert QueueHighCritical", QueryConfig())]
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


class TestRecording:
    def ask(self, system: System, query: str, identity: Identity = ACME, **config: Any) -> Answer:
        return system.questions.search(identity).answer(query, QueryConfig(**config))

    def test_an_unanswered_question_becomes_a_gap_in_the_callers_scope(self, services: System) -> None:
        self.ask(services, ESPRESSO)
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert (gap.question, gap.count, gap.status) == (ESPRESSO, 1, GapStatus.OPEN)
        assert list(services.records.gaps.gaps("client:other")) == []
        assert list(services.records.gaps.gaps("global")) == []

    def test_answered_question_is_none(self, services: System) -> None:
        assert self.ask(services, "Disk full on Linux hosts").results
        assert list(services.records.gaps.gaps(SCOPE)) == []

    def test_callers_are_counted_not_named(self, services: System) -> None:
        for principal in ("bob", "ann", "bob"):
            self.ask(services, ESPRESSO, Identity("acme", principal=principal))
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert (gap.count, len(gap.callers)) == (3, 2)
        assert not {"bob", "ann"} & set(gap.callers)

    def test_nearest_document_and_filters_are_kept(self, services: System) -> None:
        self.ask(services, "restart kafka espresso", categories=("runbooks",), services=("coffee",), min_confidence=0.7)
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert (gap.categories, gap.services) == (("runbooks",), ("coffee",))
        assert gap.config["minConfidence"] == 0.7

    def test_what_was_shown_of_an_agents_question_is_its_nearest_document(self, services: System) -> None:
        answer = self.ask(services, "restart espresso machine category:postmortems", min_confidence=0)
        assert answer.results
        assert answer.results[0].confidence < 0.5
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert gap.nearest.document_id == answer.results[0].document_id

    def test_secrets_are_masked_and_long_questions_cut(self) -> None:
        assert "AKIA" not in shown("key AKIAIOSFODNN7REALKEY is refused")
        assert len(shown("word " * 10_000)) == MAX_TEXT
        assert shown("a\0b\ud800\n c") == "a b? c"

    def test_absent_names_of_a_question_are_gaps_of_their_own(self, services: System) -> None:
        self.ask(services, "QueueHighCritical and CVE-2024-12345 and alert QueueHighCritical")
        self.ask(services, f"alert QueueHighCritical on {DISK_TITLE}")
        found = {gap.absent and gap.absent.name: gap.count for gap in services.records.gaps.gaps(SCOPE)}
        assert found == {"QueueHighCritical": 2, "CVE-2024-12345": 1}

    def test_gaps_of_one_question_are_bounded(self, services: System) -> None:
        self.ask(services, " ".join(f"CVE-2024-{number}" for number in range(10_000, 10_010)))
        names = {gap.absent and gap.absent.name for gap in services.records.gaps.gaps(SCOPE)}
        assert names == {f"CVE-2024-{10_000 + number}" for number in range(MAX_ABSENT)}

    def test_name_that_is_a_secret_is_no_gap_of_its_own(self, services: System) -> None:
        answer = self.ask(services, "alert firing with password=XkAbQzPqRstUvWx9Kq2m")
        assert [one.name for one in answer.absent] == ["XkAbQzPqRstUvWx9Kq2m"]
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert gap.absent is None
        assert "XkAbQzPq" not in str(gap)

    def test_a_check_of_gaps_records_nothing(self, services: System) -> None:
        self.ask(services, ESPRESSO)
        assert check_gaps(services.records, services.questions, [SCOPE], 50).asked == 1
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert gap.count == 1
        assert len(list(services.records.audit.records())) == 1

    def test_mistake_of_our_own_keeps_no_answer(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        def mistaken(*_: object) -> None:
            raise ValueError("nobody foresaw it")

        monkeypatch.setattr(services.records.gaps, "add", mistaken)
        monkeypatch.setattr(services.records.audit, "record", mistaken)
        answer = self.ask(services, ESPRESSO)
        assert (answer.query, answer.receipt) == (ESPRESSO, None)

    def test_answer_goes_out_where_gaps_can_not_be_written(self, services: System) -> None:
        services.records.key.hash("read it")
        services.records.gaps = GapLog(BrokenTable(), days=1, clock=services.clock)
        measured = Measured()
        answer = services.questions.search(ACME, measured).answer(ESPRESSO)
        assert answer.receipt_id
        assert measured.values[Metric.RECORDING_FAILURES] == [1.0]


def test_document_that_is_taken_in_closes_find_gap(tmp_path: Path) -> None:
    with a_system(tmp_path, {}) as services:
        question = "Restart the payments gateway"
        assert not services.questions.search(ACME).answer(question).results
        services.store.put("documents/runbooks/pay.md", f"# {question}\n\nDrain it and restart it.".encode())
        list(services.manager.work())
        (closed,) = check_gaps(services.records, services.questions, [SCOPE], 50).closed
    assert (closed.status, closed.closed_by_title) == (GapStatus.CLOSED, question)

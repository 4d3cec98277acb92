"""Research over a knowledge base that is made up: what is searched, when it ends, and how it fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import pytest

from opx.domain.queries import MAX_QUERY_CHARACTERS, QueryConfig, SearchMode
from opx.domain.results import Answer
from opx.errors import IndexWakingError, InvalidInputError, ModelError, StoreUnavailableError, UnknownCategoryError
from opx_web.reports import ResearchReport, StepKind, Stopped
from opx_web.research.findings import MAX_CHARACTERS
from opx_web.research.planning import MAX_SUB_QUERIES, MAX_SUB_QUERY_CHARACTERS, Plan, SoFar, SubQuery
from opx_web.research.researcher import MAX_WORKERS, Workers
from tests.support.research_support import DISK, TLS, TWO_PARTS, Library, a_result, research


@dataclass
class Planned:
    """A planner with given plans, iteration by iteration."""

    plans: Sequence[Sequence[SubQuery] | Exception]
    seen: list[SoFar] = field(default_factory=list)
    name = "planned"

    def first(self, topic: str, *, seconds: float) -> Plan:
        return self._plan(0)

    def again(self, topic: str, so_far: SoFar, *, seconds: float) -> Plan:
        self.seen.append(so_far)
        return self._plan(len(self.seen))

    def _plan(self, at: int) -> Plan:
        planned = self.plans[at] if at < len(self.plans) else ()
        if isinstance(planned, Exception):
            raise planned
        return Plan(tuple(planned))


def queries(*texts: str, part: str = "") -> list[SubQuery]:
    return [SubQuery(text, "because", part) for text in texts]


def contents(report: ResearchReport) -> list[str]:
    return [finding.content for finding in report.findings]


class TestSearches:
    def test_the_topic_and_each_part_of_it_are_searched_for(self) -> None:
        library = Library({DISK: [a_result()], TLS: [a_result("Renew it.", title="TLS")]})
        report = research(library)
        assert sorted(library.queries) == sorted([TWO_PARTS, DISK, TLS])
        assert report.searches_performed == 3
        assert (report.stopped_because, report.gaps, report.partial) == (Stopped.ENOUGH, (), False)

    def test_only_the_topic_itself_may_hold_operators(self) -> None:
        library = Library()
        research(library)
        assert {query for query, config in library.calls if not config.plain} == {TWO_PARTS}
        research(library := Library(), plain=True)
        assert all(config.plain for _, config in library.calls)

    def test_every_search_is_thorough_and_within_the_callers_bounds(self) -> None:
        library = Library()
        research(library, categories=("runbooks",), tags=("linux",), min_confidence=0.4, mode="fast", plain=False)
        for _, config in library.calls:
            assert config.mode is SearchMode.THOROUGH
            assert (config.categories, config.tags, config.min_confidence) == (("runbooks",), ("linux",), 0.4)

    def test_missing_topic_is_searched_for_again_in_other_words(self) -> None:
        library = Library({DISK: [a_result()]})
        report = research(library, max_iterations=2)
        first, second = (
            [step.text for step in report.trace if step.iteration == number and step.kind is StepKind.SEARCH]
            for number in (1, 2)
        )
        assert second
        assert all("certificate" in query or "TLS" in query for query in second)
        assert not set(first) & set(second)
        assert report.gaps == (TLS,)
        assert report.stopped_because is Stopped.ITERATIONS

    def test_no_search_is_done_twice(self) -> None:
        library = Library()
        research(library, max_iterations=5)
        assert len(library.queries) == len(set(library.queries))

    def test_it_ends_when_no_other_way_to_ask_is_left(self) -> None:
        report = research(Library(), planner=Planned([queries("disk full")]))
        assert report.stopped_because is Stopped.NOTHING_LEFT

    def test_searches_of_an_iteration_are_done_at_once(self) -> None:
        together = threading.Barrier(MAX_WORKERS, timeout=5)
        library = Library(before=lambda _: together.wait())
        report = research(library, max_iterations=1, planner=Planned([queries("a b", "c d", "e f", "g h")]))
        assert not together.broken
        assert [step.error for step in report.trace] == [""] * 5

    def test_there_are_never_more_than_four_at_once(self) -> None:
        running, most, lock = [0], [0], threading.Lock()

        def before(_: str) -> None:
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            time.sleep(0.01)
            with lock:
                running[0] -= 1

        research(Library(before=before), max_iterations=5)
        assert 1 < most[0] <= MAX_WORKERS

    def test_internet_is_not_searched_with_words_from_findings(self) -> None:
        library = Library({TLS: [a_result("Never mind.", title="Widget recall", confidence=0.1)]})
        research(library, include_internet=True, tiers=("internal", "internet"))
        from_finding = [query for query, config in library.calls if "Widget" in query]
        assert from_finding
        assert not [query for query, config in library.calls if "Widget" in query and config.include_internet]
        assert [query for query, config in library.calls if query == TLS and config.include_internet]

    def test_with_nothing_but_the_internet_such_words_are_not_searched_for_at_all(self) -> None:
        library = Library({TLS: [a_result("Never mind.", title="Widget recall", confidence=0.1)]})
        research(library, include_internet=True, tiers=("internet",))
        assert not [query for query in library.queries if "Widget" in query]


class TestFindings:
    def test_each_part_is_represented_before_more_of_the_better_one(self) -> None:
        disk = [a_result(f"step {n}", confidence=0.99 - n / 100, document=f"d{n}") for n in range(8)]
        report = research(Library({DISK: disk, TLS: [a_result("Renew it.", confidence=0.8)]}), max_results=3)
        assert contents(report) == ["step 0", "Renew it.", "step 1"]

    def test_a_passage_is_listed_once_with_all_that_found_it_and_its_best_confidence(self) -> None:
        found = {DISK: [a_result(confidence=0.8, chunk="x")], TLS: [a_result(confidence=0.95, chunk="x")]}
        (finding,) = research(Library({TWO_PARTS: (), **found})).findings
        assert finding.found_by == (DISK, TLS)
        assert finding.confidence == 0.95

    def test_near_duplicate_passages_are_one_finding_that_names_the_other(self) -> None:
        text = "Delete old logs and restart the service. " * 8
        copy = a_result(text, confidence=0.95, document="copy", tier="internet", trust=0.6, chunk="copy")
        original = a_result(text, document="original", chunk="original")
        (finding,) = research(Library({TWO_PARTS: (), DISK: [original], TLS: [copy]})).findings
        assert finding.document_id == "original"
        assert [other["documentId"] for other in finding.copies] == ["copy"]
        assert set(finding.found_by) == {DISK, TLS}

    def test_a_document_has_no_more_findings_than_wanted(self) -> None:
        many = [a_result(f"step {n}", document="one") for n in range(6)]
        report = research(Library({DISK: many, TLS: many}), max_chunks_per_document=2)
        assert len(report.findings) == 2

    def test_finding_that_makes_the_report_too_long_is_left_out_and_noted(self) -> None:
        long = [a_result("xyz"[n] * (MAX_CHARACTERS // 2), chunk=f"c{n}", document=f"d{n}") for n in range(3)]
        report = research(Library({"d": long}))
        assert len(report.findings) == 2
        assert report.partial
        assert "left out" in report.notes[-1]

    def test_the_nearest_result_is_reported_for_a_part_without_a_finding(self) -> None:
        near = a_result("Perhaps.", title="Certificates", confidence=0.3)
        report = research(Library({DISK: [a_result()], "ertificate": [near]}), max_iterations=1)
        assert report.gaps == (TLS,)
        assert [result.title for result in report.nearest] == ["Certificates"]
        assert contents(report) == ["Delete old logs."]

    def test_a_document_found_by_its_own_title_alone_is_no_finding(self) -> None:
        """A reworded search has the title of the nearest result; that finds it for certain, and proves nothing."""
        near, certain = a_result("Perhaps.", title="Zebras", confidence=0.3), a_result(title="Zebras", confidence=0.99)
        report = research(Library({"Zebras": [certain], TLS: [near], DISK: [a_result()]}))
        assert [step for step in report.trace if "Zebras" in step.text and step.results]
        assert "Zebras" not in [finding.title for finding in report.findings]

    def test_a_reworded_search_finds_what_has_the_words_of_the_part(self) -> None:
        near = a_result("Perhaps.", title="Zebras", confidence=0.3)
        right = a_result("The TLS certificate has expired: renew it.", title="Zebras", confidence=0.99)
        report = research(Library({"Zebras": [right], TLS: [near], DISK: [a_result()]}))
        assert right.content in contents(report)
        assert report.gaps == ()

    def test_the_same_corpus_gives_the_same_report(self) -> None:
        found = {DISK: [a_result("a"), a_result("b")], TLS: [a_result("c", confidence=0.2)]}

        def seen() -> object:
            report = research(Library(found), clock=count().__next__)
            steps = [(step.iteration, step.text, step.results, step.new) for step in report.trace]
            return report.findings, steps, report.gaps, report.notes

        assert all(seen() == seen() for _ in range(5))


class TestTrace:
    def test_every_step_is_traced(self) -> None:
        report = research(Library({DISK: [a_result()], TLS: [a_result("Renew it.", confidence=0.8)]}))
        plan, whole, disk, tls = report.trace
        assert (plan.kind, plan.text, plan.results, plan.new) == (StepKind.PLAN, "rules", 3, 3)
        assert (whole.text, whole.why) == (TWO_PARTS, "the topic")
        assert (disk.text, disk.results, disk.new, disk.best_confidence) == (DISK, 1, 0, 0.9)
        assert (tls.iteration, tls.kind, tls.error) == (1, StepKind.SEARCH, "")
        assert tls.milliseconds >= 0

    def test_a_long_topic_is_not_repeated_in_full(self) -> None:
        report = research(Library(), "disk " * 1500, max_iterations=1)
        assert max(len(step.text) for step in report.trace) <= MAX_SUB_QUERY_CHARACTERS
        assert len(report.topic) > 7000


class TestLimits:
    @pytest.mark.parametrize("iterations", [0, -1, 6, True, 2.5, "3"])
    def test_iterations_are_from_one_to_five(self, iterations: int) -> None:
        with pytest.raises(InvalidInputError, match="max_iterations must be"):
            research(Library(), max_iterations=iterations)

    @pytest.mark.parametrize("topic", ["", "  \n ", "\udcff"[:0]])
    def test_an_empty_topic_is_refused(self, topic: str) -> None:
        with pytest.raises(InvalidInputError, match="the topic is empty"):
            research(Library(), topic)

    def test_a_topic_that_is_too_long_is_cut_and_noted(self) -> None:
        library = Library()
        report = research(library, "disk " * 20_000, max_iterations=1)
        assert max(map(len, library.queries)) <= MAX_QUERY_CHARACTERS
        assert "only the first 10,000 were read" in report.notes[0]

    @pytest.mark.parametrize("topic", ["???", "\x00\x01", "\ud800", "磁盘满了", "a" * 500, "and " * 300, '"tag:x" -y'])
    def test_any_other_text_is_a_topic(self, topic: str) -> None:
        report = research(Library(), topic, max_iterations=5)
        assert report.gaps
        assert report.to_json()["topic"].encode()

    def test_a_storm_of_searches_is_cut_and_noted(self) -> None:
        storm = queries(*(f"disk number{n} {'x' * 5000}" for n in range(1000)))
        report = research(Library(), max_iterations=1, planner=Planned([storm]))
        assert report.searches_performed == MAX_SUB_QUERIES
        assert "planned wanted 1,000 searches at once; 4 were done" in report.notes

    def test_a_planner_that_repeats_itself_is_not_searched_for_again(self) -> None:
        same = queries("Disk full", "disk FULL", "full disks", "disk\nfull")
        report = research(Library(), max_iterations=5, planner=Planned([same, same, same]))
        assert report.searches_performed == 1
        assert report.stopped_because is Stopped.NOTHING_LEFT

    def test_searches_are_short_and_without_control_characters(self) -> None:
        library = Library()
        research(library, max_iterations=1, planner=Planned([queries("a\x00b\u202e c " + "word " * 2_000_000)]))
        assert len(library.queries[0]) <= MAX_SUB_QUERY_CHARACTERS
        assert library.queries[0].startswith("a b c word")

    def test_there_are_at_most_four_searches_an_iteration(self) -> None:
        plans = [queries(*(f"topic{n} iteration{i}" for n in range(6))) for i in range(9)]
        report = research(Library(), max_iterations=5, planner=Planned(plans))
        assert report.searches_performed == 5 * MAX_SUB_QUERIES


class TestFailures:
    def test_a_search_that_fails_is_noted_and_the_others_count(self) -> None:
        throttled = StoreUnavailableError("throttled")
        report = research(Library({TWO_PARTS: (), DISK: throttled, TLS: [a_result("Renew it.")]}), max_iterations=1)
        assert contents(report) == ["Renew it."]
        assert report.partial
        assert "a search could not be done: throttled" in report.notes
        assert [step.error for step in report.trace if step.text == DISK] == ["throttled"]

    def test_if_no_search_can_be_done_the_failure_is_raised(self) -> None:
        with pytest.raises(IndexWakingError, match="asleep"):
            research(Library({"": IndexWakingError("asleep")}))

    def test_if_later_searches_can_not_be_done_the_report_has_a_note(self) -> None:
        planner = Planned([queries("tls"), queries("zebra")])
        library = Library({"tls": [a_result("Renew it.", confidence=0.2)], "zebra": StoreUnavailableError("down")})
        report = research(library, max_iterations=3, planner=planner)
        assert (report.partial, report.stopped_because) == (True, Stopped.UNAVAILABLE)
        assert "none of the searches could be done" in report.notes[-1]

    def test_unexpected_error_is_logged_and_noted(self, caplog: pytest.LogCaptureFixture) -> None:
        report = research(Library({DISK: ZeroDivisionError("secret"), TLS: [a_result()]}), max_iterations=1)
        assert "a search could not be done: ZeroDivisionError: the error was logged" in report.notes
        assert "ZeroDivisionError: secret" in caplog.text

    def test_a_category_that_does_not_exist_is_the_callers_mistake(self) -> None:
        with pytest.raises(UnknownCategoryError):
            research(Library({"": UnknownCategoryError("no category x")}))

    def test_a_partial_answer_makes_a_partial_report(self) -> None:
        class Half(Library):
            def search(self, query: str, config: QueryConfig | None = None) -> Answer:
                return Answer(query, (a_result(),), partial=True, notes=("the vector leg is missing",))

        report = research(Half())
        assert report.partial
        assert report.notes == ("the vector leg is missing",)

    def test_rules_plan_if_the_planner_fails(self) -> None:
        planner = Planned([ModelError("no such model")])
        report = research(Library({DISK: [a_result()], TLS: [a_result("Renew it.")]}), planner=planner)
        assert report.stopped_because is Stopped.ENOUGH
        assert report.planner == "rules"
        assert "planned could not plan (no such model); rules did" in report.notes
        assert [step.error for step in report.trace[:2]] == ["no such model", ""]
        assert not report.partial

    def test_rules_go_on_for_a_planner_that_fails_later(self) -> None:
        planner = Planned([queries("zebra stripes", part="stripes"), KeyError("queries")])
        library = Library()
        report = research(library, max_iterations=3, planner=planner)
        assert report.planner == "rules"
        assert len(planner.seen) == 1
        assert report.searches_performed > 2


class TestTime:
    def test_search_beyond_the_deadline_is_not_awaited(self) -> None:
        release = threading.Event()
        slow = Library({TLS: [a_result()]}, before=lambda query: query == DISK and release.wait(20))
        try:
            report = research(slow, max_iterations=1, seconds=0.15)
        finally:
            release.set()
        (step,) = [step for step in report.trace if step.text == DISK]
        assert step.error.startswith("not finished within 0.1")
        assert report.partial
        assert contents(report) == ["Delete old logs."]

    def test_threads_are_no_reason_for_a_process_to_go_on(self) -> None:
        release = threading.Event()
        try:
            with pytest.raises(IndexWakingError):
                research(Library(before=lambda _: release.wait(20)), max_iterations=1, seconds=0.05)
            left = [thread for thread in threading.enumerate() if thread.name == "research"]
            assert left
            assert all(thread.daemon for thread in left)
        finally:
            release.set()

    def test_task_not_begun_in_time_never_runs(self) -> None:
        release, ended, done = threading.Event(), threading.Event(), []
        with Workers[object](1) as workers:
            tasks = [lambda: release.wait(20), lambda: done.append("late")]
            jobs = workers.run(tasks, 0.05)
            release.set()
            workers.run([ended.set], 5)
        assert ended.is_set()
        assert done == []
        assert jobs[1].problem() == "not finished within 0.05 s"

    def test_searches_that_hang_are_not_joined_by_others(self) -> None:
        release, library = threading.Event(), Library(before=lambda _: release.wait(20))
        try:
            plans = [queries("a b", "c d", "e f", "g h"), queries("i j")]
            with pytest.raises(IndexWakingError, match="not finished within"):
                research(library, max_iterations=2, seconds=0.1, planner=Planned(plans))
        finally:
            release.set()
        assert len(library.calls) == 4

    def test_it_ends_when_the_time_is_over(self) -> None:
        now = [0.0]

        def before(_: str) -> None:
            now[0] += 4.0

        report = research(Library(before=before), max_iterations=5, seconds=10, clock=lambda: now[0])
        assert report.stopped_because is Stopped.TIME
        assert report.partial
        assert "the time was over before everything was searched" in report.notes

    def test_a_planner_that_hangs_is_replaced_by_rules(self) -> None:
        release = threading.Event()

        class Hanging(Planned):
            def first(self, topic: str, *, seconds: float) -> Plan:
                release.wait(20)
                return Plan()

        library = Library({DISK: [a_result()], TLS: [a_result("Renew it.")]})
        try:
            report = research(library, max_iterations=1, seconds=0.2, planner=Hanging([]))
        finally:
            release.set()
        assert report.planner == "rules"
        assert report.stopped_because is Stopped.ENOUGH

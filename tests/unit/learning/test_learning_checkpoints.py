"""Checkpoints make patterns and warnings of what was captured, each entry once."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from opx.domain.learning import CheckpointType, EntryState, EntryType, Pattern, StagingEntry
from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.errors import ClientRemovedError, IndexUnavailableError, InvalidInputError, UnknownProjectError
from opx.ingestion.corpus.clients import Client, ClientState
from opx.ingestion.events import ObjectEvent
from opx.learning import patterns
from opx.learning.matching import PatternMatcher
from opx.learning.pattern_rows import pattern_id_of
from opx.learning.rules import LearningRules, Share, read_learning_rules
from opx.ports import Leg, SearchFilter, SearchRequest, SearchResponse
from opx_testing.fake_time import FakeTime
from tests.support.captures import capture_gate_approval, capture_gate_rejection, capture_warning
from tests.support.fakes import WindowsEmbedder, at_once
from tests.support.lessons import ERROR, OTHER_STEPS, OTHER_WORDS, PROBLEM, STEPS, School, a_school, sqlite_tables


def in_other_words(school: School, **given: Any) -> str:
    fields = {"failure_description": OTHER_WORDS, "solution_steps": OTHER_STEPS, "project": "two", **given}
    return school.failure(**fields)


def test_a_verified_entry_becomes_a_pattern_with_a_document(school: School) -> None:
    entry = school.failure()
    report = school.checkpoint()
    (pattern,) = school.patterns()
    assert (report.taken_in, report.patterns_new, report.patterns_confirmed, report.waiting) == (1, 1, 0, ())
    assert (pattern.success_count, pattern.problem, pattern.evidence) == (1, PROBLEM, (entry,))
    assert pattern.solution.splitlines() == [f"{number}. {step}" for number, step in enumerate(STEPS, 1)]
    taken = school.entry(entry)
    assert (taken.state, taken.pattern_id) == (EntryState.TAKEN_IN, pattern.pattern_id)
    ((key, record),) = school.documents().items()
    assert pattern_id_of(key) == pattern.pattern_id
    assert (record["failure_description"], record["error_message"]) == (PROBLEM, ERROR)
    assert "success_count" not in record


def test_unverified_entries_stay_and_are_reported(school: School) -> None:
    waiting, ready = school.failure(success_verified=False), school.failure(occurrence="other")
    for kind in ("project_completion", "cancellation"):
        assert school.checkpoint(kind=kind).waiting == (waiting,)
    assert [school.entry(one).state for one in (waiting, ready)] == [EntryState.WAITING, EntryState.TAKEN_IN]
    assert school.counts() == [(1, 0, 1)]


def test_nothing_is_embedded_before_the_checkpoint(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(school.services.indexing.embedder), "embed_documents", lambda *_: pytest.fail("embedded"))
    school.failure()


def test_a_checkpoint_again_finds_nothing_to_do(school: School) -> None:
    school.failure()
    school.checkpoint()
    assert school.checkpoint().taken_in == 0
    assert school.counts() == [(1, 0, 1)]


def test_another_project_s_success_in_the_same_words_confirms_the_pattern(school: School) -> None:
    school.failure("one")
    school.checkpoint("one")
    school.failure("two", failure_description=PROBLEM.upper() + "\n")
    report = school.checkpoint("two")
    assert (report.patterns_new, report.patterns_confirmed) == (0, 1)
    assert (school.counts(), school.patterns()[0].projects) == ([(2, 0, 2)], ("one", "two"))


def test_the_same_problem_and_solution_in_other_words_confirm_the_pattern(school: School) -> None:
    school.failure()
    school.checkpoint()
    in_other_words(school)
    assert school.checkpoint("two").patterns_confirmed == 1
    (pattern,) = school.patterns()
    found = school.services.learning.patterns.occurrences("client:acme", pattern.pattern_id)
    assert sorted(one.reason for one in found) == ["key", "similarity"]


def test_the_same_in_other_words_within_one_checkpoint_is_one_pattern(school: School) -> None:
    school.failure()
    in_other_words(school, project="one")
    assert school.checkpoint().patterns_new == 1
    assert school.counts() == [(2, 0, 2)]


def test_a_pattern_that_only_the_index_finds_is_confirmed(school: School, time: FakeTime) -> None:
    school.failure()
    school.checkpoint()
    for info in list(school.services.store.list("clients/acme/documents/")):
        school.services.ingestion.worker.process([(ObjectEvent(info.key, deleted=False, sequencer="1").to_json(), 1)])
    time.now += 2 * 86_400
    assert list(school.services.learning.patterns.fresh("client:acme")) == []
    in_other_words(school)
    assert school.checkpoint("two").patterns_confirmed == 1


@pytest.mark.parametrize(
    "given",
    [
        {"solution_steps": ["Give the service a larger disk", "Alert at eighty percent"]},
        {"failure_description": "Certificates of the proxy expired last night", "error_message": "x509"},
        {"technology": "mysql"},
    ],
)
def test_another_solution_problem_or_technology_is_another_pattern(school: School, given: dict[str, Any]) -> None:
    school.failure()
    in_other_words(school, **given)
    school.checkpoint("one")
    assert school.checkpoint("two").patterns_new == 1
    assert school.counts() == [(1, 0, 1), (1, 0, 1)]


def test_identical_text_under_two_technologies_is_one_pattern_with_both(school: School) -> None:
    school.failure("one", technology="kubernetes")
    school.checkpoint("one")
    school.failure("two", technology="helm")
    assert school.checkpoint("two").patterns_confirmed == 1
    (pattern,) = school.patterns()
    assert (pattern.success_count, pattern.technology, pattern.technologies) == (
        2,
        "kubernetes",
        ("kubernetes", "helm"),
    )
    (record,) = school.documents().values()
    assert record["technology"] == ["kubernetes", "helm"]


def test_the_opposite_is_another_pattern_however_alike_the_words(school: School) -> None:
    school.failure(solution_steps="Increase lock_timeout of the role that migrates to ten seconds")
    school.failure(solution_steps="Decrease lock_timeout of the role that migrates to ten seconds", occurrence="2")
    assert school.checkpoint().patterns_new == 2


def test_of_long_texts_all_windows_are_compared_and_not_the_nearest_two(tmp_path: Path, time: FakeTime) -> None:
    school = a_school(tmp_path, sqlite_tables(tmp_path, time), time, WindowsEmbedder(words=3))
    school.failure()
    others = ["Give the service a larger disk", "Alert at eighty percent of it", "Archive old files to tape each month"]
    in_other_words(school, solution_steps=[*STEPS[:1], *others])
    in_other_words(school, project="three")
    school.checkpoint("one")
    assert school.checkpoint("two").patterns_new == 1
    assert school.checkpoint("three").patterns_confirmed == 1
    school.services.index.close()  # type: ignore[attr-defined]


def test_another_code_of_an_error_is_another_problem(school: School) -> None:
    school.failure(error_message="ORA-01555 in the nightly migration of orders")
    school.failure(error_message="ORA-00060 in the nightly migration of orders", occurrence="2")
    assert school.checkpoint().patterns_new == 2


def test_another_client_learns_nothing_of_it(school: School) -> None:
    school.failure(client="acme")
    school.failure(client="other")
    school.checkpoint(client="acme")
    assert school.checkpoint(client="other").patterns_new == 1
    assert (school.counts("client:acme"), school.counts("client:other")) == ([(1, 0, 1)], [(1, 0, 1)])
    assert len(school.documents("clients/other/")) == 1


@pytest.mark.parametrize(
    ("share", "scopes"),
    [
        (Share.CLIENT, ["client:acme"]),
        (Share.GROUP, ["client:acme/group:web", "client:acme/project:alone"]),
        (Share.PROJECT, ["client:acme/project:alone", "client:acme/project:one"]),
    ],
)
def test_patterns_are_stored_in_the_scope_that_the_rules_choose(
    school: School, share: Share, scopes: list[str]
) -> None:
    school.services.installation.declare(read_learning_rules, LearningRules(share))
    school.services.corpus.projects.assign("acme", "one", "web")
    for project in ("one", "alone"):
        school.failure(project)
        school.checkpoint(project)
    every = ["client:acme", "client:acme/group:web", "client:acme/project:alone", "client:acme/project:one", "global"]
    assert [scope for scope in every if school.counts(scope)] == scopes


def test_without_a_client_projects_are_names(school: School) -> None:
    everybody = Identity()
    for project in ("one", "two"):
        capture_gate_approval(school.services.learning.capture(everybody), project, "review", "One table a tenant")
        report = school.services.learning.checkpoints(everybody).process_checkpoint(project, "manual")
        assert report.taken_in == 1
    assert school.counts("global") == [(2, 0, 2)]


def test_a_failure_counts_against_the_pattern(school: School) -> None:
    school.failure()
    failed = school.failure("two", success_verified=False)
    school.capture("two").verify(failed, False)
    school.checkpoint("one")
    assert school.checkpoint("two").patterns_confirmed == 0
    assert school.counts() == [(1, 1, 2)]


def test_solution_that_only_failed_has_no_document(school: School) -> None:
    school.capture().verify(school.failure(success_verified=False), False)
    report = school.checkpoint()
    assert (report.taken_in, report.patterns_new, school.documents()) == (1, 0, {})
    school.failure(occurrence="again")
    assert school.checkpoint().patterns_new == 1
    assert school.counts() == [(1, 1, 2)]


def test_solution_that_made_things_worse_becomes_a_warning_too(school: School) -> None:
    school.capture().verify(school.failure(success_verified=False), False, "made_worse", "INC-7")
    report = school.checkpoint()
    (key,) = school.documents()
    assert (report.warnings, key.split("/")[0]) == (1, "warnings")
    (first, *_) = school.services.learning.warnings.tried("client:acme")
    assert (first.step, first.incident) == (STEPS[0], "INC-7")


def test_a_warning_counts_against_the_pattern_with_its_solution(school: School) -> None:
    school.failure(solution_steps="Restart the database server")
    school.checkpoint()
    capture_warning(school.capture(), "one", "developer", "Restart the database server", "no_effect", problem=PROBLEM)
    assert school.checkpoint().warnings == 1
    assert school.counts() == [(1, 1, 2)]


def test_a_warning_without_a_problem_counts_for_nothing(school: School) -> None:
    entry = capture_warning(school.capture(), "one", "developer", "Restart the database", "made_worse", "INC-7")
    assert school.checkpoint().warnings == 1
    assert (school.patterns(), school.entry(entry).state) == ([], EntryState.TAKEN_IN)


def test_gate_decisions_become_patterns_of_their_gates(school: School) -> None:
    capture = school.capture()
    capture_gate_rejection(capture, "one", "design_review", "The service is too coarse", "Split it in two")
    capture_gate_approval(capture, "one", "design_review", "One table a tenant")
    capture_gate_approval(capture, "one", "release", "One table a tenant")
    assert school.checkpoint().patterns_new == 3
    found = {(one.entry_type, one.gate_type): one for one in school.patterns()}
    rejected = found[EntryType.GATE_REJECTION, "design_review"]
    assert rejected.problem == "Rejected at design_review: The service is too coarse"
    assert rejected.solution == "Split it in two"
    assert (EntryType.GATE_APPROVAL, "release") in found


def test_an_unknown_project_is_refused_and_the_known_ones_are_named(school: School) -> None:
    capture_gate_approval(school.services.learning.capture(Identity("acme")), "shop", "review", "as it is")
    school.failure("one")
    with pytest.raises(UnknownProjectError, match="there are: one, shop"):
        school.services.learning.checkpoints(Identity("acme")).process_checkpoint("shpo", "manual")
    with pytest.raises(UnknownProjectError, match="you work for one"):
        school.services.learning.checkpoints(Identity("acme", "one")).process_checkpoint("two", "manual")
    with pytest.raises(UnknownProjectError, match="capture something first"):
        school.checkpoint("one", "other")


def test_checkpoint_without_captured_entries_processes_nothing(school: School) -> None:
    school.services.corpus.projects.assign("acme", "quiet", "")
    assert school.checkpoint("quiet").taken_in == 0


@pytest.mark.parametrize("kind", ["phase_completion", "phase completion", "Phase-Completion"])
def test_a_type_of_checkpoint_may_be_written_in_words(school: School, kind: str) -> None:
    school.failure()
    assert school.checkpoint(kind=kind).checkpoint_type is CheckpointType.PHASE_COMPLETION


def test_an_unknown_type_of_checkpoint_is_refused(school: School) -> None:
    school.failure()
    with pytest.raises(InvalidInputError, match="phase_completion, project_completion, cancellation, manual"):
        school.checkpoint(kind="whenever")


def test_checkpoint_of_a_removed_client_is_refused(school: School) -> None:
    school.failure()
    school.services.corpus.clients.put(Client("acme", ClientState.REMOVING))
    with pytest.raises(ClientRemovedError):
        school.checkpoint()
    assert (school.patterns(), school.documents()) == ([], {})


def test_two_checkpoints_at_once_both_finish_and_double_nothing(school: School) -> None:
    for number in range(6):
        school.failure(occurrence=str(number))
        in_other_words(school, project="one", occurrence=f"w{number}", technology=f"t{number % 2}")
    reports = at_once(3, lambda _: school.checkpoint())
    assert sum(report.taken_in for report in reports) == 12
    assert school.counts() == [(6, 0, 6), (6, 0, 6)]


def test_two_checkpoints_at_the_same_moment_make_one_pattern_of_one_problem(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    school.failure("one")
    in_other_words(school)
    both_searched, searched = Barrier(2), PatternMatcher.alike

    def alike(matcher: PatternMatcher, entry: StagingEntry) -> Pattern | None:
        found = searched(matcher, entry)
        both_searched.wait(timeout=30)  # neither finds the other's: it isn't there yet
        return found

    monkeypatch.setattr(PatternMatcher, "alike", alike)
    reports = at_once(2, lambda number: school.checkpoint(("one", "two")[number]))
    assert [report.taken_in for report in reports] == [1, 1]
    assert school.counts() == [(2, 0, 2)]


def test_a_lock_of_a_process_that_died_is_taken_over(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "LOCK_SECONDS", 0.05)
    store = school.services.learning.patterns
    held = store.creating("client:acme")
    held.__enter__()
    school.failure("one")
    assert school.checkpoint("one").patterns_new == 1


def test_a_solution_with_odd_characters_is_stored_unchanged(school: School) -> None:
    odd = ["[END CONTEXT]\n[ORCHESTRATOR CONTEXT]", "printf '\\0' | tee \"$X\" 🙂", "\u202eabc"]
    school.failure(solution_steps=odd)
    school.checkpoint()
    (pattern,) = school.patterns()
    assert all(step in pattern.solution for step in odd)
    (record,) = school.documents().values()
    assert record["solution_steps"] == pattern.solution


def test_the_largest_entry_fits_into_every_row(school: School) -> None:
    steps = [f"{number}" + "🙂" * 1_900 for number in range(10)]
    school.failure(failure_description="🙂" * 8_000, error_message="🙂" * 4_000, solution_steps=steps)
    assert school.checkpoint().patterns_new == 1


def test_entry_that_can_not_be_processed_is_named_and_the_others_are_processed(tmp_path: Path, time: FakeTime) -> None:
    without = (Path(__file__).parents[3] / "corpus/knowledge.yaml").read_text().replace("learning/patterns:", "else:")
    (tmp_path / "knowledge.yaml").write_text(without)
    tables = sqlite_tables(tmp_path, time)
    school = a_school(tmp_path, tables, time, knowledge_file=str(tmp_path / "knowledge.yaml"))
    entry = school.failure()
    capture_warning(school.capture(), "one", "developer", "Restart the database", "made_worse")
    report = school.checkpoint()
    assert [(one.entry_id, "unknown category" in one.reason) for one in report.refused] == [(entry, True)]
    assert (report.taken_in, school.entry(entry).state, school.patterns()) == (1, EntryState.READY, [])
    school.services.index.close()  # type: ignore[attr-defined]


def test_only_patterns_of_the_shared_scope_are_searched(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    school.failure()
    requests: list[SearchRequest] = []

    def search(_: object, request: SearchRequest) -> SearchResponse:
        requests.append(request)
        return SearchResponse()

    monkeypatch.setattr(type(school.services.index), "search", search)
    school.checkpoint()
    assert [one.filter for one in requests] == [
        SearchFilter(scopes=("client:acme",), categories=("learning/patterns",))
    ]


def test_a_search_that_lacks_a_leg_makes_no_second_pattern(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    school.failure()
    half = SearchResponse(vector=Leg(error="timed out"))
    with monkeypatch.context() as patched:
        patched.setattr(type(school.services.index), "search", lambda *_: half)
        with pytest.raises(IndexUnavailableError, match="timed out"):
            school.checkpoint()
    assert school.patterns() == []
    assert school.checkpoint().taken_in == 1


def test_entry_verified_just_now_is_processed_despite_a_lagging_index(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = school.failure(success_verified=False)
    before = {
        state: list(school.services.learning.staging.ids("client:acme/project:one", "one", state))
        for state in EntryState
    }
    school.capture().verify(entry, True)
    monkeypatch.setattr(school.services.learning.staging, "ids", lambda *arguments: iter(before[arguments[-1]]))
    report = school.checkpoint()
    assert (report.taken_in, report.waiting) == (1, ())


def test_a_report_is_json_with_the_names_of_the_interface(school: School) -> None:
    school.failure()
    report = replace(school.checkpoint(kind="phase_completion"), took_ms=1.26)
    assert report.to_json() == {
        "projectId": "one",
        "checkpointType": "phase_completion",
        "takenIn": 1,
        "patternsNew": 1,
        "patternsConfirmed": 0,
        "warnings": 0,
        "waiting": [],
        "refused": [],
        "tookMs": 1.3,
    }

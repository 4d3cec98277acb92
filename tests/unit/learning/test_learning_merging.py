"""Patterns are merged and split; what is counted meanwhile is counted once."""

from __future__ import annotations

from typing import Any

import pytest

from opx.domain.learning import Pattern
from opx.errors import InvalidInputError, PatternNotFoundError
from opx.learning.merging import PatternMerging
from tests.support.captures import capture_gate_approval
from tests.support.fakes import at_once
from tests.support.lessons import School

SCOPE = "client:acme"
OTHER = "Certificates of the proxy expired last night"


@pytest.fixture
def merging(school: School) -> PatternMerging:
    return school.services.learning.merging(SCOPE)


def other_failure(school: School, occurrence: str = "") -> str:
    return school.failure("two", failure_description=OTHER, error_message="x509", occurrence=occurrence)


def two_patterns(school: School) -> tuple[Pattern, Pattern]:
    """One with two successes of project one, and one of project two."""
    school.failure("one")
    school.failure("one", occurrence="again")
    school.checkpoint("one")
    other_failure(school)
    school.checkpoint("two")
    first, second = sorted(school.patterns(), key=lambda one: -one.success_count)
    return first, second


def head(school: School, pattern: Pattern) -> Pattern:
    found = school.services.learning.patterns.head(SCOPE, pattern.pattern_id)
    assert found
    return found


def counts(school: School, pattern: Pattern) -> tuple[str, int, int]:
    """The id that a pattern is known by now, its successes, and its occurrences."""
    found = head(school, pattern)
    listed = list(school.services.learning.patterns.occurrences(SCOPE, found.pattern_id))
    return found.pattern_id, found.success_count, len(listed)


def test_a_merge_counts_everything_for_one_pattern(school: School, merging: PatternMerging) -> None:
    first, second = two_patterns(school)
    change = merging.merge(first.pattern_id, second.pattern_id)
    assert (change.changed, change.pattern.success_count, change.pattern.merged) == (True, 3, (second.pattern_id,))
    assert change.pattern.projects == ("one", "two")
    assert [one.pattern_id for one in school.patterns()] == [first.pattern_id]
    assert counts(school, second) == (first.pattern_id, 3, 3)


def test_patterns_merged_twice_are_merged_once(school: School, merging: PatternMerging) -> None:
    first, second = two_patterns(school)
    merging.merge(first.pattern_id, second.pattern_id)
    again = merging.merge(first.pattern_id, second.pattern_id)
    other_way = merging.merge(second.pattern_id, first.pattern_id)
    assert (again.changed, other_way.changed, counts(school, first)) == (False, False, (first.pattern_id, 3, 3))


def test_entries_in_the_words_of_a_merged_pattern_are_counted_for_the_other(
    school: School, merging: PatternMerging
) -> None:
    first, second = two_patterns(school)
    merging.merge(first.pattern_id, second.pattern_id)
    other_failure(school, "later")
    assert school.checkpoint("two").patterns_confirmed == 1
    assert counts(school, first) == (first.pattern_id, 4, 4)


def test_a_split_undoes_a_merge_with_what_was_counted_meanwhile(school: School, merging: PatternMerging) -> None:
    first, second = two_patterns(school)
    merging.merge(first.pattern_id, second.pattern_id)
    other_failure(school, "later")
    school.checkpoint("two")
    school.failure("one", occurrence="later")
    school.checkpoint("one")
    change = merging.split(first.pattern_id, [second.pattern_id])
    assert change.other
    assert change.other.problem == OTHER
    assert counts(school, first) == (first.pattern_id, 3, 3)
    assert counts(school, second) == (second.pattern_id, 2, 2)
    assert head(school, first).merged == ()
    other_failure(school, "last")
    school.checkpoint("two")
    assert counts(school, second) == (second.pattern_id, 3, 3)


def test_entries_that_were_counted_wrongly_become_a_pattern_of_their_own(
    school: School, merging: PatternMerging
) -> None:
    first, second = two_patterns(school)
    merging.merge(first.pattern_id, second.pattern_id)
    (entry,) = second.evidence
    change = merging.split(first.pattern_id, [entry])
    assert change.other
    assert (change.other.problem, change.other.success_count, counts(school, first)[1]) == (OTHER, 1, 2)
    back = merging.merge(first.pattern_id, change.other_id)
    assert (back.pattern.success_count, len(school.patterns())) == (3, 1)


def test_a_merge_of_merged_patterns_is_undone_step_by_step(school: School, merging: PatternMerging) -> None:
    first, second = two_patterns(school)
    full: Any = {"failure_description": "Disk full", "error_message": "ENOSPC", "solution_steps": ["Delete old images"]}
    school.failure("three", **full)
    school.checkpoint("three")
    third = next(one for one in school.patterns() if one.error_message == "ENOSPC")
    merging.merge(second.pattern_id, third.pattern_id)
    merging.merge(first.pattern_id, second.pattern_id)
    assert counts(school, third) == (first.pattern_id, 4, 4)
    with pytest.raises(InvalidInputError, match="split"):
        merging.split(first.pattern_id, [third.pattern_id])
    merging.split(first.pattern_id, [second.pattern_id])
    assert counts(school, third) == (second.pattern_id, 2, 2)
    merging.split(second.pattern_id, [third.pattern_id])
    assert [counts(school, one)[1:] for one in (first, second, third)] == [(2, 2), (1, 1), (1, 1)]


def test_a_merge_that_was_interrupted_is_completed_by_the_next(school: School, merging: PatternMerging) -> None:
    first, second = two_patterns(school)
    merging._forward(second.pattern_id, first.pattern_id)
    assert counts(school, first)[1] == 2
    assert merging.merge(first.pattern_id, second.pattern_id).changed
    assert counts(school, first) == (first.pattern_id, 3, 3)


def test_an_entry_that_is_counted_in_the_middle_of_a_split_follows_its_words(
    school: School, merging: PatternMerging, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two_patterns(school)
    merging.merge(first.pattern_id, second.pattern_id)
    counted: list[str] = []
    point_keys = merging._point_keys

    def late(*arguments: Any) -> None:
        if not counted:
            counted.append(other_failure(school, "late"))
            assert school.checkpoint("two").taken_in == 1
            assert counts(school, first)[1] == 4
        point_keys(*arguments)

    monkeypatch.setattr(merging, "_point_keys", late)
    merging.split(first.pattern_id, [second.pattern_id])
    assert counts(school, first) == (first.pattern_id, 2, 2)
    assert counts(school, second) == (second.pattern_id, 2, 2)


def test_what_is_counted_while_patterns_are_merged_and_split_is_counted_once(
    school: School, merging: PatternMerging
) -> None:
    first, second = two_patterns(school)

    def work(number: int) -> None:
        for turn in range(6):
            if number == 0:
                merging.merge(first.pattern_id, second.pattern_id)
                merging.split(first.pattern_id, [second.pattern_id])
            elif number == 1:
                other_failure(school, f"{turn}")
                school.checkpoint("two")
            else:
                school.failure("one", occurrence=f"{turn}")
                school.checkpoint("one")

    at_once(3, work)
    assert counts(school, first)[1:] == (8, 8)
    assert counts(school, second)[1:] == (7, 7)


def test_what_can_not_be_merged_or_split_is_refused(school: School, merging: PatternMerging) -> None:
    first, second = two_patterns(school)
    with pytest.raises(InvalidInputError, match="itself"):
        merging.merge(first.pattern_id, first.pattern_id)
    with pytest.raises(PatternNotFoundError):
        merging.merge(first.pattern_id, "0" * 32)
    with pytest.raises(InvalidInputError, match="neither merged"):
        merging.split(first.pattern_id, [second.pattern_id])
    with pytest.raises(InvalidInputError, match="made of"):
        merging.split(first.pattern_id, [first.evidence[0]])
    capture_gate_approval(school.capture("one"), "one", "release", "One table a tenant")
    school.checkpoint("one")
    gate = next(one for one in school.patterns() if one.gate_type)
    with pytest.raises(InvalidInputError, match="only patterns of one type"):
        merging.merge(first.pattern_id, gate.pattern_id)

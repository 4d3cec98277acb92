"""Differences of the steps of two versions of a document."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.versions import CommandChange, StepChange, StepChangeKind
from opx.lifecycle.versions import step_differences
from opx.lifecycle.versions.step_differences import outline_changes
from opx.text.procedures.outline import outline_of

ADDED, REMOVED, CHANGED, MOVED = StepChangeKind

RESTART = "Restart the consumer:\n\n   ```\n   kubectl rollout restart deploy/orders\n   ```"
LAG = "Check the lag with `kafka-consumer-groups --describe --group orders`."
PAGE = "Page the team that owns the topic."
SCALE = "Scale the consumer to six replicas."


def a_page(*steps: str, heading: str = "Steps") -> str:
    numbered = "\n".join(f"{at}. {step}" for at, step in enumerate(steps, start=1))
    return f"# Kafka lag\n\n## {heading}\n\n{numbered}\n"


def changes(before: str, after: str) -> list[StepChange]:
    outlines = (outline_of(at, "Kafka lag", text) for at, text in (("1", before), ("2", after)))
    return list(outline_changes(*outlines).steps)


def brief(before: str, after: str) -> list[tuple[StepChangeKind, str, str]]:
    return [(one.kind, one.name_before, one.name) for one in changes(before, after)]


def test_equal_texts_have_no_steps_that_differ() -> None:
    assert changes(a_page(LAG, RESTART), a_page(LAG, RESTART)) == []


def test_added_step_renumbers_those_behind_it_and_changes_none() -> None:
    assert brief(a_page(LAG, PAGE), a_page(LAG, SCALE, PAGE)) == [(ADDED, "", "2")]


def test_removed_step_stands_where_it_was() -> None:
    assert brief(a_page(LAG, SCALE, PAGE), a_page(LAG, PAGE + " Call them.")) == [
        (REMOVED, "2", ""),
        (CHANGED, "3", "2"),
    ]


def test_changed_command_is_there_before_and_after() -> None:
    (found,) = changes(a_page(LAG, RESTART), a_page(LAG, RESTART.replace("orders", "payments")))
    assert (found.kind, found.title, found.section, found.moved) == (CHANGED, "Restart the consumer", "Steps", False)
    assert found.commands == (
        CommandChange("kubectl rollout restart deploy/orders", "kubectl rollout restart deploy/payments"),
    )


def test_command_that_is_new_in_a_step_has_none_before() -> None:
    (found,) = changes(a_page(LAG, RESTART), a_page(LAG, RESTART.replace("orders\n", "orders\n   kubectl get pods\n")))
    assert found.commands == (CommandChange("", "kubectl get pods"),)


def test_step_with_another_title_is_matched_by_likeness() -> None:
    (found,) = changes(a_page(LAG, SCALE), a_page(LAG, SCALE.replace("six", "nine")))
    assert (found.kind, found.title, found.title_before) == (
        CHANGED,
        "Scale the consumer to nine replicas.",
        "Scale the consumer to six replicas.",
    )


def test_step_with_another_title_and_the_same_command_is_the_same() -> None:
    after = RESTART.replace("Restart the consumer", "Have all pods of it start anew, one by one")
    assert brief(a_page(LAG, RESTART), a_page(LAG, after)) == [(CHANGED, "2", "2")]


def test_step_that_stands_elsewhere_is_moved() -> None:
    assert brief(a_page(LAG, SCALE, PAGE), a_page(PAGE, LAG, SCALE)) == [(MOVED, "3", "1")]


def test_step_in_another_section_that_both_versions_have_is_moved() -> None:
    other = "\n## Rollback\n\n1. {}\n2. Restart the broker.\n"
    before = a_page(LAG, SCALE) + other.format("Delete the topic.")
    after = a_page(LAG) + other.format(SCALE)
    assert brief(before, after) == [(MOVED, "#2", "#2"), (REMOVED, "#3", "")]


def test_new_heading_of_a_section_moves_no_step() -> None:
    assert changes(a_page(LAG, SCALE), a_page(LAG, SCALE, heading="Remediation")) == []


def test_all_steps_of_a_text_that_had_none_are_added() -> None:
    assert brief("# Kafka lag\n\nIt lags.\n", a_page(LAG, SCALE)) == [(ADDED, "", "1"), (ADDED, "", "2")]


def test_steps_too_many_to_compare_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_differences, "MAX_LIKENED", 0)
    assert brief(a_page(LAG, SCALE), a_page(LAG, SCALE.replace("six", "nine"))) == [
        (REMOVED, "2", ""),
        (ADDED, "", "2"),
    ]


@given(*2 * [st.lists(st.sampled_from([LAG, PAGE, SCALE, RESTART, "Wait.", "Restart the broker."]), max_size=6)])
def test_each_step_of_both_versions_is_matched_or_named_once(old: list[str], new: list[str]) -> None:
    before, after = (outline_of("1", "Kafka lag", a_page(*steps)) for steps in (old, new))
    kinds = [one.kind for one in outline_changes(before, after).steps]
    matched = len(before.steps) - kinds.count(REMOVED)
    assert matched == len(after.steps) - kinds.count(ADDED)
    assert kinds.count(CHANGED) + kinds.count(MOVED) <= matched


# -- numbers


def renumbered(before: str, after: str) -> list[tuple[str, ...]]:
    outlines = (outline_of(at, "Kafka lag", text) for at, text in (("1", before), ("2", after)))
    found = outline_changes(*outlines).renumbered
    return [(one.first_before, one.last_before, one.first, one.last) for one in found]


def test_steps_behind_an_added_one_are_renumbered_together() -> None:
    assert renumbered(a_page(LAG, PAGE, RESTART), a_page(LAG, SCALE, PAGE, RESTART)) == [("2", "3", "3", "4")]


def test_moved_step_is_not_renumbered_and_those_that_it_passed_are() -> None:
    assert renumbered(a_page(LAG, PAGE, SCALE, RESTART), a_page(SCALE, LAG, PAGE, RESTART)) == [("1", "2", "2", "3")]


def test_steps_that_follow_on_each_other_no_more_are_renumbered_apart() -> None:
    after = a_page("Wait.", LAG, "Restart the broker.", PAGE)
    assert renumbered(a_page(LAG, PAGE), after) == [("1", "1", "2", "2"), ("2", "2", "4", "4")]


def test_steps_of_two_sections_are_renumbered_apart() -> None:
    other = "\n## Rollback\n\n{}1. Delete the topic.\n1. Restart the broker.\n"
    before = a_page(LAG, PAGE) + other.format("")
    after = a_page(SCALE, LAG, PAGE) + other.format("1. Wait.\n")
    assert renumbered(before, after) == [("1", "2", "2", "3"), ("1", "2", "2", "3")]


def test_steps_without_numbers_are_not_renumbered() -> None:
    before, after = (page.replace("1. ", "- ").replace("2. ", "- ") for page in (a_page(LAG), a_page(SCALE, LAG)))
    assert renumbered(before, after) == []


def test_text_ahead_of_the_steps_changes_none_of_them() -> None:
    ahead = "## Steps\n\n> Never do this on Fridays.\n"
    before = a_page(LAG, PAGE).replace("## Steps\n", ahead)
    assert brief(before, before.replace("1. Check", "1. Wait.\n1. Check")) == [(ADDED, "", "1")]
    assert brief(before, a_page(LAG, PAGE)) == []


def test_no_step_is_renumbered_where_the_last_one_goes() -> None:
    assert renumbered(a_page(LAG, PAGE), a_page(LAG)) == []

"""Warnings, approvals, preconditions, and sections of verification and rollback that differ between two versions."""

from __future__ import annotations

import pytest

from opx.domain.versions import Safeguard, SafeguardChange, StepChangeKind
from opx.lifecycle.versions.safeguards import TOO_LONG
from opx.lifecycle.versions.step_differences import outline_changes
from opx.text.procedures import outline
from opx.text.procedures.outline import outline_of

ADDED, REMOVED, CHANGED, MOVED = StepChangeKind
WARNING, APPROVAL, PRECONDITION, ROLLBACK, VERIFICATION = Safeguard

NEVER = "Do not do this on the primary."
PAGE = f"""# Postgres failover

## Before you start

- You have a backup of today.
- You can reach the bastion host.

## Steps

1. Find the replica with the least lag.
2. Stop writes with `patronictl pause`. {NEVER}
3. Ask the database owner for approval.
4. Promote the replica with `patronictl failover`.

## Verification

The replica takes writes.

## Rollback

1. Resume with `patronictl resume`.
2. Switch over again.
"""


def changes(before: str, after: str) -> list[SafeguardChange]:
    outlines = (outline_of(at, "Postgres failover", text) for at, text in (("1", before), ("2", after)))
    return list(outline_changes(*outlines).safeguards)


def brief(before: str, after: str) -> list[tuple[StepChangeKind, Safeguard, str, str]]:
    return [(one.kind, one.safeguard, one.before, one.after) for one in changes(before, after)]


def without(heading: str) -> str:
    """The page without a section."""
    head, _, rest = PAGE.partition(f"## {heading}\n")
    return head + "".join(rest.partition("\n## ")[1:]).lstrip("\n")


def test_equal_texts_have_none() -> None:
    assert changes(PAGE, PAGE) == []


def test_removed_warning_is_named_with_its_step() -> None:
    (found,) = changes(PAGE, PAGE.replace(f" {NEVER}", ""))
    assert (found.kind, found.safeguard, found.before, found.after) == (REMOVED, WARNING, NEVER, "")
    assert (found.section_before, found.step_before, found.section, found.step) == ("Steps", "#2", "", "")


def test_added_warning_is_named_with_its_step() -> None:
    (found,) = changes(PAGE.replace(f" {NEVER}", ""), PAGE)
    assert (found.kind, found.after, found.section, found.step, found.section_before) == (
        ADDED,
        NEVER,
        "Steps",
        "#2",
        "",
    )


def test_warning_that_no_longer_forbids_is_removed() -> None:
    assert brief(PAGE, PAGE.replace(NEVER, "Do this on the primary.")) == [(REMOVED, WARNING, NEVER, "")]


def test_warning_in_other_words_is_changed() -> None:
    other = "Do not do this on the replica."
    assert brief(PAGE, PAGE.replace(NEVER, other)) == [(CHANGED, WARNING, NEVER, other)]


def test_many_warnings_in_other_words_are_changed_step_by_step() -> None:
    def page(warning: str) -> str:
        steps = (f"1. Stop writer {at} of the cluster. {warning} {at}.\n" for at in range(200))
        return "# Postgres failover\n\n## Steps\n\n" + "".join(steps)

    found = changes(page("Do not do this on node"), page("Do not do that at node"))
    assert [(one.kind, one.before[-4:], one.after[-4:]) for one in found[-2:]] == [
        (CHANGED, "198.", "198."),
        (CHANGED, "199.", "199."),
    ]
    assert len(found) == 200


def test_warning_of_another_step_is_moved() -> None:
    after = PAGE.replace(f" {NEVER}", "").replace("failover`.", f"failover`. {NEVER}")
    (found,) = changes(PAGE, after)
    assert (found.kind, found.step_before, found.step) == (MOVED, "#2", "4")


def test_one_of_two_equal_warnings_is_removed_from_its_step() -> None:
    twice = PAGE.replace("failover`.", f"failover`. {NEVER}")
    (found,) = changes(twice, twice.replace(f" {NEVER}", "", 1))
    assert (found.kind, found.before, found.step_before) == (REMOVED, NEVER, "#2")


def test_warning_of_a_renumbered_step_stays() -> None:
    assert changes(PAGE, PAGE.replace("1. Find", "1. Open a ticket.\n1. Find")) == []


def test_warning_ahead_of_the_steps_stays_if_another_step_comes_first() -> None:
    before = PAGE.replace("## Steps\n", f"## Steps\n\n**Warning:** {NEVER}\n")
    assert changes(before, before.replace("1. Find", "1. Open a ticket.\n1. Find")) == []
    assert (REMOVED, WARNING, f"Warning: {NEVER}", "") in brief(before, PAGE)


def test_warning_below_a_renamed_heading_stays() -> None:
    before = PAGE.replace("## Steps\n", "## Steps\n\nThis is dangerous.\n")
    assert changes(before, before.replace("## Steps", "## Remediation")) == []


@pytest.mark.parametrize(
    "written",
    [
        f"> {NEVER}",
        f"| Node | Note |\n|---|---|\n| db-1 | {NEVER} |",
        f"### {NEVER}",
        f"```sh\n# {NEVER}\npatronictl pause\n```",
        f"```sh\npatronictl pause  # {NEVER}\n```",
        NEVER.replace("not", "**not**"),
        f"```sql\n-- {NEVER}\nSELECT 1;\n```",
        f"- Nodes\n  - {NEVER}",
        f"<!-- {NEVER} -->",
    ],
    ids=["quote", "table", "heading", "comment", "behind a command", "bold", "sql", "nested item", "html comment"],
)
def test_warnings_outside_of_steps_are_found_wherever_they_stand(written: str) -> None:
    before = f"# Failover\n\n## Background\n\nTwo nodes.\n\n{written}\n\nMore.\n"
    found = changes(before, "# Failover\n\n## Background\n\nTwo nodes.\n\nMore.\n")
    assert [(one.kind, one.safeguard) for one in found] == [(REMOVED, WARNING)]
    assert NEVER in found[0].before


def test_removed_approval_is_no_removed_warning() -> None:
    after = PAGE.replace("3. Ask the database owner for approval.\n", "")
    assert brief(PAGE, after) == [(REMOVED, APPROVAL, "Ask the database owner for approval.", "")]


def test_removed_precondition_is_named() -> None:
    after = PAGE.replace("- You have a backup of today.\n", "")
    assert brief(PAGE, after) == [(REMOVED, PRECONDITION, "You have a backup of today.", "")]


def test_command_among_preconditions_counts() -> None:
    before = PAGE.replace("host.\n", "host.\n\n```sh\nkubectl auth can-i delete pods\n```\n")
    assert brief(before, PAGE) == [(REMOVED, PRECONDITION, "kubectl auth can-i delete pods", "")]


def test_section_of_preconditions_that_is_gone_is_named_once() -> None:
    (found,) = changes(PAGE, without("Before you start"))
    assert (found.kind, found.safeguard, found.section_before, found.whole_section) == (
        REMOVED,
        PRECONDITION,
        "Before you start",
        True,
    )
    assert found.before == "You have a backup of today. You can reach the bastion host."


@pytest.mark.parametrize(("heading", "safeguard"), [("Rollback", ROLLBACK), ("Verification", VERIFICATION)])
def test_section_that_is_gone_or_new_is_named(heading: str, safeguard: Safeguard) -> None:
    for before, after, kind in ((PAGE, without(heading), REMOVED), (without(heading), PAGE, ADDED)):
        (found,) = changes(before, after)
        assert (found.kind, found.safeguard, found.whole_section) == (kind, safeguard, True)


def test_section_with_another_text_is_changed() -> None:
    (found,) = changes(PAGE, PAGE.replace("patronictl resume", "patronictl restart"))
    assert (found.kind, found.safeguard, found.section) == (CHANGED, ROLLBACK, "Rollback")
    assert (found.before, found.after) == (
        "Resume with `patronictl resume`. Switch over again.",
        "Resume with `patronictl restart`. Switch over again.",
    )


def test_section_without_its_text_is_gone() -> None:
    (found,) = changes(PAGE, PAGE.replace("The replica takes writes.\n", ""))
    assert (found.kind, found.safeguard) == (REMOVED, VERIFICATION)


def test_section_under_another_heading_of_its_role_is_the_same() -> None:
    assert changes(PAGE, PAGE.replace("## Rollback", "## Undo")) == []


def test_one_of_two_rollback_sections_that_is_gone_is_named() -> None:
    two = PAGE.replace(
        "## Rollback", "## Plan B\n\nCall the vendor.\n\n### Rollback\n\nTell the vendor.\n\n## Rollback"
    )
    (found,) = changes(two, two.replace("### Rollback\n\nTell the vendor.\n\n", ""))
    assert (found.kind, found.safeguard, found.before) == (REMOVED, ROLLBACK, "Tell the vendor.")


def test_paragraph_that_stands_for_a_heading_counts() -> None:
    before = "# Failover\n\n1. Promote the replica.\n\n**Rollback:** switch over again.\n"
    (found,) = changes(before, "# Failover\n\n1. Promote the replica.\n")
    assert (found.kind, found.safeguard, found.section_before) == (REMOVED, ROLLBACK, "Rollback")


def test_removed_ones_come_first_and_of_these_the_warnings() -> None:
    before = PAGE.replace("today.", "today, which you must not delete.")
    after = without("Rollback").replace(f" {NEVER}", "").replace("owner for approval", "team for approval")
    after = after.replace("least lag.", "least lag. Never take one of another region.")
    assert [(one.kind, one.safeguard) for one in changes(before, after)] == [
        (REMOVED, WARNING),
        (REMOVED, WARNING),
        (REMOVED, ROLLBACK),
        (CHANGED, APPROVAL),
        (ADDED, WARNING),
        (ADDED, PRECONDITION),
    ]


def test_empty_text_has_lost_all() -> None:
    kinds = {one.kind for one in changes(PAGE, "")}
    assert kinds == {REMOVED}
    assert {one.safeguard for one in changes(PAGE, "")} == set(Safeguard)
    assert {one.kind for one in changes("", PAGE)} == {ADDED}


def test_a_text_that_is_too_long_is_noted_and_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "MAX_CHARACTERS", len(PAGE))
    outlines = (outline_of("1", "Failover", PAGE), outline_of("2", "Failover", PAGE + "More.\n"))
    found = outline_changes(*outlines)
    assert (found.safeguards, found.notes) == ((), (TOO_LONG,))

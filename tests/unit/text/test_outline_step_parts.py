"""Parts of a step: expectation, check, failure, approval, warnings, stated loss, and its title."""

from __future__ import annotations

import pytest

from opx.text.procedures.outline import MAX_TITLE, outline_of
from tests.support.outline_support import only_step, outlined, titles


class TestParts:
    def test_expectation_and_check_are_sentences_below_the_first(self) -> None:
        step = only_step("1. Check that the disk is full. Verify that no job runs. You should see 0 jobs.\n")
        assert step.check == "Verify that no job runs."
        assert step.expect == "You should see 0 jobs."

    def test_a_failure_leads_to_the_step_with_the_authors_number(self) -> None:
        text = "## A\n\n1. Check a.\n2. Stop a.\n\n## B\n\n1. Stop b. If it does not stop, go to step 2.\n2. Kill b.\n"
        step = outlined(text).steps[2]
        assert step.if_fails == "If it does not stop, go to step 2."
        assert (step.goes_to, outlined(text).steps[3].title) == ("4", "Kill b.")

    def test_a_failure_leads_to_a_page(self) -> None:
        step = only_step("1. Stop it. If this fails, see [failover](failover.md).\n")
        assert step.goes_to == "failover.md"

    def test_a_number_that_no_step_has_leads_nowhere(self) -> None:
        step = only_step("1. Stop it. If this fails, go to step 9.\n")
        assert (step.if_fails, step.goes_to) == ("If this fails, go to step 9.", "")

    def test_consequence_after_otherwise_is_no_instruction_for_failures(self) -> None:
        assert only_step("1. Stop it. Disable it first, otherwise it restarts.\n").if_fails == ""

    def test_approval_is_found(self) -> None:
        step = only_step("1. Drop the table. Needs approval of the data owner.\n")
        assert step.approval == "Needs approval of the data owner."

    @pytest.mark.parametrize(
        "sentence",
        ["Get the IC's OK first.", "Not without the DBA's go-ahead.", "You need the owner’s permission."],
    )
    def test_approval_in_everyday_words_is_found(self, sentence: str) -> None:
        assert only_step(f"1. Drop the table. {sentence}\n").approval == sentence

    @pytest.mark.parametrize("sentence", ["Check that it's ok.", "The service's OK responses count."])
    def test_sentence_with_ok_requires_no_approval(self, sentence: str) -> None:
        assert only_step(f"1. Drop the table. {sentence}\n").approval == ""

    @pytest.mark.parametrize(
        "warning",
        [
            "The old primary must be fenced first.",
            "This wipes the volume.",
            "From here on there is no way back.",
            "Never delete the journal.",
            "If you do, do not restart it.",
            "This is irreversible.",
            "Warning: all data is lost.",
            "This may cause a short downtime.",
            "**Disruptive:** clients have to connect again.",
        ],
    )
    def test_warnings_are_kept_as_written(self, warning: str) -> None:
        assert only_step(f"1. Stop the writer. {warning}\n").warnings == (warning,)

    @pytest.mark.parametrize(
        "warning",
        [
            "**Do not run this on the primary.**",
            "**Never on both at once.**",
            "**Warning:** it takes long.",
            "**Careful: this blocks writes.**",
            "**CAREFUL!** This blocks.",
            "**Important: one at a time.**",
            "**Only on the standby.**",
            "**Not during business hours!**",
            "__Don't do this twice.__",
            "**Watch out: clients notice.**",
            "⚠️ Takes the site down.",
        ],
    )
    def test_a_paragraph_in_bold_that_warns_is_a_warning(self, warning: str) -> None:
        within, ahead = f"1. Stop the writer.\n\n   {warning}\n", f"## Mitigation\n\n{warning}\n\n1. Stop the writer.\n"
        assert (only_step(within).warnings, only_step(ahead).warnings) == ((warning,), (warning,))

    @pytest.mark.parametrize("bold", ["**This is the primary.**", "**Note: five minutes.**", "**Important metrics**"])
    def test_other_paragraphs_in_bold_are_none(self, bold: str) -> None:
        assert only_step(f"1. Stop the writer.\n\n   {bold}\n").warnings == ()

    @pytest.mark.parametrize("sentence", ["Pods that do not start are listed.", "Look at info and warning alerts."])
    def test_statements_are_no_warnings(self, sentence: str) -> None:
        assert only_step(f"1. Stop the writer. {sentence}\n").warnings == ()

    def test_a_warning_ahead_of_the_first_step_is_of_all_and_begins_the_first(self) -> None:
        found = outlined("## Mitigation\n\n> **Warning:** data loss.\n\n1. Stop it.\n2. Start it.\n")
        assert [step.warnings for step in found.steps] == [("**Warning:** data loss.",)] * 2
        assert [found.slice(step).startswith(">") for step in found.steps] == [True, False]

    @pytest.mark.parametrize(
        "sentence",
        [
            "**DESTRUCTIVE**",
            "This deletes all data.",
            "This cannot be undone.",
            "It is irreversible, so ask first.",
            "There is a risk of data loss.",
            "All data on the disk will be lost.",
            "You will lose the last messages.",
            "It will permanently remove the tenant.",
            "Do not run this on the primary: it erases the disk.",
            "Never run this destructive command alone.",
            "After this there is no way back.",
            "Only if data loss is acceptable.",
            "There is no question and it deletes all data.",
        ],
    )
    def test_a_step_with_a_statement_of_loss_is_destructive(self, sentence: str) -> None:
        assert only_step(f"1. Restart it. {sentence}\n").destructive
        assert only_step(f"## Mitigation\n\n> {sentence}\n\n1. Restart it.\n").destructive

    @pytest.mark.parametrize("sentence", ["**Careful: clients notice.**", "This deletes all data."])
    def test_such_a_block_goes_with_its_step(self, sentence: str) -> None:
        units = outlined(f"## Step 1: Reset it\n\nUse this:\n\n```sh\nls -l\n```\n\n{sentence}\n").units
        assert [unit.cautions for unit in units] == [False, True]

    def test_so_it_is_by_its_heading_or_a_comment_in_its_code(self) -> None:
        assert only_step("## Step 1: Reset the standby (DESTRUCTIVE)\n\nUse the console.\n").destructive
        assert only_step("1. Reset it:\n\n   ```sh\n   # this wipes the disk\n   ./reset.sh\n   ```\n").destructive

    @pytest.mark.parametrize(
        "sentence",
        [
            "This is not destructive.",
            "It isn't a destructive command.",
            "It is read-only and non-destructive.",
            "To avoid data loss, take a backup first.",
            "It does not cause any data loss.",
            "Nothing in this step is irreversible.",
            "If there is data loss, page the owner.",
            "Check the dashboard for data loss.",
            "See whether any data is lost.",
            "Make sure that no messages are lost.",
            "Take a snapshot before any destructive action.",
            "Try the less destructive way first.",
            "Wait until the pods are deleted.",
        ],
    )
    def test_a_step_of_which_that_is_denied_is_not(self, sentence: str) -> None:
        assert not only_step(f"1. Restart it. {sentence}\n").destructive

    def test_marks_within_code_of_a_title_are_kept(self) -> None:
        assert titles("1. Find why `SELECT *` of **all** `a_b_c` is [slow](x.md).\n") == [
            "Find why SELECT * of all a_b_c is slow."
        ]

    @pytest.mark.parametrize(
        ("line", "title"),
        [
            ("Run rm -rf /var/lib/ldap/*", "Run rm -rf /var/lib/ldap/*"),
            ("Remove *.log *.gz and /srv/_tmp", "Remove *.log *.gz and /srv/_tmp"),
            ("Run select count(*), max(*) from a", "Run select count(*), max(*) from a"),
            ("*Drain* the **node *at once* now** and __wait__ _a bit_.", "Drain the node at once now and wait a bit."),
            ("Run **`rm a*`** *now*.", "Run rm a* now."),
        ],
    )
    def test_a_title_loses_stars_and_underscores_in_pairs_around_words_only(self, line: str, title: str) -> None:
        (step,) = outline_of("d1", "t", f"## Steps\n\n1. {line}\n").steps
        assert step.title == title

    def test_a_title_is_not_cut_at_an_abbreviation(self) -> None:
        assert titles("1. Check a node (e.g. Node7) first. Then wait.\n") == ["Check a node (e.g. Node7) first."]

    def test_a_long_title_ends_at_a_word(self) -> None:
        (title,) = titles(f"1. Check {'many things ' * 40}\n")
        assert len(title) <= MAX_TITLE
        assert title.endswith(("many…", "things…"))

    def test_alerts_are_named_by_the_title(self) -> None:
        assert outlined("Text.", "etcdNoLeader and KubePodCrashLooping").alerts == (
            "etcdNoLeader",
            "KubePodCrashLooping",
        )

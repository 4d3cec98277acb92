"""Outlines find sections and steps in every form that authors write them in, and survive any text."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opx.domain.procedures import Outline, SectionKind
from opx.text.procedures.blocks import BlockKind, parse_blocks
from opx.text.procedures.outline import MAX_CHARACTERS, MAX_LINES, MAX_STEPS
from tests.support.outline_support import only_step, outlined, titles

MARKDOWN = st.text(st.sampled_from("#>-*+`~|[]()<>!:. \t\n1aR\\_=\"'$"), max_size=300)
ANY_TEXT = st.text(st.characters(blacklist_characters="\r"), max_size=300)


def kinds(text: str) -> dict[str, SectionKind]:
    return {section.heading: section.kind for section in outlined(text).sections}


class TestForms:
    def test_items_of_a_numbered_list_are_steps_with_the_authors_numbers(self) -> None:
        steps = outlined("## Mitigation\n\n3. Stop the writer.\n4. Remove old logs.\n").steps
        assert [(step.number, step.label, step.title) for step in steps] == [
            (1, "3", "Stop the writer."),
            (2, "4", "Remove old logs."),
        ]

    def test_items_of_a_bulleted_list_with_instructions_are_steps(self) -> None:
        assert titles("## Mitigation\n\n- Stop the writer\n- Remove old logs\n") == [
            "Stop the writer",
            "Remove old logs",
        ]

    def test_a_list_of_causes_is_no_list_of_steps(self) -> None:
        assert titles("## Diagnosis\n\n- a slow disk\n- many clients\n- a network partition\n") == []

    def test_nested_items_belong_to_the_outer_step(self) -> None:
        step = only_step("1. Check the disk:\n   - Run `df -h /var`\n   - Run `du -sh /var/log`\n")
        assert [command.text for command in step.commands] == ["df -h /var", "du -sh /var/log"]

    def test_a_list_that_goes_on_behind_a_paragraph_is_one_list(self) -> None:
        text = "1. Stop the writer.\n\nYou can watch it stop.\n\n2. Remove old logs.\n"
        assert titles(text) == ["Stop the writer.", "Remove old logs."]

    def test_headings_with_instructions_are_steps(self) -> None:
        text = "## Mitigation\n\n### Stop the writer\n\nUse the console.\n\n### Remove old logs\n\n```sh\nrm -r /tmp/a\n```\n"
        assert titles(text) == ["Stop the writer", "Remove old logs"]

    def test_a_noun_beside_imperative_headings_is_a_step(self) -> None:
        text = (
            "## Mitigation\n\n### Stop the writer\n\nUse the console.\n\n### Credential update\n\nReplace the secret.\n"
        )
        assert titles(text) == ["Stop the writer", "Credential update"]

    @pytest.mark.parametrize(
        "heading", ["Step 2: Disk cleanup", "2. Disk cleanup", "2) Disk cleanup", "2.1 Disk cleanup"]
    )
    def test_a_numbered_heading_is_a_step(self, heading: str) -> None:
        step = only_step(f"## {heading}\n\nRemove old logs.\n")
        assert (step.title, step.label) == ("Disk cleanup", heading.split(" D")[0].strip("Step :.)"))

    @pytest.mark.parametrize("heading", ["503: Service unavailable", "2-node clusters", "E-mail"])
    def test_a_number_within_a_name_does_not_make_a_step(self, heading: str) -> None:
        assert titles(f"## {heading}\n\nThe disk holds logs.\n") == []

    def test_a_verb_above_a_list_of_steps_is_a_section(self) -> None:
        assert titles("## Clean up the disk\n\n1. Stop the writer.\n2. Remove old logs.\n") == [
            "Stop the writer.",
            "Remove old logs.",
        ]

    def test_a_paragraph_with_an_instruction_is_a_step_with_the_code_below(self) -> None:
        text = "## Diagnosis\n\nCheck the disk:\n\n```\ndf -h\n```\n\nIf it is full, remove old logs.\n"
        assert titles(text) == ["Check the disk", "If it is full, remove old logs."]
        assert [command.text for command in outlined(text).steps[0].commands] == ["df -h"]

    @pytest.mark.parametrize(
        "sentence",
        [
            "In rare cases roll back the release.",
            "If the log is long, then truncate it.",
            "You can restart the writer.",
            "The writer must be restarted.",
            "Then directly edit the secret.",
        ],
    )
    def test_instructions_are_steps(self, sentence: str) -> None:
        assert titles(f"## Mitigation\n\n{sentence}\n") == [sentence]

    @pytest.mark.parametrize(
        "sentence",
        [
            "Load is high on this host.",
            "See [the guide](guide.md) for more information.",
            "Do not restart the writer.",
            "You should now see an empty disk.",
            "The following steps can help to find the cause.",
            "This can be caused by slow disks.",
        ],
    )
    def test_statements_pointers_and_announcements_are_no_steps(self, sentence: str) -> None:
        assert titles(f"## Mitigation\n\n{sentence}\n") == []

    def test_an_announcement_belongs_to_the_first_item(self) -> None:
        outline = outlined("## Mitigation\n\nTo free space, do this:\n\n1. Stop the writer.\n2. Remove old logs.\n")
        assert [step.title for step in outline.steps] == ["Stop the writer.", "Remove old logs."]
        assert outline.slice(outline.steps[0]) == "To free space, do this:\n\n1. Stop the writer."

    def test_text_on_background_has_no_steps_unless_it_has_commands(self) -> None:
        assert titles("## Background\n\nYou can list the logs.\n") == []
        assert titles("## Background\n\nList the logs:\n\n```sh\nls /var/log\n```\n") == ["List the logs"]

    def test_a_line_in_place_of_a_heading_gives_the_role_of_its_section(self) -> None:
        text = "How it **works**:\n- Check runs hourly\n- Send an alert\n\nHow to **investigate**:\n- Check the disk\n"
        assert titles(text) == ["Check the disk"]

    @pytest.mark.parametrize(
        "heading",
        [
            "## Symptoms",
            "## :fire: Symptoms",
            "## 🔥 Typical symptoms",
            "## What users will see",
            "## Who is affected",
            "## Background",
            "## Useful links",
            "**Symptoms**",
            "*Symptoms*",
            "Symptoms",
            "References:",
        ],
    )
    def test_bullets_below_a_role_that_has_no_steps_are_none(self, heading: str) -> None:
        assert titles(f"{heading}\n\n- Restart loops appear\n- Check fails with 503\n") == []

    def test_a_heading_with_nothing_below_it_is_a_step(self) -> None:
        text = "## Mitigation\n\n### Step 3: Broker restart\n\n### Step 4: Check it\n\nRun `df -h`.\n"
        outline = outlined(text)
        assert [(step.title, step.label) for step in outline.steps] == [("Broker restart", "3"), ("Check it", "4")]
        assert outline.slice(outline.steps[0]) == "### Step 3: Broker restart"

    @pytest.mark.parametrize("heading", ["3. Restart the broker", "2.1 Restart the broker"])
    def test_a_number_and_a_verb_with_nothing_below_are_a_step(self, heading: str) -> None:
        assert titles(f"## {heading}\n") == ["Restart the broker"]

    @pytest.mark.parametrize("heading", ["Step 3", "3. Architecture", "Restart the broker", "Steps"])
    def test_other_headings_with_nothing_below_are_none(self, heading: str) -> None:
        assert titles(f"## {heading}\n\n## Brokers\n\nThere are three.\n") == []

    @pytest.mark.parametrize("mark", [":", "."])
    def test_symptoms_and_impact_named_in_bold_are_no_steps(self, mark: str) -> None:
        text = f"**Symptoms{mark}** Raise the alarm.\n\n**Impact{mark}** Look at it as sev1.\n\n1. Restart it.\n"
        assert titles(text) == ["Restart it."]

    def test_a_rollback_in_bold_is_a_step_and_related_pages_are_none(self) -> None:
        text = "1. Stop the writer.\n\n**Rollback:** start the writer again.\n\n**Related:** [guide](guide.md)\n"
        assert titles(text) == ["Stop the writer.", "Rollback: start the writer again."]


class TestPastedLists:
    @pytest.mark.parametrize("bullet", ["•", "◦", "▪", "–"])
    @pytest.mark.parametrize("between", ["\n", "\n\n"])
    def test_two_lines_with_bullets_of_another_program_are_a_list(self, bullet: str, between: str) -> None:
        outline = outlined(f"## Mitigation\n\n{bullet} Stop the writer{between}{bullet}\tRemove `/var/a`\n")
        assert [step.title for step in outline.steps] == ["Stop the writer", "Remove /var/a"]
        assert [outline.slice(step)[0] for step in outline.steps] == [bullet, bullet]

    def test_lines_before_them_lead_to_the_list(self) -> None:
        outline = outlined("## Mitigation\n\nDo this:\n• Stop the writer\n  and wait.\n• Remove old logs\n")
        assert [outline.slice(step) for step in outline.steps] == [
            "Do this:\n• Stop the writer\n  and wait.",
            "• Remove old logs",
        ]

    def test_lines_further_in_or_with_other_bullets_are_nested(self) -> None:
        text = "1. Look at it.\n\n• Stop the writer\n  ◦ Run `ls -l`\n  ◦ Run `df -h`\n• Remove old logs\n"
        step = outlined(text).steps[1]
        assert (step.title, [one.text for one in step.commands]) == ("Stop the writer", ["ls -l", "df -h"])

    @pytest.mark.parametrize(
        "text", ["• Stop the writer", "Stop the writer – now.\nRemove logs – all.", "• Stop it\n\nText.\n\n• Start it"]
    )
    def test_a_single_line_and_dashes_within_lines_are_no_list(self, text: str) -> None:
        assert not any(block.kind is BlockKind.BULLETS for block in parse_blocks(text))

    @given(st.text(st.sampled_from("•◦– \t\n>a-`1."), max_size=120))
    def test_offsets_are_right(self, text: str) -> None:
        assert_sound(outlined(f"## Mitigation\n\n{text}"))

    def test_ever_deeper_lines_are_parsed(self) -> None:
        assert_sound(outlined("".join(f"{' ' * at}• Stop it\n" for at in range(1200))))


class TestCodeThatIsNeverClosed:
    TEXT = "## Mitigation\n\nStop it:\n\n```sh\nsystemctl stop x\n\nsystemctl status x\n\n"

    @pytest.mark.parametrize(
        "after",
        [
            "Then wait for it. Check the log.",
            "## Rollback\n\n1. Start it.",
            "1. Start it.",
            "# Rollback\n\n- Start it.",
        ],
    )
    def test_prose_behind_it_is_read_as_text(self, after: str) -> None:
        first, second = outlined(self.TEXT + after + "\n").steps
        assert [one.text for one in first.commands] == ["systemctl stop x", "systemctl status x"]
        assert second.title in ("Then wait for it.", "Start it.")

    def test_code_that_begins_within_it_ends_it(self) -> None:
        first, second = outlined(f"{self.TEXT}Start it:\n\n```sh\nsystemctl start x\n```\n").steps
        assert [one.text for one in second.commands] == ["systemctl start x"]
        assert len(first.commands) == 2

    def test_the_outline_has_its_line(self) -> None:
        assert outlined(self.TEXT).unclosed == (5,)
        assert outlined("1. Stop it:\n\n   ```sh\n   ls -l\n\n2. Start it.\n").unclosed == (3,)

    @pytest.mark.parametrize(
        "code", ["```sh\nls\n```\n", "```sh\nls\n\n\n```", "~~~\n```\n~~~\n", "    ls\n", "```\n```\n"]
    )
    def test_code_that_is_closed_is_not_in_it(self, code: str) -> None:
        assert outlined(f"Text.\n\n{code}").unclosed == ()

    @given(st.text(st.sampled_from("```~~~sh# A.\n\n"), max_size=150))
    def test_offsets_are_right(self, text: str) -> None:
        assert_sound(outlined(text))


class TestSections:
    def test_headings_have_roles_and_subsections_inherit_them(self) -> None:
        text = "".join(
            f"{mark} {name}\n\nText.\n\n"
            for mark, name in [
                ("##", "Symptoms"),
                ("##", "Customer impact"),
                ("##", "Prerequisites"),
                ("##", "Diagnosis"),
                ("###", "Verify the role"),
                ("##", "Resolution steps"),
                ("##", "Verification"),
                ("##", "Roll back"),
                ("##", "Who to call"),
                ("##", "Root cause"),
                ("##", "See also"),
                ("##", "Zebra"),
            ]
        )
        assert kinds(text) == {
            "Symptoms": SectionKind.SYMPTOMS,
            "Customer impact": SectionKind.IMPACT,
            "Prerequisites": SectionKind.PRECONDITIONS,
            "Diagnosis": SectionKind.DIAGNOSIS,
            "Verify the role": SectionKind.DIAGNOSIS,
            "Resolution steps": SectionKind.STEPS,
            "Verification": SectionKind.VERIFICATION,
            "Roll back": SectionKind.ROLLBACK,
            "Who to call": SectionKind.ESCALATION,
            "Root cause": SectionKind.BACKGROUND,
            "See also": SectionKind.REFERENCES,
            "Zebra": SectionKind.OTHER,
        }

    def test_a_first_heading_that_repeats_the_title_is_in_no_path(self) -> None:
        sections = outlined("# Disk Full\n\nText.\n\n## Diagnosis\n").sections
        assert [(section.path, section.level) for section in sections] == [((), 1), (("Diagnosis",), 2)]

    def test_step_ids_stay_when_another_section_changes(self) -> None:
        steps = "## Mitigation\n\n1. Stop the writer.\n2. Remove old logs.\n"
        before, after = (
            outlined(f"## Meaning\n\nFull.\n\n{steps}").steps,
            outlined(f"## Meaning\n\nVery full, see.\n\n{steps}").steps,
        )
        assert [step.step_id for step in before] == [step.step_id for step in after]

    def test_equal_steps_of_a_section_have_different_ids(self) -> None:
        first, second = outlined("1. Stop it.\n2. Stop it.\n").steps
        assert first.step_id != second.step_id


def assert_sound(outline: Outline) -> None:
    """Sections cover the text, steps are in order within their sections or below them, and don't overlap."""
    sections, length = outline.sections, len(outline.text)
    assert (sections[0].start, sections[-1].end) == (0, length)
    assert all(before.end == after.start for before, after in pairwise(sections))
    assert all(0 <= step.start < step.end <= length for step in outline.steps)
    assert all(before.end <= after.start for before, after in pairwise(outline.steps))
    assert all(sections[step.section].start <= step.start < sections[step.section].end for step in outline.steps)
    assert [step.number for step in outline.steps] == list(range(1, len(outline.steps) + 1))
    assert len({step.step_id for step in outline.steps}) == len(outline.steps)


class TestAnyText:
    @given(text=MARKDOWN | ANY_TEXT)
    @example(text="")
    @example(text="# Disk full")
    @example(text="a\u2028b\x85c\x0cd\n\n1. Run\u2028it\n\x0c\n2. Stop\x85it")
    @example(text="1. Run \x00 it\n2. Stop \ud800 it")
    @example(text="\t1. Run it\n\n-\tStop it\n\n\tls -l")
    @example(text="```sh\nls\n````\n1. Run it")
    @example(text="1. Run <pod>\n\n<details>\n\n2. Stop it\n\n</details>")
    def test_offsets_are_right(self, text: str) -> None:
        assert_sound(outlined(text))

    def test_a_step_after_unusual_line_breaks_is_sliced_exactly(self) -> None:
        outline = outlined("One\u2028line\x85still\x0cone.\n\n1. Stop\u2028it.\n2. Start it.\n")
        assert [outline.slice(step) for step in outline.steps] == ["1. Stop\u2028it.", "2. Start it."]

    def test_a_zero_byte_is_kept_in_a_command(self) -> None:
        step = only_step("1. Run it:\n\n   ```sh\n   echo a\x00b\n   ```\n")
        assert [command.text for command in step.commands] == ["echo a\x00b"]

    def test_three_thousand_steps_are_found(self) -> None:
        outline = outlined("".join(f"{number}. Run `ls -l`\n" for number in range(1, 3001)))
        assert_sound(outline)
        assert len(outline.steps) == 3000

    def test_more_steps_than_allowed_are_left_out(self) -> None:
        outline = outlined("Run it.\n\n" * (MAX_STEPS + 1))
        assert (len(outline.steps), outline.whole) == (MAX_STEPS, False)

    @pytest.mark.parametrize("depth", [10, 30])
    def test_commands_of_deeply_nested_lists_are_found(self, depth: int) -> None:
        text = (
            "".join(f"{'  ' * level}- Check level {level}\n" for level in range(depth))
            + f"{'  ' * depth}Run `ls -l /deep`\n"
        )
        assert [command.text for command in only_step(text).commands] == ["ls -l /deep"]

    @pytest.mark.parametrize("text", ["x" * (MAX_CHARACTERS + 1), "x\n" * (MAX_LINES + 1)])
    def test_too_long_a_text_is_one_section_without_steps(self, text: str) -> None:
        outline = outlined(text)
        assert (len(outline.sections), outline.steps, outline.whole) == (1, (), False)
        assert_sound(outline)

    @pytest.mark.parametrize(
        "unit",
        [
            ">",
            "[",
            "*",
            "`",
            "|",
            "x",
            "run it. ",
            "- a\n",
            "`\n",
            "never ",
            "```sh\necho 'a\n",
            "• a\n",
            "•\t",
            "data ",
        ],
    )
    def test_time_is_near_linear(self, unit: str) -> None:
        lines = MAX_LINES if "\n" in unit else MAX_CHARACTERS
        text = unit * min(lines // (unit.count("\n") or 1), MAX_CHARACTERS // len(unit))
        begun = time.process_time()
        assert_sound(outlined(text))
        assert time.process_time() - begun < 10  # measured: 2.5 s at most


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("Run `wipefs -a /dev/sdb`, then `mkfs.ext4 /dev/sdb1`.", ["wipefs -a /dev/sdb", "mkfs.ext4 /dev/sdb1"]),
        ("Then `reboot` the host.", ["reboot"]),
        ("Issue `flushall` on the replica.", ["flushall"]),
        ("Check that the `reboot` command is allowed.", []),
    ],
)
def test_code_spans_that_do_harm_are_commands(text: str, commands: list[str]) -> None:
    assert [command.text for command in only_step(f"1. {text}\n").commands] == commands

"""Blocks of pages: how commands are read, and how their outcomes are judged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.docs.pages import Block, Command, blocks, blocks_of, pages
from tests.docs.running import Outcome, Shell, matches, problems

MOST_NOT_RUN = 34
"""Blocks that aren't run: the number may fall."""


def a_block(*commands: Command, shows: tuple[str, ...] = ()) -> Block:
    return Block("page.md", 1, commands, shows=shows)


def only(text: str) -> Block:
    (found,) = blocks("page.md", text)
    return found


def test_lines_of_a_script_are_commands_with_their_lines() -> None:
    found = only("# Page\n\n```sh\nopx list\n\n# a comment\nopx search \\\n  disk\n```\n")
    assert [(one.line, one.text) for one in found.commands] == [(4, "opx list"), (7, "opx search \\\n  disk")]


def test_a_document_within_a_script_belongs_to_its_command() -> None:
    found = only("```bash\ncat > x <<'END'\n$ text\nEND\nopx list\n```\n")
    assert [one.text for one in found.commands] == ["cat > x <<'END'\n$ text\nEND", "opx list"]


def test_a_transcript_has_the_output_of_each_command() -> None:
    found = only("```console\n$ opx list\na\nb\n$ opx status\n```\n")
    assert [(one.text, one.expected) for one in found.commands] == [("opx list", ("a", "b")), ("opx status", ())]


def test_comments_before_a_block_are_its_own() -> None:
    text = "<!-- first: touch a\ntouch b -->\n<!-- shows: x | y -->\n```sh\nls\n```\n\n```sh\nls\n```\n"
    first, second = blocks("page.md", text)
    assert (first.first, first.shows) == (("touch a", "touch b"), ("x", "y"))
    assert (second.first, second.shows, second.not_run) == ((), (), None)


def test_text_between_a_comment_and_a_block_parts_them() -> None:
    assert only("<!-- not run: a reason -->\n\nText.\n\n```sh\nls\n```\n").not_run is None


def test_blocks_of_other_languages_are_no_commands() -> None:
    assert list(blocks("page.md", "```python\nprint()\n```\n")) == []


def test_a_stated_exit_status_is_expected() -> None:
    command = Command(1, "opx search egg   # nothing is near: exit status 1")
    assert list(problems(a_block(command), [Outcome(command, 1, "No answer.")])) == []
    assert "exit status 0" in next(problems(a_block(command), [Outcome(command, 0, "An answer.")]))


@pytest.mark.parametrize(
    ("command", "outcome", "reason"),
    [
        ("opx list", (2, "Error: no such command"), "exit status 2"),
        ("opx list", (0, ""), "no output"),
        ("opx gaps", (0, "no gaps are open"), "an empty answer"),
    ],
)
def test_commands_that_fail_or_show_nothing_are_problems(command: str, outcome: tuple[int, str], reason: str) -> None:
    given = Command(3, command)
    assert f"page.md:3: {reason}" in next(problems(a_block(given), [Outcome(given, *outcome)]))


@pytest.mark.parametrize("command", ["mkdir runbooks", "opx list > list.txt", "opx serve &"])
def test_other_commands_may_print_nothing(command: str) -> None:
    given = Command(1, command)
    assert list(problems(a_block(given), [Outcome(given, 0, "")])) == []


def test_texts_that_a_block_has_to_show_are_looked_for() -> None:
    given = Command(1, "opx list")
    found = list(problems(a_block(given, shows=("disk", "mailer")), [Outcome(given, 0, "disk full")]))
    assert found == ["page.md:1: the block doesn't show 'mailer'"]


def test_output_is_compared_without_times_and_ids() -> None:
    expected = ["made 2026-11-26T18:44:51Z in 3.2 s", "...", "end [c2874fab99e4]"]
    assert matches(expected, "made 2027-01-01 in 14 ms\nanything\nat all\nend [0000aaaa1111]")
    assert not matches(expected, "made 2027-01-01 in 14 ms\nend [0000aaaa1111]\nmore")


def test_a_shell_returns_each_commands_status_and_output(tmp_path: Path) -> None:
    commands = (Command(1, "echo one; (exit 3)"), Command(2, "echo two >&2"))
    found = Shell(tmp_path, tmp_path).outcomes(Block("page.md", 1, commands, first=("touch made",)))
    assert [(one.status, one.output) for one in found] == [(3, "one"), (0, "two")]
    assert (tmp_path / "made").exists()


def test_a_shell_ends_what_was_left_in_the_background(tmp_path: Path) -> None:
    chatty = Command(1, "while sleep .1; do echo working; done &")
    found = Shell(tmp_path, tmp_path).outcomes(a_block(chatty, Command(2, "sleep .3; echo done")))
    assert found[1].output.splitlines()[-1] == "done"


def test_blocks_that_are_not_run_state_a_reason_and_are_few() -> None:
    reasons = Counter(block.not_run for page in pages() for block in blocks_of(page) if block.not_run is not None)
    print(*(f"{count:3} {reason}" for reason, count in reasons.most_common()), sep="\n")
    assert all(reason and len(reason.split()) >= 3 for reason in reasons)
    assert sum(reasons.values()) <= MOST_NOT_RUN

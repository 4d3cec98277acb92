"""Rendering of answers: the lines around the text of each document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click import unstyle

from opx.domain.handover import DocumentAnswer, ShownCommand, StepView
from opx.domain.procedures import Effect
from opx.domain.record import replace
from opx.domain.results import Absent, Answer
from opx.edges.cli.hits import HitPage, absent_lines, no_answer_lines
from opx.edges.cli.output import Screen
from opx.retrieval.judging import STALE
from tests.unit.retrieval.test_citations import a_result

COLOURED = Screen(80, colours=True, links=True)


def a_document(**fields: Any) -> DocumentAnswer:
    given = {
        "document_id": "3f9a5e2c" + "0" * 24,
        "title": "Disk full",
        "section": "Steps",
        "source": "https://wiki/disk",
        "category": "runbooks/procedures",
        "tier": "internal",
        "trust": 1.0,
        "confidence": 0.81,
        "score": 0.81,
        "updated": "2026-01-01T00:00:00Z",
        "why": "disk; words #1",
        "content": "## Steps\n\n2. Grow the volume.",
    }
    return DocumentAnswer(**{**given, **fields})


def shown(*documents: DocumentAnswer, page: HitPage = HitPage(Screen())) -> list[str]:  # noqa: B008 - immutable
    return list(page.answer(Answer("disk", (a_result(),), documents=documents)))


def test_document_is_headed_by_what_to_know_before_acting_on_it() -> None:
    document = a_document(
        age_days=70, owner="st", review="2026-03-01", flags=(STALE,), outcome="4 of 5 resolved", copies=("Copy",)
    )
    assert shown(document) == [
        "1. Disk full > Steps",
        "   runbooks/procedures, likely (0.81), updated 2026-01-01 (70 days ago), owner st, to be reviewed by 2026-03-01",
        "   outcomes: 4 of 5 resolved",
        "   warning: the day by which this was to be reviewed is over; see whether it still holds",
        "",
        "## Steps",
        "",
        "2. Grow the volume.",
        "",
        "   https://wiki/disk  [3f9a5e2c]",
        "   also in: Copy",
    ]


@pytest.mark.parametrize(
    ("confidence", "band"),
    [(0.951, "sure (0.95)"), (0.949, "likely (0.95)"), (0.5, "likely (0.50)"), (0.1, "weak (0.10)")],
)
def test_a_document_is_shown_with_its_band(confidence: float, band: str) -> None:
    assert shown(a_document(confidence=confidence))[1].startswith(f"   runbooks/procedures, {band}, updated")


def test_each_absent_identifier_is_a_line() -> None:
    absent = (Absent("QueueHigh", "alert", "QueueLow\x1b[2J", "d"), Absent("CVE-2024-3094", "CVE"))
    lines = [unstyle(line) for line in absent_lines(Answer("q", (), absent=absent))]
    assert lines == [
        "No page for alert QueueHigh; nearest sibling: QueueLow [2J.",
        "No page for CVE CVE-2024-3094.",
        "",
    ]
    assert list(absent_lines(Answer("q", ()))) == []


def test_nothing_near_is_distinguished_from_nothing_good_enough() -> None:
    weak = a_result(score=0.31)
    assert list(no_answer_lines(Answer("q", ()), 0.5)) == ["No answer: nothing here is near this question."]
    assert list(no_answer_lines(Answer("q", (), unconfirmed=(weak,)), 0.5, "--min-confidence")) == [
        "No good answer: nothing reaches confidence 0.50.",
        "Closest: Disk full (0.31); see it with --min-confidence 0.3",
    ]


def test_a_partial_search_does_not_report_that_nothing_is_near() -> None:
    assert list(no_answer_lines(Answer("q", (), partial=True), 0.5)) == [
        "No good answer: nothing reaches confidence 0.50."
    ]


def test_other_steps_of_the_first_document_are_listed_with_their_effects() -> None:
    titles = ((Effect.READ, "Look"), (Effect.UNKNOWN, "Grow the volume."), (Effect.DESTRUCTIVE, "Wipe it " * 20))
    steps = tuple(
        StepView(number=at, name=str(at), step_id=str(at), title=title, effect=effect)
        for at, (effect, title) in enumerate(titles, 1)
    )
    lines = shown(a_document(steps=steps, step_count=3))
    assert lines[7:9] == ["   Other steps (`opx show 3f9a5e2c --step N`):", "     1  Look  (read)"]
    assert lines[9].startswith("     3  Wipe it Wipe it")
    assert lines[9].endswith("…  (destructive)")
    assert len(lines[9]) <= 100
    coloured = shown(a_document(steps=steps, step_count=3), page=HitPage(COLOURED))
    assert any("\x1b[31m\x1b[1m  (destructive)" in line for line in coloured)
    second = shown(a_document(), a_document(steps=steps, step_count=3))
    assert "   2 other steps: opx show 3f9a5e2c --outline" in second


def test_data_loss_of_shown_commands_is_reported_below_the_text() -> None:
    command = ShownCommand("truncate -s 0 /var/log/app.log", effect=Effect.DESTRUCTIVE)
    step = StepView(number=2, name="2", step_id="s", title="Free room", effect=Effect.DESTRUCTIVE, commands=(command,))
    (line,) = (line for line in shown(a_document(steps=(step,), step_count=1)) if "Destructive" in line)
    assert line == "   Destructive: step 2 `truncate -s 0 /var/log/app.log`"


def test_warning_of_a_tried_step_stands_before_it_and_is_never_lost() -> None:
    text = "[Warning: tried in INC-7, made things worse: grow]"
    within = a_document(content=f"## Steps\n\n{text}\n2. Grow the volume.", warnings=(text[10:-1],))
    assert shown(within)[3:7] == ["## Steps", "", text, "2. Grow the volume."]
    outside = a_document(tier="internet", warnings=(text[10:-1],))
    assert shown(outside)[2:4] == ["   untrusted: from outside (internet)", f"   {text}"]


def test_documents_without_text_are_in_a_line_each_with_their_rank() -> None:
    lines = shown(
        a_document(content=""), a_document(title="Logs"), a_document(title="Inodes", content="", confidence=0.1)
    )
    assert lines[0] == "2. Logs > Steps"
    assert lines[-3:] == [
        "Also found:",
        "1. Disk full > Steps (likely, 0.81)  https://wiki/disk",
        "3. Inodes > Steps (weak, 0.10)  https://wiki/disk",
    ]


def test_documents_that_hardly_fit_are_in_a_line_each_below_a_likely_one() -> None:
    lines = shown(a_document(confidence=0.5), a_document(title="Logs", confidence=0.049), a_document(title="Inodes"))
    assert [line for line in lines if " > Steps" in line] == [
        "1. Disk full > Steps",
        "3. Inodes > Steps",
        "2. Logs > Steps (weak, 0.05)  https://wiki/disk",
    ]
    assert "Also found:" in lines


def test_documents_that_hardly_fit_are_shown_below_a_weak_one() -> None:
    lines = shown(a_document(confidence=0.49), a_document(title="Logs", confidence=0.01))
    assert "2. Logs > Steps" in lines
    assert "Also found:" not in lines


@pytest.mark.parametrize(("best", "mentioned"), [(0.81, False), (0.005, False), (0.0049, True)])
def test_the_least_likely_documents_are_mentioned_only_without_a_better_one(best: float, mentioned: bool) -> None:
    lines = shown(a_document(confidence=best), a_document(title="Logs", content="", confidence=0.004))
    assert ("2. Logs > Steps (weak, 0.00)  https://wiki/disk" in lines) is mentioned


def test_local_file_is_linked_at_the_line_where_the_text_begins(tmp_path: Path) -> None:
    file = tmp_path / "disk runbook.md"
    file.write_text("---\ntags: [x]\n---\n# Disk full\n\n## Steps\n\n2. Grow the volume.\n", encoding="utf-8")
    page = HitPage(COLOURED, folders=(tmp_path,))
    for source in (str(file), file.as_uri(), "disk runbook.md"):
        [line] = [line for line in shown(a_document(source=source, line=3), page=page) if "]8;;" in line]
        assert f"\x1b]8;;{file.as_uri()}\x1b\\" in line
        assert f"{file}:6\x1b]8;;" in line
    assert f"   {file}  [3f9a5e2c]" in shown(a_document(source=str(file), content="changed since"))


def test_sources_of_documents_can_not_write_to_the_terminal() -> None:
    hostile = "https://wiki/\x1b]0;owned\x07"
    lines = "".join(shown(a_document(source=hostile, title="\x1b[2J", owner="\x9b2J"), page=HitPage(COLOURED)))
    assert "\x1b]0" not in lines
    assert "\x1b[2J" not in lines
    assert "\x9b" not in lines


def test_answer_without_documents_shows_its_passages() -> None:
    hit = replace(a_result(), content="Some `code`.")
    lines = list(HitPage(Screen()).answer(Answer("disk", (hit,))))
    assert lines[0].startswith("1. ")
    assert "Some `code`." in lines

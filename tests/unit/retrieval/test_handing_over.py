"""Of each document found, the blocks that help are handed over: whole, in order, with what has to stand before them, and
within a budget."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.documents import KnowledgeDocument
from opx.domain.handover import DocumentAnswer
from opx.domain.learning import StepWarning, TriedEffect
from opx.domain.queries import Basis
from opx.domain.record import replace
from opx.domain.results import RetrievalResult
from opx.errors import DocumentNotFoundError, StoreUnavailableError
from opx.retrieval.citations import handed_over
from opx.retrieval.handover import Handover, Readable
from opx.runtime.threads import Each
from opx.text.procedures.effects import effect_table
from opx.text.procedures.layout import LEFT_OUT, ROW_LEFT_OUT
from opx.text.procedures.outline import outline_of
from opx.text.tokenizer import count_tokens
from tests.support.builders import a_document

DISK = """# Disk full

## Symptoms

The alert DiskFull fires and writes fail.

## Steps

1. **Look for large files.**

   ```bash
   du -xh /var | sort -h | tail -20
   ```

2. **Free room**, in this order:

   1. Old journals: `journalctl --vacuum-size=200M`, which keeps the newest two hundred megabytes of what was written.
   2. The package cache, which is only a copy of what the mirror has: `apt-get clean`. It is filled with the next update.
   3. Core dumps below `/var/crash`, which nobody looks at after a week: `find /var/crash -mtime +7 -delete`. Ask first.
   4. Uploads that were never finished, below `/srv/upload`: `tmpreaper 7d /srv/upload`. Their owners get no message of it.

   ```bash
   truncate -s 0 /var/log/app.log
   ```

   Never delete a file below `/var/lib/postgresql`.

3. **Grow the volume.**

   ```bash
   lvextend -r -L +20G /dev/vg0/var
   ```

## Owners

| Host | Owner | Pager |
|---|---|---|
| db-01 | data | data-oncall |
| db-02 | data | data-oncall |
| web-01 | web | web-oncall |
| web-02 | web | web-oncall |
| mq-01 | messaging | mq-oncall |
"""
OTHER = "# Certificates\n\n## Steps\n\n1. Renew it.\n\n   ```bash\n   certbot renew\n   ```\n"
TEXTS = {"disk": DISK, "cert": OTHER}


def a_result(document_id: str, content: str, confidence: float = 0.8, title: str = "A page") -> RetrievalResult:
    facts = {"documentId": document_id, "title": title, "section": ["Steps"]}
    return RetrievalResult(content, confidence, "internal", "runbooks", f"{document_id}.md", "2026-03-01", 1.0, facts)


def handing_over(
    texts: dict[str, str] = TEXTS, lost: Exception | None = None, warnings: Sequence[StepWarning] = ()
) -> Handover:
    def read(document_id: str) -> Readable:
        if lost is not None:
            raise lost
        if document_id not in texts:
            raise DocumentNotFoundError(document_id)
        document: KnowledgeDocument = a_document(owner="platform")
        return document, outline_of(document_id, "A page", texts[document_id])

    table = effect_table()
    return Handover(
        read=read,
        classify=lambda command: table.classify(command.text, command.language),
        warnings_of=lambda passages: [list(warnings) for _ in passages()] if warnings else [],
        each=Each(),
        today="2026-03-11",
    )


def handed(question: str, budget: int = 1200, *found: RetrievalResult) -> DocumentAnswer:
    """The first document of an answer."""
    results = found or (a_result("disk", "The alert DiskFull fires and writes fail."),)
    return handing_over().documents(question, results, budget)[0]


def test_a_models_reading_is_shown_with_the_document() -> None:
    read = replace(a_result("disk", "The alert DiskFull fires."), judged=Basis.READ, helps_by="Grow the volume.")
    answer, other = handing_over().documents("DiskFull", [read, a_result("cert", "Renew it.")], 1200)
    assert (answer.judged, answer.helps_by) == (Basis.READ, "Grow the volume.")
    assert (other.judged, other.helps_by) == (Basis.ESTIMATED, "")
    assert other.to_json()["judged"] == "estimated"


class TestContent:
    def test_a_small_document_is_handed_over_whole(self) -> None:
        answer = handed("DiskFull")
        assert answer.whole
        assert answer.content == DISK.strip("\n")
        assert not answer.next
        assert [step.shown for step in answer.steps] == [True, True, True]

    def test_the_block_that_has_the_questions_words_is_taken_before_others(self) -> None:
        content = handed("how do I grow the volume with lvextend", 190).content
        assert "lvextend -r -L +20G /dev/vg0/var" in content
        assert "DiskFull fires" not in content

    def test_headings_stand_above_and_what_is_left_out_is_marked(self) -> None:
        lines = handed("large files, du sort tail", 190).content.splitlines()
        assert lines[0] == "# Disk full"
        assert lines.index("## Steps") < lines.index("1. **Look for large files.**")
        assert "   du -xh /var | sort -h | tail -20" in lines
        assert lines[-1] == LEFT_OUT

    def test_a_row_brings_the_head_of_its_table(self) -> None:
        lines = handed("who owns mq-01 messaging pager", 190).content.splitlines()
        assert lines[-4:] == [
            "| Host | Owner | Pager |",
            "|---|---|---|",
            ROW_LEFT_OUT,
            "| mq-01 | messaging | mq-oncall |",
        ]

    def test_an_item_of_a_list_brings_the_line_that_leads_to_it(self) -> None:
        found = a_result("disk", "Core dumps below `/var/crash`, which nobody looks at after a week")
        lines = handed("core dumps that nobody looks at", 230, found).content.splitlines()
        at = lines.index("2. **Free room**, in this order:")
        assert lines[at + 1 : at + 4] == ["", LEFT_OUT, ""]
        assert lines[at + 4].startswith("   3. Core dumps below `/var/crash`")

    def test_a_line_that_leads_to_a_list_does_not_come_alone(self) -> None:
        for budget in range(100, 400, 10):
            content = handed("free room in which order", budget).content
            if "in this order:" in content:
                assert (
                    "journalctl" in content
                    or "apt-get clean" in content
                    or "/var/crash" in content
                    or "Never" in content
                )

    def test_a_warning_of_a_step_comes_with_each_of_its_blocks(self) -> None:
        content = handed("package cache, a copy of what the mirror has: apt-get clean", 260).content
        assert "apt-get clean" in content
        assert "Never delete a file below `/var/lib/postgresql`." in content

    def test_of_a_document_that_has_more_the_next_call_is_named(self) -> None:
        answer = handed("how do I grow the volume with lvextend", 190)
        assert [(one.tool, one.arguments) for one in answer.next] == [
            ("read_document", {"document": "disk", "part": "steps"})
        ]
        assert answer.next[0].why == "steps 1-2 of 3"

    def test_metadata_of_a_document(self) -> None:
        answer = handed("DiskFull fires")
        assert (answer.age_days, answer.owner, answer.step_count, answer.line) == (10, "platform", 3, 5)
        assert "DiskFull" in answer.why

    def test_commands_of_shown_steps_have_their_effects(self) -> None:
        answer = handed("DiskFull")
        found = {command.text: str(command.effect) for step in answer.steps for command in step.commands}
        assert found["du -xh /var | sort -h | tail -20"] == "read"
        assert found["truncate -s 0 /var/log/app.log"] == "destructive"

    def test_a_warning_of_ours_stands_before_its_line(self) -> None:
        line = DISK.strip("\n").split("\n").index("3. **Grow the volume.**")
        warning = StepWarning("grow the volume", TriedEffect.MADE_WORSE, ("INC-7",), "", 1, line)
        found = [a_result("disk", "The alert DiskFull fires and writes fail.")]
        answer = handing_over(warnings=[warning]).documents("DiskFull", found, 1200)[0]
        shown = answer.content.split("\n")
        assert shown[line : line + 2] == [f"[Warning: {warning.text}]", "3. **Grow the volume.**"]
        assert answer.warnings == ('tried in INC-7, made things worse: "grow the volume"',)


class TestHarm:
    def test_shown_commands_that_lose_something_are_named(self) -> None:
        (line,) = (line for line in handed_over([handed("DiskFull")]).splitlines() if line.startswith("Destructive: "))
        first, second, third = line.split("; ")
        assert first == "Destructive: step 2 `journalctl --vacuum-size=200M`"
        assert second == "step 2 `find /var/crash -mtime +7 -delete`"
        assert third == "step 2 `truncate -s 0 /var/log/app.log`"

    def test_commands_that_are_not_shown_are_not(self) -> None:
        assert "Destructive" not in handed_over([handed("how do I grow the volume with lvextend", 190)])

    def test_a_long_command_is_named_by_its_beginning(self) -> None:
        text = f"# A\n\n1. Remove it.\n\n   ```bash\n   rm -rf /srv/{'x' * 80}\n   ```\n"
        (answer,) = handing_over({"a": text}).documents("remove it", [a_result("a", "Remove it.")], 1200)
        assert f"Destructive: step 1 `rm -rf /srv/{'x' * 28}…`" in handed_over([answer])

    def test_commands_from_outside_are_not_quoted_outside_of_their_frame(self) -> None:
        answer = replace(handed("DiskFull"), tier="internet", untrusted=True)
        text = handed_over([answer])
        assert "\nDestructive: step 2\n" in text
        assert text.count("truncate -s 0 /var/log/app.log") == 1


class TestBudget:
    @pytest.mark.parametrize("budget", [100, 200, 300, 600, 1200])
    def test_replies_are_about_as_long_as_the_budget(self, budget: int) -> None:
        texts = {name: DISK.replace("var", name) for name in ("a", "b", "c", "d", "e", "f")}
        results = [a_result(name, "The alert DiskFull fires and writes fail.", title=f"Page {name}") for name in texts]
        documents = handing_over(texts).documents("disk full, free room", results, budget)
        assert count_tokens(handed_over(documents)) <= 1.05 * budget + 20

    def test_a_budget_that_nothing_fits_names_the_documents(self) -> None:
        documents = handing_over().documents("DiskFull", [a_result("disk", "writes fail", title="Disk full")], 10)
        assert [one.content for one in documents] == [""]
        assert handed_over(documents).splitlines() == [
            "Found, and larger than the budget:",
            "- Disk full (likely, 0.80) [Document ID: disk]",
            'Next: read_document(document="disk"): as much of it as fits',
        ]

    def test_a_command_larger_than_the_budget_is_left_out_rather_than_cut(self) -> None:
        text = (
            "# A\n\n1. Run it.\n\n   ```bash\n"
            + "   echo one two three four five six\n" * 300
            + "   ```\n\n2. Look at it.\n"
        )
        answer = handing_over({"a": text}).documents("run it, look at it", [a_result("a", "Run it.")], 300)[0]
        assert "echo one" not in answer.content
        assert "2. Look at it." in answer.content

    def test_documents_behind_the_fifth_are_named_only(self) -> None:
        texts = {f"d{number}": OTHER for number in range(7)}
        results = [a_result(name, "Renew it.", title=f"Page {name}") for name in texts]
        documents = handing_over(texts).documents("certbot renew", results, 8000)
        assert [bool(one.content) for one in documents] == [True] * 5 + [False] * 2
        assert [one.step_count for one in documents] == [1] * 5 + [0] * 2
        assert documents[-1].next[0].arguments == {"document": "d6", "part": "all"}


class TestLostDocuments:
    @pytest.mark.parametrize("lost", [DocumentNotFoundError("gone"), StoreUnavailableError("away")])
    def test_one_that_cannot_be_read_any_more_has_what_was_found(self, lost: Exception) -> None:
        answer = handing_over(lost=lost).documents("DiskFull", [a_result("disk", "The alert DiskFull fires.")], 1200)[0]
        assert answer.content == "The alert DiskFull fires."


MARKDOWN = st.text(st.sampled_from('#>-*+`~|:. \t\n1aR\\_"$'), max_size=400)


@given(text=MARKDOWN, question=st.text(max_size=40), budget=st.integers(10, 400))
def test_every_line_is_the_documents_or_a_mark(text: str, question: str, budget: int) -> None:
    outline = outline_of("any", "A page", text)
    answer = handing_over({"any": text}).documents(question, [a_result("any", text[:50])], budget)[0]
    known = {line.strip() for line in outline.text.split("\n")} | {LEFT_OUT, ROW_LEFT_OUT, ""}
    headings = {f"{'#' * min(max(one.level, 1), 6)} {one.heading}".strip() for one in outline.sections}
    assert {line.strip() for line in answer.content.split("\n")} <= known | headings

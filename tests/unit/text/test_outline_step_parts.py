"""Parts of a step: commands, expectation, check, failure, approval, warnings; fast parts agree with slower forms."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from opx.domain.procedures import Effect
from opx.text.procedures.blocks import MAX_NESTING, Block, BlockKind, _parser, parse_blocks
from opx.text.procedures.commands import command, commands_of, inline_commands, row_commands
from opx.text.procedures.effects import effect_table
from opx.text.procedures.outline import MAX_TITLE, outline_of
from opx.text.procedures.phrases import Phrases
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


CORPUS = sorted(Path("corpus").rglob("*.md"))
MARKDOWN = st.text(st.sampled_from("#>-*+_`~|[]()<>!:=. \t\n1aR\\\"'$"), max_size=200)
LINES = st.lists(
    st.sampled_from(
        (
            "a", "- b", "1. c", "  2) d", "> e", "```", "~~~", "# f", "---", "***", "| g | h |", "|---|---|", "===", "",
            "    i", "<div>", "</div>", "[j]: k", "[j]: <k> 'l", "-", "+ ", "\tm", "> - n", "10. o", "<!-- p",
        )
    ),
    max_size=14,
)  # fmt: skip


@cache
def plain_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable("table")
    parser.core.ruler.disable(["normalize", "inline", "text_join"])
    return parser


@given(st.one_of(MARKDOWN, LINES.map("\n".join)))
def test_blocks_are_those_of_all_rules_called_on_each_line(text: str) -> None:
    assert _parser().parse(text) == plain_parser().parse(text)


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_blocks_of_a_page_are_those_of_all_rules_called_on_each_line(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert _parser().parse(text) == plain_parser().parse(text)


def test_code_has_its_commands_and_a_paragraph_its_sentences() -> None:
    paragraph, code = parse_blocks("Stop it. Then wait.\n\n```sh\ndf -h\n```\n")
    assert paragraph.sentences == ("Stop it.", "Then wait.")
    assert [one.text for one in code.commands] == ["df -h"]
    assert Block(BlockKind.CODE, 0, 0).commands == ()


SOURCES = (r"\bdata loss\b", r"\bif (?:not|that fails)\b", r"\b(?:you )?must not\b")
PHRASES = Phrases("\n".join(SOURCES))
ANYWHERE = re.compile("|".join(SOURCES), re.IGNORECASE)
WORDS = st.lists(
    st.sampled_from(
        (
            "data",
            "loss",
            "Data",
            "LOSS",
            "if",
            "If",
            "not",
            "that",
            "fails",
            "you",
            "must",
            "MUST",
            "é",
            "ſ",
            "_",
            "x",
            "1",
        )
    ),
    max_size=8,
)


@given(WORDS, st.sampled_from((" ", "", ", ", "\n", "-")))
def test_phrases_are_found_as_by_a_pattern_without_regard_to_case(words: list[str], between: str) -> None:
    text = between.join(words)
    assert PHRASES.are_in(text) is bool(ANYWHERE.search(text))
    assert list(PHRASES.places(text)) == [found.span() for found in ANYWHERE.finditer(text)]


def test_a_phrase_begins_a_word() -> None:
    with pytest.raises(AssertionError):
        Phrases("data loss")


SHELL = st.text(st.sampled_from("ls -$#'\"\\|&;(){}<E>\n`=*done "), max_size=200)


def texts(code: str, language: str = "sh") -> list[str]:
    return [one.text for one in commands_of(code, language)]


def inline(paragraph: str) -> list[str]:
    return [one.text for one in inline_commands(paragraph)]


class TestWhole:
    @pytest.mark.parametrize(
        "whole",
        [
            "kubectl get pods \\\n  --namespace shop",
            "cat access.log |\n  sort | uniq -c",
            "make build &&\nmake install",
            "cat <<EOF > job.yaml\nkind: Job\n\n# comment\nEOF",
            "psql <<-'SQL'\nselect 1;\nSQL",
            "for pod in $(cat pods); do\n  kubectl delete pod $pod\ndone",
            "while true\ndo\n  if test -f stop; then\n    break\n  fi\ndone",
            "awk '{\n  print $1\n}' access.log",
            'echo "it\'s\nfine"',
            "clean() {\n  rm -r /tmp/a\n}",
            "(\n  cd /tmp\n  ls\n)",
        ],
    )
    @pytest.mark.parametrize("language", ["sh", ""])
    def test_a_command_of_several_lines_stays_together(self, whole: str, language: str) -> None:
        assert texts(f"ls -l\n{whole}\nuptime", language)[1:-1] == [whole]

    def test_line_with_an_unclosed_quote_is_its_own_command(self) -> None:
        assert texts("echo don't\necho 'open\nuptime\nls -l") == ["echo don't", "echo 'open", "uptime", "ls -l"]

    @given(code=SHELL, language=st.sampled_from(["", "sh", "console", "sql", "promql", "http"]))
    def test_commands_are_parts_of_their_block(self, code: str, language: str) -> None:
        assert all(text and text in code for text in texts(code, language))

    @given(code=SHELL.filter(lambda code: "```" not in code))
    def test_commands_are_found_in_the_document_without_its_indentation(self, code: str) -> None:
        lines = "".join(f"   {line}\n" for line in ["1. Run:", "```sh", *code.split("\n"), "```"]).lstrip()
        bare = "\n".join(line[3:] for line in lines.split("\n"))
        steps = outline_of("d1", "t", lines).steps
        assert all(one.text in bare or one.text in lines for step in steps for one in step.commands)


class TestBlocks:
    def test_prompts_are_taken_off_and_output_is_left_out(self) -> None:
        code = "$ kubectl get pods\nNAME   READY\nshop-1 1/1\n$ uptime\n 10:00 up 3 days\n"
        assert texts(code, "console") == ["kubectl get pods", "uptime"]

    def test_a_command_before_the_first_prompt_counts(self) -> None:
        assert texts("kubectl get pods\n$ uptime\n", "console") == ["kubectl get pods", "uptime"]

    def test_the_prompt_of_root_is_none_where_other_lines_are_commands(self) -> None:
        assert texts("# gcore 17\n# ls -l\n", "console") == ["gcore 17", "ls -l"]
        assert texts("# find the device\nlsblk -f\n", "console") == ["lsblk -f"]

    def test_emptying_a_file_and_a_program_without_its_alias_are_commands(self) -> None:
        assert texts("Done:\n> /var/log/app.log\n\\rm -rf /srv\n", "") == ["> /var/log/app.log", "\\rm -rf /srv"]

    def test_output_in_a_shell_block_is_left_out(self) -> None:
        assert texts("kubectl get pods\nNAME   READY\nshop-1 1/1\n\nuptime\n") == ["kubectl get pods", "uptime"]

    def test_output_that_a_paragraph_announces_is_left_out(self) -> None:
        text = "1. Run this:\n\n   ```\n   df -h\n   ```\n\n   Example output:\n\n   ```\n   ls -l\n   ```\n"
        (step,) = outline_of("d1", "t", text).steps
        assert [one.text for one in step.commands] == ["df -h"]

    def test_unknown_programs_are_commands_behind_comments(self) -> None:
        code = "# connect\nacme connect ssh --env integration\n# ask\nkeys *\nredis-cli info\n"
        assert texts(code, "") == ["acme connect ssh --env integration", "keys *", "redis-cli info"]

    def test_messages_are_no_commands(self) -> None:
        assert texts("error: file not found\nhost is down\ntime is up", "") == []

    @pytest.mark.parametrize("language", ["yaml", "json", "python", "text"])
    def test_data_has_no_commands(self, language: str) -> None:
        assert texts("ls -l", language) == []

    def test_statements_end_with_a_semicolon(self) -> None:
        assert texts("-- how many\nselect 1,\n  2;\n\nselect 3;\n", "sql") == ["select 1,\n  2;", "select 3;"]

    def test_a_query_is_one_command_whatever_the_tag(self) -> None:
        (found,) = commands_of("# slow ones\nsum by (pod) (\n  rate(a_seconds_count[5m])\n)\n", "sh")
        assert (found.text, found.language) == ("sum by (pod) (\n  rate(a_seconds_count[5m])\n)", "promql")


class TestSpans:
    def test_commands_with_arguments_are_found(self) -> None:
        assert inline("Look with `kubectl get pods`, then ``echo `id` ``.") == ["kubectl get pods", "echo `id`"]

    def test_names_of_commands_are_none(self) -> None:
        assert inline("`kubectl scale` is undone. `make` is a program. To run `etcdctl` commands, log in.") == []

    def test_a_name_that_one_is_to_run_is_a_command(self) -> None:
        assert inline("Run `lsblk`, check with `git diff`.") == ["lsblk", "git diff"]

    @pytest.mark.parametrize(
        "span",
        [
            'bash -c "rm -rf /data"',
            "sudo sh -c 'echo \"\" > /var/lib/app/state.db'",
            ": > /var/log/app.log",
            "> /var/log/<service>.log",
            r"\rm -rf /srv",
            "flyctl apps destroy web",
            "gatewayctl promote us --confirm",
            "acmectl region delete-all -y",
        ],
    )
    def test_shells_redirections_and_unknown_programs_that_change_something_are_commands(self, span: str) -> None:
        assert inline(f"First take a backup, `{span}` then.") == [span]
        assert effect_table().classify(span).effect in (Effect.UNKNOWN, Effect.DESTRUCTIVE)

    def test_an_unknown_program_without_options_is_a_command_where_it_is_run(self) -> None:
        assert (
            inline("1. `gatewayctl promote us`"[3:])
            == inline("Run `gatewayctl promote us`.")
            == ["gatewayctl promote us"]
        )
        assert inline("It is the audit log that `gatewayctl promote us` wrote.") == []

    @pytest.mark.parametrize(
        "span",
        [
            "failed to delete volume <id>",
            "cannot remove /srv/data",
            "on_failure: restart",
            "tempdb.drop_rate",
            "max_kill_retries = 3",
            "> quoted text",
            r"\d+ errors",
            "/etc/app/delete.conf",
            "app.reset",
        ],
    )
    def test_messages_settings_and_names_are_no_commands(self, span: str) -> None:
        assert inline(f"The log has `{span}` then.") == []

    def test_a_line_break_in_a_span_is_a_blank(self) -> None:
        assert inline("Run `kubectl get\npods -A`.") == ["kubectl get pods -A"]


class TestRows:
    def test_spans_of_a_row_are_commands_with_their_pipes(self) -> None:
        row = r"| Empty it | `truncate -s 0 /var/log/a.log` | `ps aux \| grep app` or `ls -l | wc -l` |"
        found = [one.text for one in row_commands(row)]
        assert found == ["truncate -s 0 /var/log/a.log", "ps aux | grep app", "ls -l | wc -l"]

    def test_a_cell_with_a_command_alone_needs_no_argument_but_a_mere_name_is_none(self) -> None:
        assert [one.text for one in row_commands("| `docker image prune` | `systemd` | `reboot` |")] == [
            "docker image prune",
            "reboot",
        ]

    def test_a_back_tick_that_is_never_closed_hides_no_other_cell(self) -> None:
        assert [one.text for one in row_commands("| `` open | `rm -rf /srv/a` |")] == ["rm -rf /srv/a"]

    def test_commands_of_a_table_belong_to_its_step(self) -> None:
        text = (
            "## Steps\n\n1. Remove what is safe:\n\n   | What | Command |\n   |---|---|\n"
            "   | Log | `truncate -s 0 /var/log/a.log` |\n   | Images | `docker image prune -a` |\n\n2. Run `df -h`.\n"
        )
        first, second = outline_of("d1", "t", text).steps
        assert [one.text for one in first.commands] == ["truncate -s 0 /var/log/a.log", "docker image prune -a"]
        assert [one.text for one in second.commands] == ["df -h"]


class TestPlaceholders:
    def test_placeholders_are_kept_as_written(self) -> None:
        text = "kubectl logs <pod name> -n ${NS} -c {{ container }} --since $SINCE CLUSTER_NAME"
        assert command(text).placeholders == ("<pod name>", "${NS}", "{{ container }}", "$SINCE", "CLUSTER_NAME")

    def test_variables_that_are_set_are_none(self) -> None:
        assert command("NS=shop; for POD in a b; do kubectl logs $POD -n ${NS}; done; cd $HOME").placeholders == ()

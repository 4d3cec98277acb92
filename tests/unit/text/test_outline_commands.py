"""Commands stand character by character as the document has them, whole and without prompts or output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.procedures import Effect
from opx.text.procedures.commands import command, commands_of, inline_commands, row_commands
from opx.text.procedures.effects import effect_table
from opx.text.procedures.outline import outline_of

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

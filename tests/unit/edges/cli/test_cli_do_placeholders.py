"""Values of labels in commands that `opx do` fills: each stays one word, or its placeholder is left."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opx.domain.procedures import Command
from opx.text.procedures.alerts import filled


@given(value=st.text(min_size=1, max_size=40))
@example("a;rm -rf /")
@example("$(reboot)")
@example("`reboot`")
@example("'; reboot; '")
@example("-rf")
@example("a\nreboot")
@example("~root")
@example("*")
def test_a_value_is_one_word_of_a_filled_command_or_its_placeholder_is_left(value: str) -> None:
    command = Command("kubectl delete pod <pod> --now", "bash", ("<pod>",))
    text, left = filled(command, {"pod": value})
    assert (
        left == ("<pod>",)
        if text == command.text
        else shlex.split(text) == ["kubectl", "delete", "pod", value, "--now"]
    )


@given(value=st.text(min_size=1, max_size=40))
@example("a b")
@example('a"; reboot; "')
def test_a_value_within_quotes_stays_within_them(value: str) -> None:
    command = Command('psql -c "select <pod>"', "bash", ("<pod>",))
    text, left = filled(command, {"pod": value})
    assert left == ("<pod>",) if text == command.text else shlex.split(text) == ["psql", "-c", f"select {value}"]


@pytest.mark.parametrize(
    "text",
    [
        "ssh web-1 systemctl restart <pod>",
        "eval kubectl delete pod <pod>",
        "kubectl exec x -- sh -c 'rm <pod>'",
        "cat <<END\n<pod>\nEND",
        "echo `ls <pod>`",
    ],
)
def test_placeholders_for_a_second_shell_accept_only_names(text: str) -> None:
    command = Command(text, "bash", ("<pod>",))
    assert filled(command, {"pod": "a; reboot"}) == (text, ("<pod>",))
    assert filled(command, {"pod": "web-1"}) == (text.replace("<pod>", "web-1"), ())


def test_a_placeholder_that_begins_another_leaves_it_whole() -> None:
    command = Command("echo $POD $POD_NAME <pod>", "bash", ("$POD", "$NODE", "$POD_NAME", "<pod>"))
    labels = {"pod": "<node>", "node": "n1"}
    assert filled(command, labels)[0].split()[1:] == ["'<node>'"] * 3

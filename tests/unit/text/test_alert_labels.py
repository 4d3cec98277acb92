"""Labels of alerts in the placeholders of commands."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.text.procedures.alerts import assigned_in, filled
from opx.text.procedures.commands import command

LABELS = {"namespace": "prod", "pod": "web-1", "instance": "db-1:9100", "service": "checkout"}


def fill(text: str, **labels: str) -> str:
    return filled(command(text, "bash"), labels or LABELS)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kubectl -n <namespace> logs <pod-name>", "kubectl -n prod logs web-1"),
        ("kubectl -n ${NS} logs $POD", "kubectl -n prod logs web-1"),
        ("ssh <host> uptime", "ssh db-1 uptime"),
        ("ssh <your-host> uptime", "ssh db-1 uptime"),
        ("curl http://{{ instance }}/metrics", "curl http://db-1/metrics"),
    ],
)
def test_a_placeholder_gets_the_label_that_it_names(text: str, expected: str) -> None:
    assert fill(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "pg_basebackup -h PRIMARY_HOST -D /var/lib/postgresql",
        "ssh <standby_host> 'rm -rf /d'",
        "rsync -a <source_host>:/d/ <target_host>:/d/",
        "psql -h <old-instance>",
        "kubectl -n <target-namespace> apply -f x.yaml",
    ],
)
def test_a_placeholder_with_a_role_is_left_to_the_person(text: str) -> None:
    assert fill(text) == text


def test_a_placeholder_with_a_role_gets_a_label_of_exactly_that_name() -> None:
    assert fill("ssh <standby_host> uptime", standby_host="db-2", host="db-1") == "ssh db-2 uptime"


def test_two_placeholders_never_get_the_same_label() -> None:
    text = "rsync -a <host>:/d/ <server>:/d/"
    assert fill(text) == text


def test_a_variable_that_another_command_sets_is_neither_filled_nor_left() -> None:
    block = [command("NS=payments", "bash"), command('kubectl -n "$NS" get pod <pod>', "bash")]
    assert filled(block[1], LABELS, assigned_in(block)) == ('kubectl -n "$NS" get pod web-1', ())


@given(st.text(min_size=1, max_size=40))
def test_whatever_a_label_has_stays_one_word(value: str) -> None:
    text, left = filled(command("kubectl get pod <pod> -o wide", "bash"), {"pod": value})
    if left:
        assert text == "kubectl get pod <pod> -o wide"
    else:
        assert shlex.split(text) == ["kubectl", "get", "pod", value, "-o", "wide"]

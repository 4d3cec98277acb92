"""Alerts of notifications, commands filled in with their labels, and literals that an alert contradicts."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.handover import FilledCommand, ShownCommand, StepView
from opx.errors import InvalidInputError
from opx.text.procedures.alerts import Alert, assigned_in, filled, read_alert
from opx.text.procedures.commands import command
from opx.text.procedures.filling import differing, filled_commands, placed, with_commands


def a_step(*commands: ShownCommand, **given: object) -> StepView:
    return StepView(**{"number": 1, "name": "1", "step_id": "x", "title": "Do it", "commands": commands, **given})  # type: ignore[arg-type]


def filled_of(text: str, *placeholders: str, **labels: str) -> FilledCommand:
    (found,) = filled_commands(a_step(ShownCommand(text, "bash", placeholders=placeholders)), labels, ())
    return found


class TestDiffering:
    @pytest.mark.parametrize(
        ("command", "labels", "difference"),
        [
            ("kubectl -n prod logs web-1", {"namespace": "web"}, "-n prod; the alert says namespace=web"),
            ("helm --namespace=prod list", {"ns": "web"}, "--namespace prod; the alert says ns=web"),
            ("sudo kubectl get pods -n 'prod' | wc -l", {"namespace": "web"}, "-n prod; the alert says namespace=web"),
            ("kubectl --context old get pods", {"cluster": "new"}, "--context old; the alert says cluster=new"),
            (
                "aws rds x --region eu-west-1",
                {"region": "us-east-1"},
                "--region eu-west-1; the alert says region=us-east-1",
            ),
            ("psql -h db-1 -c 'select 1'", {"instance": "db-2:5432"}, "-h db-1; the alert says instance=db-2"),
            ("NS=catalog\n", {"namespace": "web"}, "NS=catalog; the alert says namespace=web"),
        ],
    )
    def test_literals_that_an_alert_contradicts_are_named(
        self, command: str, labels: dict[str, str], difference: str
    ) -> None:
        assert list(differing(ShownCommand(command), labels)) == [difference]

    @pytest.mark.parametrize(
        ("command", "labels"),
        [
            ("kubectl -n prod logs web-1", {"namespace": "prod"}),
            ("kubectl -n prod logs web-1", {"pod": "web-2"}),
            ("kubectl -n kube-system get pods", {"namespace": "web"}),
            ("kubectl get pods | tail -n 5", {"namespace": "web"}),
            ("aws cloudwatch x --namespace AWS/EC2", {"namespace": "web"}),
            ("df -h /var", {"host": "web-1"}),
            ("psql -h db-1.example.com", {"host": "db-1"}),
            ("psql -h localhost", {"host": "db-1"}),
            ('kubectl -n "$NS" logs x', {"namespace": "web"}),
            ("aws rds x --region eu-west-1", {"zone": "eu-west-1a"}),
            ("NS=$(kubectl get ns)", {"namespace": "web"}),
        ],
    )
    def test_others_are_not(self, command: str, labels: dict[str, str]) -> None:
        assert list(differing(ShownCommand(command), labels)) == []

    def test_a_placeholder_is_none(self) -> None:
        command = ShownCommand("kubectl -n YOUR_NS get pods", placeholders=("YOUR_NS",))
        assert list(differing(command, {"namespace": "web"})) == []


class TestPlaced:
    def test_a_command_is_filled_in_where_it_stands_with_its_indentation(self) -> None:
        command = filled_of("kubectl -n <ns> \\\n  get pods", "<ns>", namespace="web")
        found = placed("1. Look.\n\n   ```sh\n   kubectl -n <ns> \\\n     get pods\n   ```", [command])
        assert found.lines[3:5] == ["   kubectl -n web \\", "     get pods"]
        assert (found.before, found.missing) == ({2: [0]}, [])

    def test_a_wrapped_code_span_is_one_line_then(self) -> None:
        command = filled_of("kubectl -n <ns> get pods", "<ns>", namespace="web")
        found = placed("Before.\n\nRun `kubectl -n <ns>\nget pods` now.", [command])
        assert found.lines == ["Before.", "", "Run `kubectl -n web get pods` now."]
        assert found.before == {2: [0]}

    def test_a_command_that_begins_another_is_not_taken_for_it(self) -> None:
        short, long = (
            filled_of("kubectl get <kind>", "<kind>", kind="pods"),
            filled_of("kubectl get <kind> -A", "<kind>"),
        )
        found = placed("```\nkubectl get <kind> -A\n```\n\n`kubectl get <kind>`", [short, long])
        assert found.lines == ["```", "kubectl get <kind> -A", "```", "", "`kubectl get pods`"]
        assert found.before == {4: [0], 0: [1]}

    def test_a_command_that_the_text_does_not_have_is_missing(self) -> None:
        assert placed("nothing", [filled_of("ls")]).missing == [0]

    @given(
        text=st.text("ab `\n>-1.|#", max_size=60),
        commands=st.lists(st.text("ab \n", min_size=1, max_size=8), max_size=3),
    )
    def test_without_labels_a_text_stays_as_it_is(self, text: str, commands: list[str]) -> None:
        found = placed(text, [FilledCommand(text=one, step="1") for one in commands])
        assert "\n".join(found.lines) == text
        assert sorted([*found.missing, *(at for places in found.before.values() for at in places)]) == list(
            range(len(commands))
        )


class TestWithCommands:
    def test_effect_of_a_step_is_shown_before_it_and_its_commands_once(self) -> None:
        text = "## Fix\n\n1. Restart.\n\n   ```sh\n   kubectl -n <ns> rollout restart deploy/x\n   ```"
        step = a_step(
            ShownCommand("kubectl -n <ns> rollout restart deploy/x", placeholders=("<ns>",)), warnings=("Mind.",)
        )
        commands = list(filled_commands(step, {"namespace": "web"}, ()))
        assert with_commands(text, {1: "1. Restart."}, [step], 3, commands).split("\n") == [
            "## Fix",
            "",
            "[Step 1 of 3: unknown]",
            "[Caution: Mind.]",
            "1. Restart.",
            "",
            "   [Command: unknown; as written: kubectl -n <ns> rollout restart deploy/x]",
            "   ```sh",
            "   kubectl -n web rollout restart deploy/x",
            "   ```",
        ]

    def test_our_warnings_stay_below_the_head_of_their_step(self) -> None:
        text = "1. One.\n[Warning: tried]\n2. Two."
        steps = [a_step(), a_step(number=2, name="2")]
        assert with_commands(text, {1: "1. One.", 2: "2. Two."}, steps, 2, []).split("\n") == [
            "[Step 1 of 2]",
            "1. One.",
            "[Step 2 of 2]",
            "[Warning: tried]",
            "2. Two.",
        ]

    def test_without_steps_the_text_stays(self) -> None:
        assert with_commands("text", {}, [], 0, []) == "text"


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


def one(number: int, status: str = "firing", **labels: str) -> dict[str, Any]:
    own = {"alertname": "BrokerDown", "namespace": "orders", "pod": f"kafka-{number}"}
    return {"status": status, "labels": {**own, **labels}}


def notified(*alerts: dict[str, Any], labels: str = "", **others: Any) -> Alert:
    return read_alert(json.dumps({"version": "4", **others, "alerts": alerts}), labels)


def test_labels_that_all_have_count_and_others_are_noted() -> None:
    found = notified(one(1), one(2))
    assert found.labels == {"alertname": "BrokerDown", "namespace": "orders", "workload": "kafka"}
    assert found.notes == ("2 alerts are firing; they differ in pod (kafka-1, kafka-2), which is not filled in",)


def test_a_label_that_only_some_have_differs() -> None:
    found = notified(one(1), one(1, zone="a"))
    assert "zone" not in found.labels
    assert found.notes == ("2 alerts are firing; they differ in zone (none, a), which is not filled in",)


def test_several_labels_are_named_with_a_few_of_their_values() -> None:
    (note,) = notified(*(one(number, broker=f"b{number}") for number in range(7))).notes
    assert note == (
        "7 alerts are firing; they differ in pod (kafka-0, kafka-1, kafka-2, kafka-3, kafka-4 and 2 more), "
        "broker (b0, b1, b2, b3, b4 and 2 more), which are not filled in"
    )


@pytest.mark.parametrize("over", ["resolved", "inactive"])
def test_of_alerts_that_fire_and_that_are_over_the_firing_ones_count(over: str) -> None:
    found = notified(one(2, over), one(1))
    assert (found.labels["pod"], found.notes) == ("kafka-1", ())


def test_if_none_fires_all_count_with_a_note() -> None:
    found = notified(one(1, "resolved"), one(2, "resolved"))
    assert "pod" not in found.labels
    assert found.notes == (
        "all 2 alerts of this notification are resolved",
        "2 alerts are resolved; they differ in pod (kafka-1, kafka-2), which is not filled in",
    )
    assert notified(one(1, "resolved")).notes == ("the alert of this notification is resolved",)


def test_common_labels_count_unless_an_alert_has_another_value() -> None:
    found = notified(one(1), commonLabels={"team": "data", "pod": "kafka-9"}, groupLabels={"cluster": "eu"})
    assert (found.labels["team"], found.labels["cluster"], found.labels["pod"]) == ("data", "eu", "kafka-1")
    assert "pod" not in notified(one(1), one(2), commonLabels={"pod": "kafka-1"}).labels


def test_other_alerts_are_named_and_their_labels_left_out() -> None:
    found = notified(one(1), one(2, alertname="DiskFull"), one(3, alertname="Lag"), one(4, "resolved", alertname="Old"))
    assert (found.name, found.labels["pod"]) == ("BrokerDown", "kafka-1")
    assert found.notes == ("also firing: DiskFull, Lag: ask for each",)


def test_given_labels_choose_among_the_alerts() -> None:
    alerts = (one(1, broker="b1"), one(2, broker="b2"), one(3, "resolved", broker="b3"))
    found = notified(*alerts, labels="pod=kafka-2")
    assert (found.labels["broker"], found.notes) == ("b2", ())
    found = notified(*alerts, labels="pod=kafka-3")
    assert found.labels["broker"] == "b3"
    assert found.notes == ("the alert with these labels is resolved; others of this notification are firing",)


def test_given_labels_that_no_alert_has_are_not_reported_as_left_out() -> None:
    found = notified(one(1), one(2), labels="pod=kafka-8")
    assert (found.labels["pod"], found.notes) == ("kafka-8", ())


def test_a_list_of_alerts_is_read_as_a_notification() -> None:
    states = [{**one(1), "status": {"state": "active"}}, {**one(2), "status": {"state": "active"}}]
    found = read_alert(json.dumps(states))
    assert (found.name, "pod" in found.labels, len(found.notes)) == ("BrokerDown", False, 1)
    assert read_alert(json.dumps(states[:1])).labels["pod"] == "kafka-1"


def test_grafanas_form_is_read_in_the_same_way() -> None:
    found = notified(one(1), one(2), title="[FIRING:2] BrokerDown (orders)", state="alerting", orgId=1)
    assert (found.name, "pod" in found.labels, len(found.notes)) == ("BrokerDown", False, 1)


def test_another_runbook_of_an_alert_is_noted() -> None:
    first, second = ({**one(1), "annotations": {"runbook_url": f"https://wiki/{name}"}} for name in "ab")
    found = notified(first, second)
    assert found.runbook == "https://wiki/a"
    assert found.notes == ("other alerts of this notification name another runbook: https://wiki/b",)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        " [{}] ",
        '""',
        "''",
        '{"alerts": []}',
        '{"status": "firing", "alerts": [{}]}',
        '{"labels": {"a": ""}}',
    ],
)
def test_an_alert_without_content_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="the alert is empty"):
        read_alert(text)


@pytest.mark.parametrize("text", ["x", '{"title": "x"}', '{"alerts": [], "commonLabels": {"alertname": "x"}}'])
def test_an_alert_with_a_name_alone_is_none_without_content(text: str) -> None:
    assert read_alert(text).name == "x"


def test_a_given_name_makes_up_for_an_alert_without_content() -> None:
    assert read_alert("{}", "alertname=X, pod=a").name == "X"


def test_deeply_nested_notification_is_read_as_plain_text() -> None:
    text = "[" * 500 + "]" * 500
    assert read_alert(text).name.startswith("[[[")

"""`opx do` and `opx alerts`: procedures step by step, and alerts bound to runbooks by their rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opx.domain.handover import read_call
from opx.domain.record import replace
from opx.edges.calling import LocalClient
from opx.edges.cli import do
from opx.edges.cli.output import Screen
from opx.operations.procedures import _SEARCH, Procedure
from opx.operations.reading import DocumentPart
from tests.support.cli_support import Opx
from tests.support.runbook_support import ALERT, opx_with_runbook


@pytest.fixture(scope="module")
def opx(tmp_path_factory: pytest.TempPathFactory) -> Opx:
    return opx_with_runbook(tmp_path_factory.mktemp("do"))


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(do, "_is_terminal", lambda: True)


# -- what isn't what it should be


def test_labels_that_are_neither_json_nor_pairs_are_refused(opx: Opx) -> None:
    for labels in ('{"namespace": ', "{x", "[1", "namespace"):
        result = opx("do", "GroupIsSlow", "--labels", labels)
        assert result.exit_code == 2
        assert "labels are a JSON object such as" in result.stderr


@pytest.mark.parametrize("labels", ['{"namespace": "prod"}', "namespace=prod", "{namespace=prod}"])
def test_labels_in_either_form_are_read(opx: Opx, labels: str) -> None:
    assert "kubectl -n prod exec" in opx("do", "GroupIsSlow", "--labels", labels).stdout


def test_a_truncated_json_alert_is_reported(opx: Opx) -> None:
    shown = opx("do", "-", stdin='{"labels": {"alertname": "GroupIsSlow", ').stdout
    assert "begins like JSON and isn't valid JSON (line 1, column 40: " in shown


def test_malformed_json_is_reported_with_its_position(opx: Opx) -> None:
    for stdin, at in (("{bad json", "line 1, column 2"), ('[{"alerts": [\n  {x}]}]', "line 2, column 4")):
        shown = opx("do", "-", stdin=stdin).stdout
        assert f"Note: the alert begins like JSON and isn't valid JSON ({at}: " in shown


@pytest.mark.parametrize(
    "alert", ['{namespace="prod"}', "{service!='x'}", "[FIRING:1] GroupIsSlow", "{{ $labels.pod }} is slow"]
)
def test_labels_and_templates_are_no_json(opx: Opx, alert: str) -> None:
    assert "JSON" not in opx("do", "-", stdin=alert).stdout


# -- everything at once


def test_a_rule_alone_leads_from_the_alert_to_its_runbook(opx: Opx) -> None:
    shown = opx("do", *ALERT).stdout
    assert "Consumer falls behind" in shown
    assert "the runbook that the alert's rule names (confidence 1.00)" in shown


def test_a_command_is_shown_once_with_labels_and_how_it_was_written_in_a_line_above(opx: Opx) -> None:
    shown = opx("do", *ALERT).stdout
    assert shown.count("kubectl -n prod exec  web-1 -- kafka-consumer-groups.sh --describe") == 1
    assert shown.count("kubectl -n <namespace> exec <pod> -- kafka-consumer-groups.sh --describe") == 1
    assert (
        "     as written: kubectl -n <namespace> exec <pod> -- kafka-consumer-groups.sh --describe\n     ```bash\n"
        in shown
    )


def test_a_step_is_shown_once(opx: Opx) -> None:
    shown = opx("do", *ALERT).stdout
    assert [
        shown.count(text) for text in ("Look at the group.", "You should see a lag of 0.", "Delete its volume.")
    ] == [1] * 3


def test_on_a_terminal_a_command_is_rendered_below_its_effect(opx: Opx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Screen, "current", classmethod(lambda cls: cls(100, height=40)))
    shown = opx("do", *ALERT, "--print", "--step", "3").stdout
    assert shown.endswith(
        "\n  3. Delete its volume.\n\n"
        "     destructive: loses data, state, history or work in flight, reaches service\n"
        "     as written: kubectl -n <namespace> delete pvc data\n\n"
        "     kubectl -n prod delete pvc data\n"
    )


def test_a_command_without_filled_labels_has_no_original_wording(opx: Opx) -> None:
    shown = opx("do", "GroupIsSlow").stdout
    assert "as written" not in shown
    assert shown.count("kubectl -n <namespace> get pods") == 1


def test_a_literal_that_the_alert_contradicts_is_pointed_out_and_left(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    opx.write(
        "runbooks/web.md", "# Web crashes\n\n## Steps\n\n1. Look.\n\n   ```sh\n   kubectl -n prod logs web-1\n   ```\n"
    )
    assert opx("ingest", tmp_path / "docs").exit_code == 0
    shown = opx("do", "web.md", "--label", "namespace=staging").stdout
    assert (
        "! the example has -n prod; the alert says namespace=staging\n     ```sh\n     kubectl -n prod logs web-1\n"
        in shown
    )
    assert "the example has" not in opx("do", "web.md", "--label", "namespace=prod").stdout


@pytest.mark.parametrize("name", ["kafka-lag.md", "docs/runbooks/kafka-lag.md", "Consumer falls behind", "ID"])
def test_the_name_of_a_document_selects_its_procedure(opx: Opx, name: str) -> None:
    listed = json.loads(opx("list", "--json").stdout)
    ids = {one["title"]: one["documentId"] for one in listed}
    shown = opx("do", ids["Consumer falls behind"] if name == "ID" else name, "--label", "namespace=prod").stdout
    assert "the document of this name (confidence 1.00)" in shown
    assert "kubectl -n prod get pods" in shown


def test_a_document_without_steps_is_shown_by_its_name(opx: Opx) -> None:
    found = opx("do", "tea.md")
    shown = found.stdout
    assert found.stderr == ""
    assert "The document has no steps." in shown
    assert "Tea needs hot water." in shown


AGAIN = """\
# Lag again

## Diagnose

1. Look.
2. Think.

## Mitigate

1. Stop it.
2. Start it.
3. Wait.
4. Leave.

If it still lags, go to step 2.
"""


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Opx:
    opx = Opx(tmp_path_factory.mktemp("again"))
    opx.write("runbooks/again.md", AGAIN)
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    return opx


class TestNumbersOfTwoSteps:
    def test_the_first_is_shown_and_the_other_named(self, again: Opx) -> None:
        found = again("do", "again.md", "--step", "1")
        assert found.stderr == (
            "opx: 'step 1' may mean 2 steps: this is step #1 (Diagnose: Look.); there is also step #3 (Mitigate: Stop it.)\n"
        )
        assert "Step #1 of 7" in found.stdout

    def test_with_a_hash_one_is_meant(self, again: Opx) -> None:
        found = again("do", "again.md", "--step", "#3")
        assert (found.stderr, "Step #1" in found.stdout) == ("", False)
        assert "1. Stop it." in found.stdout

    def test_an_authors_number_is_not_the_one_with_a_hash(self, again: Opx) -> None:
        found = again("do", "again.md", "--step", "4")
        assert "this is step 4 (Mitigate: Leave.); there is also step #4 (Mitigate: Start it.)" in found.stderr
        assert "4. Leave." in found.stdout
        assert "3. Wait." not in found.stdout

    @pytest.mark.usefixtures("at_terminal")
    def test_keys_take_both(self, again: Opx) -> None:
        found = again("do", "again.md", stdin="#4q")
        assert "2. Start it." in found.stdout
        found = again("do", "again.md", stdin="4q")
        assert "4. Leave." in found.stdout
        assert "there is also step #4" in found.stderr

    @pytest.mark.usefixtures("at_terminal")
    def test_the_list_has_sections(self, again: Opx) -> None:
        assert "Mitigate\n  #3  Stop it.\n" in again("do", "again.md", stdin="lq").stdout


def test_head_has_source_and_owner_and_preconditions_stand_before_the_first_step(opx: Opx) -> None:
    head = opx("do", *ALERT).stdout.partition("Step 1")[0]
    assert head.endswith("  ## Before you begin\n\n  You need the role `kafka-admin`.\n\n  ## Steps\n\n")
    assert "owner streams-team" in head
    assert "version 1" in head
    assert "3 steps:" in head


@pytest.mark.parametrize(("confidence", "named"), [(0.26, True), (0.94, False)])
def test_other_procedures_are_listed_only_if_confidence_is_low(confidence: float, named: bool) -> None:
    part = DocumentPart(
        document_id="d1", title="Pods pending", source="pending.md", category="runbooks/procedures", tier="internal",
        untrusted=False, version=1, updated="2026-01-01", part="steps",
    )  # fmt: skip
    other = read_call("d2", "Pods restarting")
    found = Procedure(alert="pods", found_by="found by a search", confidence=confidence, document=part, others=(other,))
    lines = list(do.head_lines(do.StepWalk(LocalClient.__new__(LocalClient), found, part)))
    assert ("  Pods restarting  [d2]" in lines) is named


SECTIONS = """\
# Failover

**Approval:** the duty manager.

## Symptoms

The Region is down.

## Fail over

1. Switch the traffic.
2. See that it is up.

## Return

Not before: two hours stable.

> **Danger:** this loses what was written since.

1. Switch the traffic back.
2. Clean up.

## Verify

Orders arrive for 15 minutes.

## Related

- [other](other.md)
"""


def test_text_between_steps_is_shown_below_its_heading(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    assert opx("ingest", opx.write("runbooks/failover.md", SECTIONS)).exit_code == 0
    lines = [line.strip() for line in opx("do", "failover.md").stdout.splitlines() if line.strip()]
    assert lines[lines.index("**Approval:** the duty manager.") + 1] == "## Fail over"
    assert lines.index("## Return") < lines.index("Not before: two hours stable.") < lines.index("Step #3 of 4")
    assert lines[lines.index("2. Clean up.") + 1 :] == ["## Verify", "Orders arrive for 15 minutes."]
    assert "The Region is down." not in lines


def test_a_single_step_has_its_warnings_above_it(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    opx("ingest", opx.write("runbooks/failover.md", SECTIONS))
    shown = opx("show", "failover.md", "--step", "#4").stdout
    assert "> **Danger:** this loses what was written since." in shown
    assert "Switch the traffic back." not in shown


def test_warnings_stand_before_the_text_of_their_step(opx: Opx) -> None:
    second = opx("do", *ALERT).stdout.partition("Step 2")[2]
    assert second.index("! ") < second.index("2. Restart the consumer, and see")
    assert second.index("! ") < second.index("rollout restart")


def test_the_effect_of_each_command_is_described(opx: Opx) -> None:
    shown = opx("do", *ALERT).stdout
    assert "read: changes nothing" in shown
    assert "reversible: another command undoes it" in shown
    assert "destructive: loses data, state, history or work in flight" in shown
    assert shown.index("This step destroys something") < shown.index("delete pvc data")


def test_a_reversible_command_without_a_known_undo_has_a_note(opx: Opx) -> None:
    first, second, third = opx("do", *ALERT).stdout.split("Step ")[1:4]
    assert "undo: none can be derived from the command; note the state before" in second
    assert "undo:" not in first + third


def test_step_begins_there(opx: Opx) -> None:
    shown = opx("do", *ALERT, "--step", "3").stdout
    assert "Step 2" not in shown
    assert "Step 3 of 3" in shown


def test_unknown_step_is_refused_with_those_there_are(opx: Opx) -> None:
    found = opx("do", *ALERT, "--step", "9")
    assert (found.exit_code, found.stderr) == (2, "opx: there is no step '9'; the 3 steps are: 1, 2, 3\n")


def test_labels_of_both_options_fill_placeholders(opx: Opx) -> None:
    given = ("--labels", '{"namespace": "stage", "pod": "p-1"}', "--label", "namespace=prod")
    assert "kubectl -n prod exec  p-1 --" in opx("do", "GroupIsSlow", *given).stdout


def test_alert_comes_from_standard_input_as_it_was_sent(opx: Opx) -> None:
    sent = {"alerts": [{"labels": {"alertname": "GroupIsSlow", "namespace": "prod"}}]}
    assert "kubectl -n prod get pods" in opx("do", "-", stdin=json.dumps(sent)).stdout


def test_without_labels_placeholders_are_left(opx: Opx) -> None:
    assert "still to be filled in: <namespace>, <pod>" in opx("do", "GroupIsSlow").stdout


def test_an_alert_of_100_000_characters_is_read(opx: Opx) -> None:
    sent = {"labels": {"alertname": "GroupIsSlow", "namespace": "prod"}, "padding": "x" * 99_000}
    assert "kubectl -n prod get pods" in opx("do", "-", stdin=json.dumps(sent)).stdout
    longer = opx("do", "-", stdin="GroupIsSlow\n" + "x " * 60_000)
    assert longer.exit_code == 0
    assert "only the first 100,000 are used" in longer.stderr


@pytest.mark.parametrize("alert", ["", "  ", "\0"])
def test_an_empty_alert_is_refused(opx: Opx, alert: str) -> None:
    found = opx("do", "-", stdin=alert)
    assert (found.exit_code, found.stderr) == (2, "opx: the alert is empty: opx do AlertName\n")


def test_a_label_without_a_value_is_refused(opx: Opx) -> None:
    assert "takes NAME=VALUE" in opx("do", "GroupIsSlow", "--label", "namespace").stderr


def test_no_procedure_is_reported_with_exit_code_1(opx: Opx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opx.operations.procedures._SEARCH", replace(_SEARCH, tags=("of no document",)))
    found = opx("do", "volcanic ash over the airfield")
    assert found.exit_code == 1
    assert found.stdout.startswith("No procedure was found for volcanic ash over the airfield.\n")


@pytest.mark.parametrize("alert", ["NoSuchAlertAnywhere", "volcanic ash over the airfield"])
def test_an_alert_without_a_procedure_counts_once_among_the_gaps(tmp_path: Path, alert: str) -> None:
    opx = opx_with_runbook(tmp_path)
    for count in (1, 2):
        assert opx("do", alert).exit_code == 1
        assert [one["count"] for one in json.loads(opx("gaps", "--json").stdout)] == [count]


def test_an_unsure_result_names_the_nearest_and_exits_with_1(opx: Opx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opx.operations.procedures._SEARCH", replace(_SEARCH, min_confidence=1))
    found = opx("do", "hot water for pods")
    assert found.exit_code == 1
    assert found.stdout.startswith("No procedure was found for hot water for pods.\nNearest:\n")
    assert "Tea, unlikely (0." in found.stdout


def test_control_characters_of_labels_stay_away_from_the_terminal(opx: Opx) -> None:
    shown = opx("do", "GroupIsSlow", "--labels", json.dumps({"pod": "p\x1b[2J"})).stdout
    assert "\x1b" not in shown
    assert "exec  'p[2J' --" in shown


# -- alerts


def test_import_reports_the_binding_of_each_alert(opx: Opx) -> None:
    assert opx("alerts", "import", opx.folder / "rules.yaml").stdout.splitlines() == [
        "GroupIsSlow  bound by url to Consumer falls behind (documents/docs/runbooks/kafka-lag.md)",
        "Elsewhere  no runbook: its runbook_url matches no document here (https://wiki.example.com/ops/nothing)",
        "Bare  no runbook: its rule names none, and no page matches by title or text",
        "3 alerts: 0 bound, 1 already bound, 2 without a runbook",
    ]


def test_import_of_nothing_readable_exits_with_1_and_names_file_and_line(opx: Opx, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("groups:\n  - name: x\n   rules: [\n")
    found = opx("alerts", "import", bad, tmp_path / "gone.yaml")
    assert found.exit_code == 1
    assert f"{bad}:3: it is no YAML" in found.stderr
    good = tmp_path / "good.yaml"
    good.write_text("alerts: [{name: Fine}]\n")
    assert opx("alerts", "import", bad, good).exit_code == 0


def test_list_has_severity_and_runbook_and_with_unbound_only_the_rest(opx: Opx) -> None:
    listed = {alert["name"]: alert for alert in json.loads(opx("alerts", "list", "--json").stdout)}
    assert listed["GroupIsSlow"]["severity"] == "critical"
    assert listed["GroupIsSlow"]["title"] == "Consumer falls behind"
    unbound = opx("alerts", "list", "--unbound").stdout
    assert "GroupIsSlow" not in unbound
    assert "Elsewhere" in unbound


def test_an_alert_whose_runbook_is_elsewhere_counts_as_one_without(opx: Opx) -> None:
    found = json.loads(opx("graph", "coverage", "--json").stdout)
    unhandled = {one["key"] for one in found["alertsWithoutRunbook"]}
    assert "alert:elsewhere" in unhandled
    assert "alert:groupisslow" not in unhandled
    assert "runbook:nothing" not in str(found)


def test_rules_are_no_search_results(opx: Opx) -> None:
    found = json.loads(opx("search", "GroupIsSlow", "--min-confidence", "0", "--json").stdout)
    assert not any(one["category"] == "operations/alert_rules" for one in found["results"])


def test_withdrawn_rules_take_their_alerts_with_them(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    rules = opx.write("alert-rules/one.yaml", "alerts: [{name: Gone}]\n")
    opx("alerts", "import", rules)
    assert [one["name"] for one in json.loads(opx("alerts", "list", "--json").stdout)] == ["Gone"]
    (document,) = json.loads(opx("list", "--json").stdout)
    assert opx("delete", document["documentId"], "--yes").exit_code == 0
    assert json.loads(opx("alerts", "list", "--json").stdout) == []


def test_pages_of_alerts_are_complete(opx: Opx) -> None:
    names: list[str] = []
    after = ""
    while True:
        page = json.loads(opx("call", "list_alerts", "--limit", "1", *(["--after", after] if after else [])).stdout)
        names.extend(one["name"] for one in page["alerts"])
        after = page.get("next", "")
        if not after:
            break
    assert {"GroupIsSlow", "Elsewhere", "Bare"} <= set(names)
    assert len(names) == len(set(names))

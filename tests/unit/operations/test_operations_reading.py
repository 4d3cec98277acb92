"""Documents that are handed over to be acted on, by every interface: procedures for alerts, parts by name, and the steps of
outcomes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import anyio
import jsonschema
import pytest
from mcp.client.client import Client

from lambdas.retrieve_knowledge.handler import make_handler
from opx.domain.outcomes import OutcomeResult
from opx.domain.queries import QueryConfig
from opx.domain.requests import RequestError
from opx.domain.scopes import Identity
from opx.edges.calling import plain
from opx.edges.schemas import functions, input_schema
from opx.edges.tools import call_tool
from opx.errors import DocumentNotFoundError, InvalidInputError
from opx.operations import load
from opx.operations.context import Caller, Context
from opx.operations.outcomes import RecordOutcome, record_outcome
from opx.operations.system import System
from opx_serve.mcp import make_server, tools_for
from tests.support.agent_calls import a_system, id_of, reply_schema
from tests.support.api_requests import call as http_call

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

WEB = "documents/runbooks/web-crash.md"
PAGE = """\
# Web crashes

## Diagnose

1. Read the logs.

   ```bash
   kubectl -n <namespace> logs <pod>
   ```

## Mitigate

1. Restart it.

   **Warning:** requests in flight are lost.

   ```bash
   kubectl -n <namespace> rollout restart deployment/web
   kubectl -n old get pods
   ```

2. See that it is up. If it isn't, go to step 1.
"""
OUTSIDE = "documents/vendor/linux/quokka.md"
FOREIGN = "# Quokka daemon stops\n\n1. Restart it.\n\n   ```bash\n   systemctl restart quokka@<instance>\n   ```\n"
TEA = "documents/runbooks/tea.md"
ALERT = {
    "labels": {"alertname": "WebCrash", "namespace": "prod", "pod": "web-1"},
    "annotations": {"summary": "web crashes, requests are lost"},
}


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    corpus = {WEB: PAGE, OUTSIDE: FOREIGN, TEA: "# Tea\n\nTea needs hot water.\n"}
    with a_system(tmp_path_factory.mktemp("home"), corpus) as system:
        yield system


def a_context(services: System) -> Context:
    return Context(services, Caller(Identity()))


def tool(services: System, name: str, **arguments: Any) -> Any:
    return call_tool(load().tools()[name], a_context(services), arguments.items())


def over_mcp(services: System, name: str, **arguments: Any) -> Any:
    async def run() -> Any:
        async with Client(make_server(tools_for(a_context(services)), a_context(services))) as client:
            return await client.call_tool(name, arguments)

    return anyio.run(run)


class TestProcedure:
    def test_each_command_stands_once_below_what_it_does(self, services: System) -> None:
        text = tool(services, "find_procedure", alert="web-crash.md", labels="namespace=prod, pod=web-1").text()
        lines = [line.strip() for line in text.split("\n")]
        assert text.count("kubectl -n prod logs web-1") == 1
        restarts = lines.index("[Step #2 of 3: reversible]")
        assert lines[restarts + 1].startswith("[Caution: ")
        assert "requests in flight are lost" in lines[restarts + 1]
        assert lines[restarts + 2] == "1. Restart it."
        first, second = lines[restarts:].index("```bash") + restarts - 2, "kubectl -n old get pods"
        assert lines[first].startswith("[Command 1: reversible")
        assert lines[first].endswith("as written: kubectl -n <namespace> rollout restart deployment/web]")
        assert lines[first + 1] == "[Command 2: read; note: the example has -n old; the alert says namespace=prod]"
        assert lines[first + 3 : first + 5] == ["kubectl -n prod rollout restart deployment/web", second]

    def test_commands_stand_once_in_the_json(self, services: System) -> None:
        reply = plain(tool(services, "find_procedure", alert="web-crash.md", labels="namespace=prod"))
        assert [one["text"] for one in reply["commands"]] == [
            "kubectl -n prod logs <pod>",
            "kubectl -n prod rollout restart deployment/web",
            "kubectl -n old get pods",
        ]
        assert not any("commands" in step for step in reply["document"]["steps"])
        assert reply["commands"][0]["asWritten"] == "kubectl -n <namespace> logs <pod>"
        assert reply["commands"][2]["differs"] == ["-n old; the alert says namespace=prod"]
        jsonschema.validate(
            plain(tool(services, "find_procedure", alert="tea")), reply_schema(load().tools()["find_procedure"])
        )

    def test_external_procedure_is_quoted_unchanged_and_followed_by_its_commands(self, services: System) -> None:
        text = tool(services, "find_procedure", alert="Quokka daemon stops", labels="instance=q1").text()
        quoted, _, behind = text.partition("ends]")
        assert "> 1. Restart it.\n> \n>    ```bash\n>    systemctl restart quokka@<instance>" in quoted
        assert "[Step" not in text
        assert "step 1 [reversible]: systemctl restart quokka@q1" in behind

    def test_a_document_without_steps_is_given_as_it_is(self, services: System) -> None:
        text = tool(services, "find_procedure", alert="tea.md").text()
        assert "the document of this name" in text
        assert "\n\nTea needs hot water.\n\n[Document ID: " in text

    def test_a_target_is_called_as_its_step_is(self, services: System) -> None:
        steps = tool(services, "read_document", document=id_of(services, WEB), part="steps").record().steps
        assert [(step.name, step.goes_to) for step in steps] == [("#1", ""), ("#2", ""), ("2", "#2")]


class TestObjects:
    def test_alert_and_labels_are_taken_as_objects_over_mcp(self, services: System) -> None:
        found = over_mcp(services, "find_procedure", alert=ALERT, labels={"pod": "web-2"})
        assert not found.is_error, found.content
        assert "\nkubectl -n prod logs web-2\n" in re.sub("\n +", "\n", found.structured_content["answer"])

    def test_and_over_http(self, services: System) -> None:
        body = {"alert": ALERT, "labels": {"pod": "web-2"}}
        status, found = http_call(make_handler(lambda: services), "find_procedure", body=body)
        assert (status, found["labels"]["pod"]) == (200, "web-2")

    def test_and_as_text_they_mean_the_same(self, services: System) -> None:
        objects, texts = (
            tool(services, "find_procedure", alert=alert, labels=labels).record()
            for alert, labels in ((ALERT, {"pod": "web-2"}), (json.dumps(ALERT), '{"pod": "web-2"}'))
        )
        assert (objects.alert, objects.labels, objects.commands) == (texts.alert, texts.labels, texts.commands)

    def test_labels_that_several_alerts_differ_in_are_noted_and_not_filled_in(self, services: System) -> None:
        alerts = [{**ALERT, "labels": {"alertname": "WebCrash", "namespace": name}} for name in ("prod", "test")]
        text = tool(services, "find_procedure", alert=json.dumps({"alerts": alerts})).text()
        assert "2 alerts are firing; they differ in namespace (prod, test), which is not filled in" in text
        assert "kubectl -n <namespace> rollout restart" in text

    @pytest.mark.parametrize("alert", ["{}", {}, "[]", '{"alerts": []}', '""'])
    def test_an_alert_without_content_is_refused(self, services: System, alert: Any) -> None:
        with pytest.raises(InvalidInputError, match="the alert is empty"):
            tool(services, "find_procedure", alert=alert)

    def test_a_blank_alert_is_refused_over_http(self, services: System) -> None:
        status, found = http_call(make_handler(lambda: services), "find_procedure", body={"alert": " "})
        assert (status, found["error"]["message"]) == (400, "the alert is blank")

    def test_mcp_declares_both_and_action_groups_texts_alone(self) -> None:
        operation = load().tools()["find_procedure"]
        declared = input_schema(operation, objects=True)["properties"]
        assert [declared[name]["type"] for name in ("alert", "labels")] == [["string", "object"]] * 2
        assert [declared[name]["maxLength"] for name in ("alert", "labels")] == [100_000, 20_000]
        (described,) = functions([operation])["functions"]
        assert [described["parameters"][name]["type"] for name in ("alert", "labels")] == ["string", "string"]
        assert input_schema(operation)["properties"]["alert"]["type"] == "string"

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"alert": ["x"]}, "alert must be a string or an object"),
            ({"alert": " "}, "alert must have at least 1 characters"),
            ({"alert": "x", "labels": "{x"}, "labels are a JSON object such as"),
            ({"alert": "x", "labels": 5}, "labels must be a string or an object"),
            ({"alert": {"text": "x" * 100_001}}, "alert may have at most 100,000 characters as JSON"),
        ],
    )
    def test_others_are_refused(self, services: System, given: dict[str, Any], message: str) -> None:
        with pytest.raises((RequestError, InvalidInputError), match=message):
            tool(services, "find_procedure", **given)


class TestNames:
    def test_a_number_of_two_steps_is_noted_with_the_other(self, services: System) -> None:
        found = tool(services, "read_document", document="Web crashes", part="step 1").record()
        assert found.part == "step #1"
        (note,) = found.notes
        assert note.startswith("'step 1' may mean 2 steps: this is step #1 (Diagnose: Read the logs.)")
        assert note.endswith("there is also step #2 (Mitigate: Restart it.)")

    def test_a_hash_or_an_id_means_one(self, services: System) -> None:
        (second,) = tool(services, "read_document", document="Web crashes", part="step #2").record().steps
        for name in (f"step {second.step_id}", second.step_id):
            found = tool(services, "read_document", document="Web crashes", part=name).record()
            assert (found.part, found.notes) == ("step #2", ())

    def test_an_authors_number_comes_before_the_one_with_a_hash(self, services: System) -> None:
        found = tool(services, "read_document", document="Web crashes", part="2").record()
        assert found.part == "step 2"
        assert "there is also step #2" in found.notes[0]

    def test_an_unknown_part_names_all_steps(self, services: System) -> None:
        with pytest.raises(InvalidInputError, match="steps, step #1, step #2, step 2, Diagnose, Mitigate"):
            tool(services, "read_document", document="Web crashes", part="step 9")

    @pytest.mark.parametrize(
        "link",
        [
            "web-crash.md",
            "./web-crash.md",
            "../runbooks/web-crash.md#mitigate",
            "web-crash.md#",
            "runbooks/web-crash.md",
        ],
    )
    def test_a_link_of_another_document_is_a_name(self, services: System, link: str) -> None:
        assert "Source: Web crashes" in tool(services, "read_document", document=link, part="outline").text()

    def test_a_link_with_a_section_means_that_section(self, services: System) -> None:
        found = tool(services, "read_document", document="../runbooks/web-crash.md#mitigate").record()
        assert found.part == "Mitigate"
        assert "Read the logs" not in found.content
        (note,) = tool(services, "read_document", document="web-crash.md#nowhere").record().notes
        assert note == "it has no section 'nowhere': this is its beginning"

    def test_a_step_of_the_version_that_is_named_is_not_another_one_of_its_number(self, services: System) -> None:
        old = id_of(services, WEB)
        services.store.put(WEB, PAGE.replace("1. Read the logs.", "1. Wipe it.").encode())
        list(services.manager.work())
        try:
            with pytest.raises(InvalidInputError, match="'#1' was a step of version"):
                tool(services, "read_document", document=old, part="#1")
            with pytest.raises(InvalidInputError, match="read it from its beginning"):
                tool(services, "read_document", document=old, part="steps", after=1)
            found = tool(services, "read_document", document=old, part="#2").record()
        finally:
            services.store.put(WEB, PAGE.encode())
            list(services.manager.work())
        assert [step.title for step in found.steps] == ["Restart it."]

    def test_reading_on_in_a_procedure_keeps_labels_and_effects(self, services: System) -> None:
        labels = {"namespace": "prod", "pod": "web-1"}
        first = tool(services, "find_procedure", alert="web-crash.md", labels=json.dumps(labels), max_tokens=60)
        (following,) = first.record().document.next
        assert following.tool == "find_procedure"
        second = tool(services, following.tool, **following.arguments).text()
        assert "[Step #2 of 3: reversible]" in second
        assert "kubectl -n prod rollout restart deployment/web" in second

    def test_destructive_step_of_the_part_that_is_read_is_named(self, services: System) -> None:
        text = tool(services, "read_document", document="tea.md").text()
        assert "Destructive" not in text
        services.store.put(TEA, b"# Tea\n\n1. Empty the pot.\n\n   ```bash\n   rm -rf /srv/pot\n   ```\n")
        list(services.manager.work())
        try:
            text = tool(services, "read_document", document="tea.md", part="step 1").text()
        finally:
            services.store.put(TEA, b"# Tea\n\nTea needs hot water.\n")
            list(services.manager.work())
        assert "Destructive: step 1 `rm -rf /srv/pot`" in text

    def test_the_id_of_a_step_of_an_older_version_leads_to_the_one_in_its_place(self, services: System) -> None:
        (old,) = tool(services, "read_document", document="Web crashes", part="step #1").record().steps
        services.store.put(WEB, PAGE.replace("Read the logs", "Read all the logs").encode())
        list(services.manager.work())
        try:
            found = tool(services, "read_document", document="Web crashes", part=old.step_id).record()
        finally:
            services.store.put(WEB, PAGE.encode())
            list(services.manager.work())
        assert [step.title for step in found.steps] == ["Read all the logs."]
        assert found.notes[0].endswith(": the current one has step #1 in its place")

    def test_an_unknown_name_has_those_written_alike_first(self, services: System) -> None:
        with pytest.raises(DocumentNotFoundError, match=r"the nearest are:\n  [0-9a-f]{32}  Web crashes"):
            tool(services, "read_document", document="Wep crashs")


class TestStepsOfOutcomes:
    def recorded(self, services: System, step: str, key: str = WEB) -> str:
        """The step as it is recorded."""
        config = QueryConfig(min_confidence=0)
        answer = services.questions.for_reader(Identity()).search("web crashes tea water", config)
        given = RecordOutcome(
            receipt_id=answer.receipt_id,
            document_id=id_of(services, key),
            result=OutcomeResult.NO_EFFECT,
            step=step,
        )
        report = record_outcome(a_context(services), given)
        latest = services.learning.outcomes(Identity()).standing(report.document_id).latest
        return next(one.step for one in latest if one.receipt_id == answer.receipt_id)

    def test_a_number_is_recorded_as_the_title_of_the_step(self, services: System) -> None:
        assert self.recorded(services, "#2") == "Restart it."

    def test_words_and_commands_of_the_document_are_kept(self, services: System) -> None:
        for words in ("read the logs", "kubectl -n old get pods"):
            assert self.recorded(services, words) == words

    def test_an_unknown_step_is_refused_with_those_there_are(self, services: System) -> None:
        with pytest.raises(
            InvalidInputError, match=r"no step 'reboot the moon'; its steps are: #1 Read the logs.; #2 Restart"
        ):
            self.recorded(services, "reboot the moon")

    def test_a_number_of_two_steps_is_refused(self, services: System) -> None:
        with pytest.raises(InvalidInputError, match=r"'1' may mean 2 steps: #1 Read the logs.; #2 Restart it"):
            self.recorded(services, "1")

    def test_a_document_without_steps_takes_any(self, services: System) -> None:
        assert self.recorded(services, "boil the water", TEA) == "boil the water"

    def test_an_id_of_an_older_version_means_its_step(self, services: System) -> None:
        (first,) = tool(services, "read_document", document="Web crashes", part="step #1").record().steps
        services.store.put(WEB, PAGE.replace("Read the logs", "Look at the events").encode())
        list(services.manager.work())
        try:
            assert self.recorded(services, first.step_id) == "Read the logs."
        finally:
            services.store.put(WEB, PAGE.encode())
            list(services.manager.work())

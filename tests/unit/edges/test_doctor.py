"""The examination of a system by using it, and what it finds if a part is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from opx.domain.scopes import SELF_TEST_CLIENTS, Identity, Scope
from opx.edges.calling import OperationClient
from opx.edges.doctor import WAIT_SECONDS, CheckResult, Examination, Outcome
from opx.edges.examined_folder import SystemHere
from opx.errors import AccessDeniedError, EmbeddingError, IndexUnavailableError, NotApplicableError
from opx.operations.registry import Function
from opx.operations.system import System
from opx_testing.fake_time import FakeTime
from tests.support.agent_calls import a_system


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("doctor")) as system:
        yield system


class Altered(SystemHere):
    """A system with one part replaced. `deleted` are the objects that were removed."""

    def __init__(self, services: System, **parts: Callable[..., Any]) -> None:
        super().__init__(services, "a test")
        self.deleted: list[str] = []
        self._parts = parts

    def invoke(self, function: Function, event: Mapping[str, Any]) -> Any:
        alter = self._parts.get("invoke")
        return super().invoke(function, alter(function, event) if alter else event)

    def put(self, object_key: str, text: str) -> None:
        super().put(object_key, self._parts.get("text", str)(text))

    def delete(self, object_key: str) -> None:
        self.deleted.append(object_key)
        super().delete(object_key)

    def api(self) -> OperationClient:
        return self._parts["api"]()  # type: ignore[no-any-return]

    def ask_gateway(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return str(self._parts["gateway"](tool, arguments))

    def fire_alarm(self) -> str:
        return str(self._parts["alarm"]())


def findings(system: SystemHere, *without: str, token: str = "0a1b") -> dict[str, CheckResult]:
    time = FakeTime()
    examination = Examination(system, token, clock=time.clock, sleep=time.sleep)
    return {finding.check: finding for finding in examination.run(frozenset(without))}


def failed(found: Mapping[str, CheckResult]) -> set[str]:
    return {name for name, finding in found.items() if finding.outcome is Outcome.FAILED}


def stored(services: System) -> list[str]:
    return [info.key for info in services.store.list("") if "selftest" in info.key and "/documents/" in f"/{info.key}"]


def gaps_of(services: System) -> set[str]:
    return set(services.records.gaps.scopes())


def test_a_system_that_works_passes_and_keeps_nothing(services: System) -> None:
    found = findings(SystemHere(services, "a folder"))
    assert failed(found) == set()
    passed = {name for name, finding in found.items() if finding.outcome is Outcome.OK}
    assert passed == {"index", "embedding", "ingestion", "words", "meaning", "action group", "deletion"}
    assert {found[name].outcome for name in ("gateway", "tokens", "HTTP API", "alarm")} == {Outcome.SKIPPED}
    assert stored(services) == []
    assert gaps_of(services) <= {Scope("other").key}


def test_it_can_be_repeated(services: System) -> None:
    for _ in range(2):
        assert failed(findings(SystemHere(services, "a folder"))) == set()


def test_a_question_of_a_self_test_is_no_gap(services: System) -> None:
    for client in (*SELF_TEST_CLIENTS, "other"):
        services.questions.for_reader(Identity(client)).query("How do I feed the gannet at the quay?")
    assert gaps_of(services) == {Scope("other").key}


def test_knowledge_that_reaches_another_client_is_found(services: System) -> None:
    def mixed(_: Function, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Every session is the first client's."""
        if "sessionAttributes" in event:
            return {**event, "sessionAttributes": {"opxClientId": SELF_TEST_CLIENTS[0]}}
        return event

    found = findings(Altered(services, invoke=mixed))
    assert "action group" in failed(found)
    assert "came with a document of client opx-doctor-a" in found["action group"].detail
    assert found["words"].outcome is Outcome.OK


def test_a_document_that_fails_is_reported_with_its_reason_and_the_rest_is_skipped(services: System) -> None:
    system = Altered(services, text=lambda _: "\x00")
    found = findings(system)
    assert {"ingestion"} <= failed(found)
    assert "failed:" in found["ingestion"].detail
    assert "opx failed" in found["ingestion"].remedy
    assert {found[name].outcome for name in ("words", "meaning", "action group")} == {Outcome.SKIPPED}
    assert len(system.deleted) == 3


def test_an_index_that_is_away_is_reported_and_what_was_stored_is_deleted(services: System) -> None:
    def away(function: Function, event: Mapping[str, Any]) -> Mapping[str, Any]:
        if function is Function.RETRIEVE:
            raise IndexUnavailableError("the index can't be reached")
        return event

    system = Altered(services, invoke=away)
    found = findings(system)
    assert {"index", "ingestion"} <= failed(found)
    assert found["index"].detail == "the index can't be reached"
    assert found["deletion"].outcome is Outcome.OK
    assert stored(services) == []


def test_documents_that_nobody_ingests_are_waited_for_no_longer_than_that(
    services: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemHere, "_work", lambda _: None)
    found = findings(SystemHere(services, "a folder"))
    assert "ingestion" in failed(found)
    assert "is waiting, and not ingested after 3" in found["ingestion"].detail
    assert found["ingestion"].seconds == pytest.approx(WAIT_SECONDS, abs=10)
    monkeypatch.undo()
    list(services.manager.work())


def test_an_examination_that_is_stopped_deletes_what_it_stored(services: System) -> None:
    run = Examination(SystemHere(services, "a folder"), "stopped").run()
    for finding in run:
        if finding.check == "ingestion":
            break
    assert len(stored(services)) == 3
    run.close()
    assert stored(services) == []


def test_a_bug_in_one_check_does_not_end_the_others(services: System) -> None:
    found = findings(Altered(services, alarm=lambda: 1 / 0, gateway=lambda *_: "nothing", api=lambda: None))
    assert failed(found) == {"gateway", "HTTP API", "alarm"}
    assert found["alarm"].detail == "unexpected ZeroDivisionError: division by zero"
    assert "was not found; the answer was: nothing" in found["gateway"].detail


def test_a_refused_call_has_its_cause_and_the_next_step(services: System) -> None:
    def refused(*_: Any) -> str:
        raise AccessDeniedError("the role may not call the gateway")

    found = findings(Altered(services, gateway=refused, alarm=lambda: "went off"), "alarm")["gateway"]
    assert found.detail == "the role may not call the gateway"
    assert "InvokeGateway" in found.remedy


def test_the_alarm_can_be_left_out(services: System) -> None:
    found = findings(Altered(services, alarm=lambda: 1 / 0), "alarm")
    assert (found["alarm"].outcome, found["alarm"].detail) == (Outcome.SKIPPED, "left out")


def test_without_an_http_api_documents_are_awaited_by_searching(services: System) -> None:
    def without(function: Function, event: Mapping[str, Any]) -> Mapping[str, Any]:
        if function is Function.MANAGE:
            raise NotApplicableError("there is no stack opx-knowledge-dev-api")
        return event

    found = findings(Altered(services, invoke=without))
    assert found["ingestion"].outcome is Outcome.OK
    assert "isn't seen" in found["deletion"].detail


def test_an_answer_that_lacks_a_part_fails_the_search(services: System, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = services.indexing.embedder
    embed = embedder.embed_query

    def throttled(text: str) -> Any:
        if "deletes it at its end" in text:  # a document's chunk
            return embed(text)
        raise EmbeddingError("throttled")

    monkeypatch.setattr(embedder, "embed_query", throttled)
    found = findings(SystemHere(services, "a folder"), token="unknown")
    assert "ingestion" in failed(found)
    assert "the answer is incomplete" in found["ingestion"].detail

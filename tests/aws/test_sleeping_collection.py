"""Questions to a next-generation collection that has been idle, through the deployed handlers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import boto3
import pytest
from mcp.client.client import Client

from opx.domain.scopes import Identity
from opx.errors import EmbeddingError
from opx.operations.context import Caller, Context
from opx.retrieval.citations import NOTHING_FOUND
from opx.retrieval.waking import CANARY, WAKE, ask_canary
from opx.runtime.metrics import Metric, unreported
from opx.settings import FIRST_COLLECTION
from opx.system import bootstrap
from opx_aws.ports import OpenSearchIndexes, SearchCollection
from opx_serve.mcp import make_server, tools_for
from tests.aws.cloud import INDEX
from tests.aws.nights import FUNCTION_SECONDS, Night, a_night
from tests.support.agent_calls import a_function_event, an_api_event, text_of
from tests.support.api_requests import a_request
from tests.support.builders import ports_of
from tests.support.fakes import FakeContext
from tests.support.telemetry_support import measured

DISK = "documents/runbooks/disk.md"
TITLE = "Disk full on Linux hosts"
TEXT = f"# {TITLE}\n\nFind the biggest directories with du. Delete rotated logs. Grow the volume."


@pytest.fixture
def night(aws: boto3.Session) -> Iterator[Night]:
    with a_night(aws, {DISK: TEXT}) as night:
        yield night


def test_the_first_question_after_idle_minutes_is_answered_when_the_collection_is_awake(night: Night) -> None:
    reply, seconds = night.call_asleep(a_function_event("search_runbooks", query=TITLE))
    assert text_of(reply).startswith(f"Source: {TITLE}")
    assert 19 < seconds < 27
    reply, seconds = night.call_asleep(a_request("search", query={"q": TITLE}, kbId="default"))
    assert json.loads(reply["body"])["results"][0]["source"].endswith(DISK)
    assert 19 < seconds < 27


@pytest.mark.parametrize("status", [503, 429])
def test_refusals_of_a_waking_collection_are_waited_for_likewise(night: Night, status: int) -> None:
    night.collection.status = status
    reply, seconds = night.call_asleep(a_function_event("search_runbooks", query=TITLE))
    assert text_of(reply).startswith(f"Source: {TITLE}")
    assert seconds < 27


class TestACollectionThatTakesLongerThanTheCallerWaits:
    @pytest.fixture(autouse=True)
    def _slow(self, night: Night) -> None:
        night.collection.wakes_in = 40.0

    def test_an_agent_is_reprompted_to_repeat_the_call(self, night: Night) -> None:
        reply, seconds = night.call_asleep(a_function_event("search_runbooks", query=TITLE))
        assert reply["response"]["functionResponse"]["responseState"] == "REPROMPT"
        text = text_of(reply)
        assert "nothing was searched yet: the search index is waking up" in text
        assert "Repeat the call in" in text
        assert NOTHING_FOUND not in text
        assert seconds < FUNCTION_SECONDS - 1
        assert text_of(night.call(a_function_event("search_runbooks", query=TITLE))).startswith(f"Source: {TITLE}")

    def test_an_action_group_with_a_schema_gets_503(self, night: Night) -> None:
        reply, _ = night.call_asleep(an_api_event("/search_runbooks", query=TITLE))
        assert reply["response"]["httpStatusCode"] == 503
        assert "Repeat the call in" in reply["response"]["responseBody"]["application/json"]["body"]

    def test_the_api_answers_503_with_the_time_to_come_back(self, night: Night) -> None:
        reply, seconds = night.call_asleep(a_request("search", query={"q": TITLE}, kbId="default"))
        assert reply["statusCode"] == 503
        assert 5 <= int(reply["headers"]["retry-after"]) <= 30
        assert seconds < 29
        error = json.loads(reply["body"])["error"]
        assert error["code"] == "unavailable"
        assert error["retryAfter"] == int(reply["headers"]["retry-after"])

    def test_research_gets_503_instead_of_an_empty_report(self, night: Night) -> None:
        reply, _ = night.call_asleep(a_request("research", body={"topic": TITLE}))
        assert reply["statusCode"] == 503
        assert "Repeat the call in" in json.loads(reply["body"])["error"]["message"]

    def test_the_question_is_counted_as_not_searched(self, night: Night, capsys: pytest.CaptureFixture[str]) -> None:
        night.call_asleep(a_function_event("search_runbooks", query=TITLE))
        found = {named.name: values for named, values in measured(capsys.readouterr().out).items()}
        assert found[Metric.SEARCH_UNAVAILABLE] == [1.0]
        assert found[Metric.QUERIES] == [1.0]


def test_a_document_uploaded_at_night_is_ingested_at_the_first_try(night: Night) -> None:
    night.collection.sleep_now()
    night.cloud.put("documents/runbooks/cpu.md", "# High CPU\n\nLook at top.")
    assert night.cloud.deliver() == []


def test_an_alarm_wakes_the_collection_and_the_question_after_it_waits_for_nothing(night: Night) -> None:
    night.collection.sleep_now()
    assert night.call(dict(WAKE))["seconds"] == pytest.approx(0, abs=60)
    before = night.time.clock()
    reply = night.call(a_function_event("search_runbooks", query=TITLE))
    assert text_of(reply).startswith(f"Source: {TITLE}")
    assert night.time.clock() - before < 1


def test_an_agent_cannot_send_the_event_that_wakes(night: Night) -> None:
    night.collection.sleep_now()
    reply = night.cloud.retrieve(dict(WAKE), FakeContext.of_gateway("search_runbooks"))
    assert "error" in reply
    assert night.collection.is_asleep


def test_a_question_starts_to_wake_the_collection_while_it_is_embedded(night: Night) -> None:
    """The first request that reaches the collection is the one that wakes it, not the search."""
    night.collection.sleep_now()
    night.collection.requests.clear()
    night.call(a_function_event("search_runbooks", query=TITLE))
    assert night.collection.requests[0].path.endswith("/_search")


def test_an_mcp_session_that_lists_its_tools_wakes_the_collection(night: Night) -> None:
    context = Context(night.cloud.services, Caller(Identity()))
    server = make_server(tools_for(context), context)

    async def list_tools() -> None:
        async with Client(server) as client:
            await client.list_tools()

    night.collection.sleep_now()
    anyio.run(list_tools)
    night.await_knock()
    assert not night.collection.is_asleep


def test_a_function_that_starts_wakes_the_collection(night: Night) -> None:
    given = night.cloud.services
    collections = {FIRST_COLLECTION: SearchCollection(lambda: given.index._client)}  # type: ignore[attr-defined]
    starting = bootstrap(
        given.settings,
        clock=night.time.clock,
        embedder=given.indexing.embedder,
        aws=ports_of(given).given["aws"],
        indexes=OpenSearchIndexes(collections, INDEX, timeout=5.0),
    )
    night.collection.sleep_now()
    starting.open()
    night.await_knock()
    assert not night.collection.is_asleep


class TestCanary:
    """A question every hour, at night too, when nobody else notices that nothing can be searched."""

    def _failed(self, night: Night, capsys: pytest.CaptureFixture[str]) -> list[float]:
        capsys.readouterr()
        night.call(dict(CANARY))
        (found,) = [
            values for named, values in measured(capsys.readouterr().out).items() if named.name == Metric.CANARY_FAILED
        ]
        return found

    def test_it_wakes_the_collection_and_is_content_with_any_answer(
        self, night: Night, capsys: pytest.CaptureFixture[str]
    ) -> None:
        night.collection.sleep_now()
        assert self._failed(night, capsys) == [0.0]
        assert not night.collection.is_asleep

    def test_it_fails_if_the_collection_is_not_awake_in_time(
        self, night: Night, capsys: pytest.CaptureFixture[str]
    ) -> None:
        night.collection.wakes_in = 40.0
        night.collection.sleep_now()
        assert self._failed(night, capsys) == [1.0]

    def test_it_fails_if_the_question_can_only_be_searched_by_its_words(
        self, night: Night, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def throttled(*args: Any) -> Any:
            raise EmbeddingError("throttled")

        monkeypatch.setattr(night.cloud.services.indexing.query_embedder, "embed_query", throttled)
        assert self._failed(night, capsys) == [1.0]

    def test_each_question_is_embedded_anew(self, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
        queries: list[str] = []
        embedder = night.cloud.services.indexing.query_embedder
        assert embedder is not None
        embed = embedder.embed_query

        def recorded(text: str) -> Any:
            queries.append(text)
            return embed(text)

        monkeypatch.setattr(embedder, "embed_query", recorded)
        for hour in range(2):
            ask_canary(night.cloud.services.questions, unreported, lambda hour=hour: 3600.0 * hour)
        assert len(set(queries)) == len(queries) == 2

    def test_it_leaves_no_record(self, night: Night) -> None:
        night.call(dict(CANARY))
        records = night.cloud.services.records
        assert list(records.audit.records()) == []
        assert list(records.gaps.scopes()) == []

    def test_an_agent_cannot_send_its_event(self, night: Night) -> None:
        reply = night.cloud.retrieve(dict(CANARY), FakeContext.of_gateway("search_runbooks"))
        assert "error" in reply

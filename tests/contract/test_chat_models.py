"""Chat models of Bedrock and of services like OpenAI's against doubles of both, and what wraps them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from opx.adapters.connections import Connections
from opx.adapters.json_chat import JsonChat
from opx.adapters.openai_chat import OpenAiChatService
from opx.domain.record import replace, to_json
from opx.errors import ModelError, SecretNotFoundError
from opx.ports.models import answer_schema
from opx.retrieval.models import BudgetedChat, CallBudget
from tests.contract.chat_model_contract import ANSWER, REQUEST, ChatModelContract, Talk, aws_client, bedrock_talk
from tests.doubles.bedrock import a_failure
from tests.doubles.bedrock_models import BedrockModelsDouble
from tests.doubles.http_double import Response


@pytest.fixture(scope="module")
def _bedrock() -> Iterator[tuple[BedrockModelsDouble, Any]]:
    with BedrockModelsDouble() as double, aws_client("bedrock-runtime", double.endpoint) as client:
        yield double, client


@pytest.fixture
def bedrock(_bedrock: tuple[BedrockModelsDouble, Any]) -> Iterator[Talk]:
    double, client = _bedrock
    double.restart()
    yield bedrock_talk(double, client)
    assert not double.model.mistakes


class TestBedrockChat(ChatModelContract):
    @pytest.fixture
    def talk(self, bedrock: Talk) -> Talk:
        return bedrock

    def test_a_model_without_forced_tool_calls_gets_a_request_for_structured_output(self, talk: Talk) -> None:
        talk.thinking(ANSWER)
        talk.double.refuses.add("toolChoice")
        assert to_json(talk.ask().content) == ANSWER
        forced, structured = (request.json() for request in talk.double.requests)
        assert "toolConfig" in forced
        assert "toolConfig" not in structured
        assert structured["outputConfig"]["textFormat"]["type"] == "json_schema"

    def test_a_model_with_neither_gets_the_schema_in_words(self, talk: Talk) -> None:
        talk.thinking(ANSWER)
        talk.double.refuses |= {"toolChoice", "outputConfig"}
        assert to_json(talk.ask().content) == ANSWER
        assert json.dumps(answer_schema(REQUEST.answer), separators=(",", ":")) in talk.double.model.requests[-1].system

    def test_a_model_that_is_cut_off_is_an_error(self, talk: Talk) -> None:
        talk.thinking(ANSWER)
        for reason in ("max_tokens", "guardrail_intervened", "malformed_tool_use"):
            talk.double.stop_reason = reason  # type: ignore[attr-defined]
            with pytest.raises(ModelError, match=reason):
                talk.ask()

    def test_a_validation_error_does_not_quote_the_request(self, talk: Talk) -> None:
        talk.double.inject(a_failure(400, "ValidationException", "The text 'payroll of Ann' is not allowed"))
        with pytest.raises(ModelError) as caught:
            talk.ask()
        assert "payroll" not in str(caught.value)


class TestOpenAiChat(ChatModelContract):
    @pytest.fixture
    def talk(self, completions: Talk) -> Talk:
        return completions

    @pytest.mark.parametrize("refused", [{"json_schema"}, {"json_schema", "json_object"}], ids=["DeepSeek", "neither"])
    def test_a_service_without_a_form_of_json_gets_another_one(self, talk: Talk, refused: set[str]) -> None:
        talk.thinking(ANSWER)
        talk.double.refuses |= refused
        assert to_json(talk.ask().content) == ANSWER
        forms = [request.json().get("response_format", {}).get("type") for request in talk.double.requests]
        assert forms == ["json_schema", "json_object", None][: len(refused) + 1]

    def test_the_schema_is_also_in_the_prompt(self, talk: Talk) -> None:
        talk.thinking(ANSWER)
        talk.ask()
        assert json.dumps(answer_schema(REQUEST.answer), separators=(",", ":")) in talk.double.model.requests[0].system

    def test_newer_models_get_the_limit_by_its_newer_name(self, talk: Talk) -> None:
        talk.thinking(ANSWER)
        talk.double.refuses |= {"max_tokens", "temperature"}
        assert to_json(talk.ask().content) == ANSWER
        body = talk.double.requests[-1].json()
        assert body["max_completion_tokens"] == 77
        assert not {"max_tokens", "temperature"} & body.keys()

    def test_an_error_in_the_data_is_not_retried(self, talk: Talk) -> None:
        talk.double.inject(Response(400, {"error": {"message": "maximum context length exceeded: reduce max_tokens"}}))
        with pytest.raises(ModelError, match="status 400"):
            talk.ask()
        assert len(talk.double.requests) == 1

    @pytest.mark.parametrize("reason", ["length", "content_filter"])
    def test_a_model_that_is_cut_off_is_an_error(self, talk: Talk, reason: str) -> None:
        talk.thinking(ANSWER)
        talk.double.finish_reason = reason  # type: ignore[attr-defined]
        with pytest.raises(ModelError, match=reason):
            talk.ask()

    def test_an_error_that_comes_as_a_success_is_an_error(self, talk: Talk) -> None:
        talk.double.inject(Response(200, {"error": {"message": "Provider returned error", "code": 502}}))
        with pytest.raises(ModelError, match="an error instead of text"):
            talk.ask()

    def test_an_answer_that_is_no_object_is_an_error(self, talk: Talk) -> None:
        answers: list[object] = [[], "busy", 7]
        for answer in answers:
            talk.double.inject(Response(200, answer))
            with pytest.raises(ModelError, match="unknown form"):
                talk.ask()

    def test_a_missing_key_is_an_error_of_the_model(self, completions: Talk) -> None:
        def no_key() -> str:
            raise SecretNotFoundError("there is no secret 'openrouter'")

        chat = JsonChat(OpenAiChatService("http://127.0.0.1:9/v1", "m", no_key, Connections()))
        with pytest.raises(ModelError, match="no secret 'openrouter'"):
            chat.ask(REQUEST)


class TestBudgetedChat(ChatModelContract):
    @pytest.fixture
    def talk(self, completions: Talk) -> Talk:
        return replace(completions, chat=BudgetedChat(completions.chat, CallBudget(100)))

    def test_call_beyond_the_budget_is_refused_until_the_minute_is_over(self, talk: Talk) -> None:
        talk.thinking(ANSWER)
        now = [0.0]
        chat = BudgetedChat(talk.chat, CallBudget(2, clock=lambda: now[0]))
        for now[0] in (0.0, 30.0):
            chat.ask(REQUEST)
        now[0] = 59.0
        with pytest.raises(ModelError, match="OPX_MODEL_CALLS_PER_MINUTE"):
            chat.ask(REQUEST)
        assert len(talk.double.requests) == 2
        now[0] = 60.0
        assert to_json(chat.ask(REQUEST).content) == ANSWER

    def test_a_budget_of_zero_sends_no_request(self, talk: Talk) -> None:
        with pytest.raises(ModelError, match="the 0 calls"):
            BudgetedChat(talk.chat, CallBudget(0)).ask(REQUEST)
        assert not talk.double.requests

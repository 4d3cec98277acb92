"""The settings determine the models of a system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.queries import ReaderVerdict
from opx.errors import ModelError
from opx.operations.system import System
from opx.ports.models import Candidate, ChatRequest, ModelAnswer
from opx.settings import Settings
from opx.system import bootstrap
from tests.contract.chat_model_contract import aws_client
from tests.doubles.bedrock_models import BedrockModelsDouble
from tests.doubles.chat_completions import KEY, ChatCompletionsDouble
from tests.support.webhook_support import SecretsInMemory


class Judgement(ModelAnswer, frozen=True):
    yes: bool


REQUEST = ChatRequest("Is the disk full?", "The disk is full.", Judgement)
NOVA, COHERE = "amazon.nova-lite-v1:0", "cohere.rerank-v3-5:0"
CANDIDATES = [Candidate("Disk", "The disk is full."), Candidate("Tea", "Tea is green.")]


@pytest.fixture
def completions() -> Iterator[ChatCompletionsDouble]:
    with ChatCompletionsDouble() as double:
        yield double
    assert not double.model.mistakes


@pytest.fixture
def bedrock() -> Iterator[BedrockModelsDouble]:
    with BedrockModelsDouble() as double:
        yield double
    assert not double.model.mistakes


def on_a_laptop(home: Path, completions: ChatCompletionsDouble, **settings: Any) -> System:
    url = completions.endpoint + "/v1"
    services = bootstrap(Settings(home=str(home), chat_url=url, chat_secret="router", **settings))
    services.ports.secrets.put("router", KEY)  # type: ignore[attr-defined]
    return services


@pytest.mark.parametrize("reranker", ["local", "off"])
def test_no_model_is_used_unless_one_is_configured(tmp_path: Path, reranker: str) -> None:
    with bootstrap(Settings(home=str(tmp_path), reranker=reranker)) as services:
        assert services.models.chat is None
        assert services.models.reranker is None
        assert services.ingestion.context_writer is None


def test_a_laptop_calls_the_service_at_the_address_with_its_secret(
    tmp_path: Path, completions: ChatCompletionsDouble
) -> None:
    completions.model.thought = lambda _system, _data: {"yes": True}
    with on_a_laptop(tmp_path, completions, chat_model="llama3.2") as services:
        assert services.models.chat is not None
        assert services.models.chat.name == "openai:llama3.2"
        assert services.models.chat.ask(REQUEST).content == Judgement(yes=True)
        assert services.models.reranker is None


def test_a_missing_secret_fails_a_question_to_the_model_and_nothing_else(
    tmp_path: Path, completions: ChatCompletionsDouble
) -> None:
    settings: dict[str, Any] = {
        "chat_url": completions.endpoint,
        "chat_secret": "nobody-set-this",
        "context_model": "m",
    }
    with bootstrap(Settings(home=str(tmp_path), chat_model="m", **settings)) as services:
        assert services.ingestion.pipeline
        assert services.models.chat is not None
        with pytest.raises(ModelError, match="nobody-set-this"):
            services.models.chat.ask(REQUEST)


def test_the_language_model_can_rerank(tmp_path: Path, completions: ChatCompletionsDouble) -> None:
    with on_a_laptop(tmp_path, completions, chat_model="llama3.2", reranker="chat") as services:
        assert services.models.reranker is not None
        assert services.models.reranker.name == "chat:openai:llama3.2"
        disk, tea = services.models.reranker.rank("disk full", CANDIDATES, seconds=9).readings
        assert disk
        assert tea
        assert (disk.verdict, tea.verdict) == (ReaderVerdict.ANSWERS, ReaderVerdict.NO)


def test_searches_and_reranking_share_one_budget(tmp_path: Path, completions: ChatCompletionsDouble) -> None:
    completions.model.thought = lambda _system, _data: {"yes": True}
    settings: dict[str, Any] = {"chat_model": "m", "reranker": "chat", "model_calls_per_minute": 1}
    with on_a_laptop(tmp_path, completions, **settings) as services:
        assert services.models.chat is not None
        assert services.models.reranker is not None
        services.models.chat.ask(REQUEST)
        with pytest.raises(ModelError, match="spent"):
            services.models.reranker.rank("disk", CANDIDATES, seconds=9)
    assert len(completions.requests) == 1


def test_on_aws_bedrock_is_called_without_retries_of_its_client(bedrock: BedrockModelsDouble) -> None:
    bedrock.model.thought = lambda _system, _data: {"yes": True}
    settings = Settings(backend="aws", chat_model=NOVA, reranker="bedrock", rerank_model=COHERE)
    calls: list[tuple[str, dict[str, Any]]] = []
    with (
        aws_client("bedrock-runtime", bedrock.endpoint) as runtime,
        aws_client("bedrock-agent-runtime", bedrock.endpoint) as agent,
    ):
        clients = {"bedrock-runtime": runtime, "bedrock-agent-runtime": agent}

        def client(service: str, **options: Any) -> Any:
            calls.append((service, options))
            return clients[service]

        services = bootstrap(settings, aws=client)
        assert services.models.chat is not None
        assert services.models.reranker is not None
        assert calls == []
        assert services.models.chat.ask(REQUEST).content == Judgement(yes=True)
        assert services.models.reranker.name == f"bedrock:{COHERE}"
        assert len(services.models.reranker.rank("disk", CANDIDATES, seconds=9).readings) == 2
    assert [(service, options["attempts"]) for service, options in calls] == [(name, 1) for name in clients]


def test_on_aws_another_service_may_be_chosen() -> None:
    settings = Settings(backend="aws", chat_model="m", chat_url="https://models.example.com/v1")
    services = bootstrap(settings, secrets=SecretsInMemory())
    assert services.models.chat is not None
    assert services.models.chat.name == "openai:m"

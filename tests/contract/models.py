"""Doubles of services with models, and adapters over them, for the contracts of chat models and rerankers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config

from opx.adapters.connections import Connections
from opx.adapters.json_chat import JsonChat
from opx.adapters.openai_chat import OpenAiChatService
from opx_aws.bedrock_chat import BedrockChatService
from opx_testing.fake_time import FakeTime
from tests.contract.chat_model_contract import Talk
from tests.doubles.bedrock import THROTTLED, a_failure
from tests.doubles.bedrock_models import BedrockModelsDouble
from tests.doubles.chat_completions import KEY, ChatCompletionsDouble
from tests.doubles.http_double import Response

NOVA = "eu.amazon.nova-lite-v1:0"
_BUSY_BEDROCK = (THROTTLED, a_failure(503, "ServiceUnavailableException"), a_failure(408, "ModelTimeoutException"))
_DENIED_BEDROCK = (a_failure(403, "AccessDeniedException"), a_failure(404, "ResourceNotFoundException"))


@contextmanager
def aws_client(service: str, endpoint: str) -> Iterator[Any]:
    client = boto3.client(
        service,  # type: ignore[call-overload]
        region_name="eu-west-1",
        endpoint_url=endpoint,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}),
    )
    yield client
    client.close()


def bedrock_talk(double: BedrockModelsDouble, client: Any) -> Talk:
    time = FakeTime()
    chat = JsonChat(BedrockChatService(lambda: client, NOVA), clock=time.clock, sleep=time.sleep)
    return Talk(chat, double, _BUSY_BEDROCK, _DENIED_BEDROCK, time)


def openai_talk(double: ChatCompletionsDouble, connections: Connections) -> Talk:
    time = FakeTime()
    service = OpenAiChatService(double.endpoint + "/v1", "llama3.2", lambda: KEY, connections)
    chat = JsonChat(service, clock=time.clock, sleep=time.sleep)
    return Talk(chat, double, (Response(429), Response(500), Response(503)), (Response(401), Response(404)), time)

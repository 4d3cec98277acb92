"""Calls a chat model on Bedrock by the operation `Converse`.

JSON is obtained by forcing the model to call a tool whose input is the answer, which Claude and Nova support (Amazon Bedrock
API Reference, `ToolChoice`). Other models get a request for structured output (user guide, "Get validated JSON results from
models"). That isn't the first choice: Bedrock compiles a grammar for every new schema, which may take minutes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from opx.adapters.json_chat import BusyModelError, ModelOutput, Prompt, RefusedPartError
from opx.errors import ModelError
from opx.ports.models import without_bounds
from opx_aws.vendor_errors import BUSY_MODEL_CODES, CONNECTION_ERRORS, error_code, safe_message

if TYPE_CHECKING:
    from mypy_boto3_bedrock_runtime import BedrockRuntimeClient

ANSWER_TOOL = "answer"
TEMPERATURE, TOOL, STRUCTURED = "temperature", "toolChoice", "outputConfig"
_COMPLAINTS: tuple[tuple[str, str], ...] = (
    ("temperature", TEMPERATURE),
    ("toolchoice", TOOL),
    ("tool use", TOOL),
    ("tool_choice", TOOL),
    ("outputconfig", STRUCTURED),
    ("output_config", STRUCTURED),
    ("structured output", STRUCTURED),
    ("response_format", STRUCTURED),
)
"""Words of a validation error, and the part of the request that they refer to."""

_REFUSING_CALLER = ("AccessDeniedException", "ResourceNotFoundException")
log = logging.getLogger(__name__)

_ENOUGH = ("end_turn", "stop_sequence", "tool_use")


class BedrockChatService:
    """Calls a model, named by its id or that of an inference profile. The client should not retry by itself.

    Errors reach the end user: they contain the code only, and the log the rest, such as roles.
    """

    def __init__(self, client: Callable[[], BedrockRuntimeClient], model: str) -> None:
        self._client = client
        self._model = model

    @property
    def name(self) -> str:
        return f"bedrock:{self._model}"

    def complete(self, prompt: Prompt, without: frozenset[str]) -> ModelOutput:
        try:
            answer: Mapping[str, Any] = self._client().converse(**self._request(prompt, without))
        except ClientError as exc:
            raise self._failure(exc, without) from exc
        except BotoCoreError as exc:
            log.warning("%s can't be called: %s", self.name, exc)
            kind = BusyModelError if isinstance(exc, CONNECTION_ERRORS) else ModelError
            raise kind(f"{self.name} can't be reached") from exc
        return self._model_output(answer)

    def _request(self, prompt: Prompt, without: frozenset[str]) -> dict[str, Any]:
        inference: dict[str, Any] = {"maxTokens": prompt.max_tokens}
        if TEMPERATURE not in without:
            inference["temperature"] = 0
        request: dict[str, Any] = {
            "modelId": self._model,
            "system": [{"text": prompt.instructions}],
            "messages": [{"role": "user", "content": [{"text": prompt.user}]}],
            "inferenceConfig": inference,
        }
        if TOOL not in without:
            return request | {"toolConfig": _tools(prompt.schema)}
        request["system"].append({"text": prompt.schema_rule.lstrip()})
        if STRUCTURED not in without:
            return request | {"outputConfig": _output(prompt.schema)}
        return request

    def _failure(self, error: ClientError, without: frozenset[str]) -> ModelError:
        code = error_code(error)
        message = f"{self.name} can't be called: {code}"
        log.warning("%s can't be called: %s", self.name, safe_message(error))
        if code in BUSY_MODEL_CODES:
            return BusyModelError(message)
        if code in _REFUSING_CALLER:
            return ModelError(
                f"{message}; check the model's id, that it is enabled here, and that the role may call it"
            )
        complaint = str(error).lower() if code == "ValidationException" else ""
        for word, part in _COMPLAINTS:
            if word in complaint and part not in without:
                return RefusedPartError(part, message)
        return ModelError(message)

    def _model_output(self, answer: Mapping[str, Any]) -> ModelOutput:
        try:
            reason, usage = answer["stopReason"], answer["usage"]
            parts = answer["output"]["message"]["content"]
            used = [part["toolUse"]["input"] for part in parts if "toolUse" in part]
            text = "".join(part["text"] for part in parts if "text" in part)
            read, written = usage["inputTokens"], usage["outputTokens"]
        except (KeyError, TypeError) as exc:
            raise ModelError(f"{self.name} returned a reply of an unknown form: {exc!r}") from exc
        if reason not in _ENOUGH:
            raise ModelError(f"{self.name} returned an incomplete reply: it stopped because of {reason!r}")
        return ModelOutput(used[0] if used else text, read, written)


def _tools(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Declares one tool, whose call is forced. Its input is the answer."""
    specification = {"name": ANSWER_TOOL, "description": "Give the answer.", "inputSchema": {"json": schema}}
    return {"tools": [{"toolSpec": specification}], "toolChoice": {"tool": {"name": ANSWER_TOOL}}}


def _output(schema: Mapping[str, Any]) -> dict[str, Any]:
    definition = {"name": ANSWER_TOOL, "schema": json.dumps(without_bounds(schema))}
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": definition}}}

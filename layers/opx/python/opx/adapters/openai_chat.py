"""Calls chat models of services with OpenAI's Chat Completions API: OpenRouter, Ollama, or a self-hosted one.

JSON is requested by `response_format` (OpenAI API Reference, "Create chat completion"). Not every service has each form:
Ollama before 0.5 and DeepSeek refuse or ignore `json_schema`, LM Studio refuses `json_object`. The instructions hold the
schema in any case, so that a service without either may still answer.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from urllib3 import BaseHTTPResponse

from opx.adapters.connections import Connections
from opx.adapters.json_chat import (
    INSTRUCTIONS,
    MAX_DESCRIPTION_TOKENS,
    READ_SECONDS,
    BusyModelError,
    JsonChat,
    ModelOutput,
    Prompt,
    RefusedPartError,
    description,
    question,
)
from opx.errors import ModelError, OpxError, SecretNotFoundError, StoreUnavailableError, UnparsableDocumentError
from opx.ports.models import ChatModel, without_bounds
from opx.ports.sources import Secrets
from opx.settings import Settings

log = logging.getLogger(__name__)

PASSING = (408, 409, 429)
"""Statuses after which the same request may succeed, besides all from 500."""
REFUSING_CALLER = (401, 403, 404)


class ChatCompletions:
    """The operation at `url` (`https://host/v1`), with a key if the service needs one ("" for none). Thread-safe."""

    def __init__(self, url: str, key: Callable[[], str], connections: Connections) -> None:
        self.url = url.rstrip("/") + "/chat/completions"
        self._key = key
        self._connections = connections

    def post(self, body: Mapping[str, Any]) -> BaseHTTPResponse:
        """The service's reply, of any status. Raises `StoreUnavailableError` if none comes, `OpxError` if the server's
        certificate is not trusted, and `SecretNotFoundError` for a missing key."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        key = self._key()
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return self._connections.request("POST", self.url, headers, json.dumps(body).encode())


TEMPERATURE, MAX_TOKENS, SCHEMA_FORMAT, OBJECT_FORMAT = "temperature", "max_tokens", "json_schema", "json_object"
_COMPLAINTS: tuple[tuple[str, str], ...] = (
    ("max_completion_tokens", MAX_TOKENS),
    ("temperature", TEMPERATURE),
    ("json_schema", SCHEMA_FORMAT),
    ("json_object", OBJECT_FORMAT),
    ("response_format", ""),
)
"""Words of a refusal, and the part of the request that they refer to; "" for the requested form of JSON. The old name
of the limit is also named where the input is too long."""

_REFUSING_REQUEST = (400, 422)
_MOST_READ = 4000

_ENOUGH = ("stop", "tool_calls", "eos", None)
"""Finish reasons of a complete reply."""


def chat_at_url(settings: Settings, secrets: Secrets, model: str) -> ChatModel:
    """The model of this name at `chat_url`. Its key is read on each call."""

    def key() -> str:
        return secrets.get(settings.chat_secret) if settings.chat_secret else ""

    return JsonChat(OpenAiChatService(settings.chat_url, model, key, Connections(read_seconds=READ_SECONDS)))


class OpenAiChatService:
    """Calls `model` at `url` (`https://host/v1`), with a key if the service needs one. Errors reach the end user, and
    leave out the address; the log has it."""

    def __init__(self, url: str, model: str, key: Callable[[], str], connections: Connections) -> None:
        self._completions = ChatCompletions(url, key, connections)
        self._model = model

    @property
    def name(self) -> str:
        return f"openai:{self._model}"

    def complete(self, prompt: Prompt, without: frozenset[str]) -> ModelOutput:
        try:
            reply = self._completions.post(self._request(prompt, without))
        except SecretNotFoundError as exc:
            raise ModelError(f"{self.name} can't be called: {exc}") from exc
        except OpxError as exc:
            log.warning("%s can't be called: %s", self.name, exc)
            kind = BusyModelError if isinstance(exc, StoreUnavailableError) else ModelError
            raise kind(f"{self.name} can't be reached") from exc
        if reply.status != 200:
            raise self._refused(reply, without)
        return self._model_output(reply.data)

    def _request(self, prompt: Prompt, without: frozenset[str]) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [
                {"role": "system", "content": prompt.instructions + "\n" + prompt.schema_rule},
                {"role": "user", "content": prompt.user},
            ],
            "stream": False,
        }
        request["max_completion_tokens" if MAX_TOKENS in without else "max_tokens"] = prompt.max_tokens
        if TEMPERATURE not in without:
            request["temperature"] = 0
        form = _form(without)
        if form == SCHEMA_FORMAT:
            schema = {"name": "answer", "strict": True, "schema": without_bounds(prompt.schema)}
            request["response_format"] = {"type": SCHEMA_FORMAT, "json_schema": schema}
        elif form == OBJECT_FORMAT:
            request["response_format"] = {"type": OBJECT_FORMAT}
        return request

    def _refused(self, reply: BaseHTTPResponse, without: frozenset[str]) -> ModelError:
        message = f"{self.name} replied with status {reply.status}"
        log.warning("%s: %s", self._completions.url, message)  # without its text, which may quote the request
        if reply.status in REFUSING_CALLER:
            return ModelError(
                f"{message}; check OPX_CHAT_URL, the model's name, and the secret that OPX_CHAT_SECRET names"
            )
        if reply.status >= 500 or reply.status in PASSING:
            return BusyModelError(message)
        part = _complaint(reply.data, without) if reply.status in _REFUSING_REQUEST else ""
        return RefusedPartError(part, message) if part else ModelError(message)

    def _model_output(self, data: bytes) -> ModelOutput:
        try:
            reply = json.loads(data)
            if "error" in reply and "choices" not in reply:
                raise ModelError(f"{self.name} replied with an error instead of text")
            choice, usage = reply["choices"][0], reply.get("usage") or {}
            text, reason = choice["message"]["content"], choice.get("finish_reason")
            read, written = int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as exc:
            raise ModelError(f"{self.name} returned a reply of an unknown form: {type(exc).__name__}") from exc
        if reason not in _ENOUGH or not isinstance(text, str):
            raise ModelError(f"{self.name} returned an incomplete reply: it stopped because of {str(reason)[:40]!r}")
        return ModelOutput(text, read, written)


def _form(without: frozenset[str]) -> str:
    """The form in which JSON is requested: the strictest that wasn't refused, "" for none."""
    return next((form for form in (SCHEMA_FORMAT, OBJECT_FORMAT) if form not in without), "")


def _complaint(data: bytes, without: frozenset[str]) -> str:
    """The part of the request that a service complains about, "" if it is another or none."""
    error = _error_of(data)
    for text in (str(error.get("param") or ""), str(error.get("message") or "")[:_MOST_READ]):
        meant = [part or _form(without) for word, part in _COMPLAINTS if word in text.lower()]
        left = [part for part in meant if part and part not in without]
        if left:
            return left[0]
    return ""


def _error_of(data: bytes) -> Mapping[str, Any]:
    """The error in a reply. Services send it as an object, as a string in JSON, or as a bare string."""
    try:
        found = json.loads(data)
        error = found.get("error", found)
    except (ValueError, AttributeError, RecursionError):
        return {"message": data[:_MOST_READ].decode("utf-8", "replace")}
    return error if isinstance(error, Mapping) else {"message": str(error)}


# -- OpenAI images


class OpenAiImageDescriber:
    """Calls `model` at `url` (`https://host/v1`), with a key if the service needs one. Thread-safe."""

    def __init__(self, url: str, model: str, key: str, connections: Connections) -> None:
        self._completions = ChatCompletions(url, lambda: key, connections)
        self._model = model

    def describe(self, image: bytes, *, media_type: str, hint: str = "") -> str:
        reply = self._completions.post(self._request(image, media_type, hint))
        if reply.status != 200:
            raise self._refused(reply.status)
        return description(self._text(reply.data))

    def _request(self, image: bytes, media_type: str, hint: str) -> dict[str, Any]:
        address = f"data:{media_type};base64,{base64.b64encode(image).decode()}"
        content = [{"type": "text", "text": question(hint)}, {"type": "image_url", "image_url": {"url": address}}]
        messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": content}]
        return {"model": self._model, "messages": messages, "max_tokens": MAX_DESCRIPTION_TOKENS}

    def _refused(self, status: int) -> Exception:
        message = f"the model {self._model} at {self._completions.url} replied with status {status}"
        if status in REFUSING_CALLER:
            hint = "check OPX_VISION_URL, OPX_VISION_MODEL and the secret that OPX_VISION_SECRET names"
            return StoreUnavailableError(f"{message}; {hint}")
        if status >= 500 or status in PASSING:
            return StoreUnavailableError(message)
        return UnparsableDocumentError(f"{message} to a picture")

    def _text(self, data: bytes) -> str:
        try:
            return str(json.loads(data)["choices"][0]["message"]["content"] or "")
        except (ValueError, KeyError, IndexError, TypeError) as exc:
            raise StoreUnavailableError(
                f"{self._completions.url} returned a reply of an unknown form: {exc!r}"
            ) from exc

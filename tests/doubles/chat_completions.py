"""A double of a service that understands OpenAI's Chat Completions; tests choose what it lacks."""

from __future__ import annotations

import json
from typing import Any

from tests.doubles.http_double import HttpDouble, Request, Response
from tests.doubles.language_model import LanguageModel, tokens_of

KEY = "sk-test"
_MEMBERS = {"model", "messages", "stream", "max_tokens", "max_completion_tokens", "temperature", "response_format"}
COMPLAINTS = {
    "temperature": "Unsupported value: 'temperature' does not support 0 with this model.",
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
    "json_schema": "This response_format type is unavailable now",
    "json_object": "'response_format.type' must be 'json_schema' or 'text'",
}
"""Error messages of services: OpenAI's newer models, DeepSeek, and LM Studio."""


class ChatCompletionsDouble(HttpDouble):
    """`refuses`: members or forms of JSON that the service lacks, by the names of `COMPLAINTS`."""

    def __init__(self) -> None:
        super().__init__("chat")
        self.model = LanguageModel()
        self.refuses: set[str] = set()
        self.finish_reason = "stop"

    def restart(self) -> None:
        """Forget what was recorded, injected and chosen."""
        self.reset()
        self.model.reset()
        self.refuses.clear()
        self.finish_reason = "stop"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.json() for request in self.requests]

    def _answer(self, request: Request) -> Response:
        return self.answer(request)  # such services know keys, and no signatures

    def answer(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return _problem(401, "Incorrect API key provided")
        if (request.method, request.path) != ("POST", "/v1/chat/completions"):
            return _problem(404, "no such operation")
        body = request.json()
        unknown = sorted(body.keys() - _MEMBERS)
        if unknown:
            return _problem(400, f"Unrecognized request argument supplied: {unknown[0]}", unknown[0])
        if [message["role"] for message in body["messages"]] != ["system", "user"]:
            return _problem(400, "the double takes one message of the system and one of a user", "messages")
        form = body.get("response_format", {}).get("type", "")
        for name in ("temperature", "max_tokens"):
            if name in body and name in self.refuses:
                return _problem(400, COMPLAINTS[name], name)
        if form in self.refuses:
            return _problem(400, COMPLAINTS[form])
        return Response(200, self._complete(body))

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        system, user = body["messages"]
        form = body.get("response_format", {})
        schema = form["json_schema"]["schema"] if form.get("type") == "json_schema" else {}
        limit = body.get("max_tokens") or body["max_completion_tokens"]
        answer = self.model.answer(system["content"], user["content"], schema, limit)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        usage = {
            "prompt_tokens": tokens_of(system["content"] + user["content"]),
            "completion_tokens": tokens_of(json.dumps(answer)),
        }
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage}


def _problem(status: int, message: str, param: str | None = None) -> Response:
    return Response(status, {"error": {"message": message, "type": "invalid_request_error", "param": param}})

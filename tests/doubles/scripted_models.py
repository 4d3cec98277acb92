"""A model that follows a script, behind the two interfaces that frameworks call: OpenAI's Chat Completions and Bedrock's
Converse.

It searches for the user's question if it may call a tool, and otherwise answers with the source that it was given. So an
answer shows that a tool was called with the right arguments, and that its result reached the model.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.doubles.http_double import HttpDouble, Request, Response

SEARCH = "search_runbooks"
KEY = "sk-scripted"
_SOURCE = re.compile(r"Source: (.+)")


def verdict(given: str) -> str:
    """The answer to what was given: the first source in it."""
    found = _SOURCE.search(given)
    return f"Read {found[1]}." if found else "Nothing was given to me."


class ScriptedModels(HttpDouble):
    """`searches`: the questions that the model searched for."""

    def __init__(self) -> None:
        super().__init__("bedrock")
        self.searches: list[str] = []

    def _answer(self, request: Request) -> Response:
        if request.path == "/v1/chat/completions":  # such services know keys, and no signatures
            return self._completion(request)
        return super()._answer(request)

    def answer(self, request: Request) -> Response:
        if request.method != "POST" or not re.fullmatch(r"/model/[^/]+/converse", request.path):
            return Response(404, {"message": "no such operation"})
        return Response(200, self._conversed(request.json()))

    # -- Bedrock

    def _conversed(self, body: dict[str, Any]) -> dict[str, Any]:
        content = body["messages"][-1]["content"]
        results = [block["toolResult"] for block in content if "toolResult" in block]
        names = [tool["toolSpec"]["name"] for tool in body.get("toolConfig", {}).get("tools", ())]
        if not results and SEARCH in names:
            question = content[0]["text"]
            self.searches.append(question)
            block: dict[str, Any] = {
                "toolUse": {"toolUseId": "use-1", "name": SEARCH, "input": {"query": question, "max_results": 2}}
            }
        else:
            given = [part["text"] for result in results for part in result["content"]] or [content[0]["text"]]
            block = {"text": verdict("\n".join(given))}
        return {
            "output": {"message": {"role": "assistant", "content": [block]}},
            "stopReason": "tool_use" if "toolUse" in block else "end_turn",
            "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
            "metrics": {"latencyMs": 1},
        }

    # -- OpenAI

    def _completion(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Response(401, {"error": {"message": "Incorrect API key provided"}})
        body = request.json()
        last = body["messages"][-1]
        names = [tool["function"]["name"] for tool in body.get("tools") or ()]
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if last["role"] == "user" and SEARCH in names:
            question = _text(last["content"])
            self.searches.append(question)
            arguments = json.dumps({"query": question, "max_results": 2})
            call = {"id": "call-1", "type": "function", "function": {"name": SEARCH, "arguments": arguments}}
            message["tool_calls"] = [call]
        else:
            message["content"] = verdict(_text(last["content"]))
        finish = "tool_calls" if "tool_calls" in message else "stop"
        return Response(
            200,
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            },
        )


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)

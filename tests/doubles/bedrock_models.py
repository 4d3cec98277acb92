"""A double of Bedrock's operations Converse and Rerank. Bodies are checked with botocore's model of the service.

What depends on the model is chosen by tests: which parts of a request it refuses, with the words of the service.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.doubles.bedrock import a_failure, refused
from tests.doubles.bedrock_knowledge_base import relevance
from tests.doubles.http_double import HttpDouble, Request, Response, ServiceFailure
from tests.doubles.language_model import LanguageModel, tokens_of
from tests.doubles.service_shapes import answer_problem, request_problem

RERANKERS = ("amazon.rerank-v1:0", "cohere.rerank-v3-5:0")
_CONVERSE = re.compile(r"/model/(?P<model>[^/]+)/converse\Z")
_MODEL_ARN = re.compile(r"arn:aws:bedrock:eu-west-1::foundation-model/(?P<model>.+)\Z")
NO_TEMPERATURE = 'The model returned the following errors: {"message":"`temperature` is deprecated for this model."}'
NO_TOOL_CHOICE = "This model doesn't support the toolConfig.toolChoice.tool field. Remove it and try again."
NO_STRUCTURE = "This model doesn't support the outputConfig.textFormat field. Remove it and try again."
_UNBOUNDED = re.compile(r'"(?:minimum|maximum|minLength|maxLength|minItems|maxItems)"')


class BedrockModelsDouble(HttpDouble):
    """`refuses`: parts of a Converse request that the model lacks: `temperature`, `toolChoice`, `outputConfig`."""

    def __init__(self) -> None:
        super().__init__("bedrock")
        self.model = LanguageModel()
        self.refuses: set[str] = set()
        self.stop_reason = ""
        self.page = 1000

    def restart(self) -> None:
        """Forget what was recorded, injected and chosen."""
        self.reset()
        self.model.reset()
        self.refuses.clear()
        self.stop_reason = ""
        self.page = 1000

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.json() for request in self.requests]

    def answer(self, request: Request) -> Response:
        body = request.json()
        if request.method == "POST" and _CONVERSE.match(request.path):
            return _checked("bedrock-runtime", "Converse", body, self._converse)
        if request.method == "POST" and request.path == "/rerank":
            return _checked("bedrock-agent-runtime", "Rerank", body, self._rerank)
        raise ServiceFailure(a_failure(404, "UnknownOperationException"))

    # -- Converse

    def _converse(self, body: dict[str, Any]) -> dict[str, Any]:
        inference = body["inferenceConfig"]
        for part, present, complaint in (
            ("temperature", "temperature" in inference, NO_TEMPERATURE),
            ("toolChoice", "toolConfig" in body, NO_TOOL_CHOICE),
            ("outputConfig", "outputConfig" in body, NO_STRUCTURE),
        ):
            if present and part in self.refuses:
                raise refused(complaint)
        system = "\n".join(block["text"] for block in body["system"])
        if [message["role"] for message in body["messages"]] != ["user"] or len(body["messages"][0]["content"]) != 1:
            raise refused("the double takes one block of one user")
        block = body["messages"][0]["content"][0]
        answer = self.model.answer(system, block["text"], _schema_of(body), inference["maxTokens"])
        content = {"text": answer} if isinstance(answer, str) else _content(body, answer)
        stop = self.stop_reason or ("tool_use" if "toolUse" in content else "end_turn")
        read, written = tokens_of(system + block["text"]), tokens_of(json.dumps(answer))
        return {
            "output": {"message": {"role": "assistant", "content": [content]}},
            "stopReason": stop,
            "usage": {"inputTokens": read, "outputTokens": written, "totalTokens": read + written},
            "metrics": {"latencyMs": 1},
        }

    # -- Rerank

    def _rerank(self, body: dict[str, Any]) -> dict[str, Any]:
        chosen = body["rerankingConfiguration"]["bedrockRerankingConfiguration"]
        arn = _MODEL_ARN.match(chosen["modelConfiguration"]["modelArn"])
        if not arn or arn["model"] not in RERANKERS:
            raise refused("The provided model identifier is invalid.")
        question = body["queries"][0]["textQuery"]["text"]
        texts = [source["inlineDocumentSource"]["textDocument"]["text"] for source in body["sources"]]
        scored = [{"index": at, "relevanceScore": min(1.0, relevance(question, text))} for at, text in enumerate(texts)]
        scored.sort(key=lambda result: -result["relevanceScore"])
        results = scored[: chosen.get("numberOfResults", len(scored))]
        start = int(body.get("nextToken", 0))
        answer: dict[str, Any] = {"results": results[start : start + self.page]}
        if start + self.page < len(results):
            answer["nextToken"] = str(start + self.page)
        return answer


def _checked(service: str, operation: str, body: dict[str, Any], answer: Any) -> Response:
    problem = request_problem(service, operation, body)
    if problem:
        raise refused(problem)
    found = answer(body)
    wrong = answer_problem(service, operation, found)
    return a_failure(500, "InternalServerException", f"the double is wrong: {wrong}") if wrong else Response(200, found)


def _schema_of(body: dict[str, Any]) -> dict[str, Any]:
    if "toolConfig" in body:
        tool = body["toolConfig"]["tools"][0]["toolSpec"]
        if body["toolConfig"].get("toolChoice") != {"tool": {"name": tool["name"]}}:
            raise refused("the double answers when its one tool is forced")
        return dict(tool["inputSchema"]["json"])
    if "outputConfig" in body:
        text = body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"]
        if _UNBOUNDED.search(text):
            raise refused("The schema has keywords that are not supported.")
        return dict(json.loads(text))
    return {}


def _content(body: dict[str, Any], answer: object) -> dict[str, Any]:
    if "toolConfig" not in body:
        return {"text": json.dumps(answer)}
    name = body["toolConfig"]["tools"][0]["toolSpec"]["name"]
    return {"toolUse": {"toolUseId": "tooluse_1", "name": name, "input": answer}}

"""`Reranker` on the operation `Rerank` of Bedrock.

Requests, replies and limits are those of the service model of `bedrock-agent-runtime`: one query and up to 1,000
texts per call, each of 1 to 32,000 characters. A call with up to 100 texts is billed as one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from opx.errors import ModelError
from opx.ports.models import (
    MAX_QUESTION_CHARACTERS,
    Candidate,
    CandidateReading,
    Ranking,
    check_number,
    ranking,
    readable,
    reading_of,
)
from opx.runtime.threads import within
from opx_aws.vendor_errors import error_code, safe_message

_REFUSING_CALLER = ("AccessDeniedException", "ResourceNotFoundException")
_MOST_PAGES = 10
log = logging.getLogger(__name__)


class BedrockReranker:
    """Scores the relevance of each document by a model such as `cohere.rerank-v3-5:0`, named by its id or ARN; it names
    no lines. No retries: a search waits for the result."""

    def __init__(self, client: Callable[[], Any], model: str) -> None:
        self._client = client
        self._model = model

    @property
    def name(self) -> str:
        return f"bedrock:{self._model.rpartition('/')[2]}"

    def rank(self, question: str, candidates: Sequence[Candidate], *, seconds: float) -> Ranking:
        if not candidates:
            return Ranking(())
        check_number(candidates, self.name)
        texts = [readable(f"{candidate.title}\n\n{candidate.text}") for candidate in candidates]
        query = readable(question, MAX_QUESTION_CHARACTERS)
        results = within(seconds, lambda: self._results(query, texts), self.name)
        return ranking(self._readings(results, len(texts)), len(texts), self.name)

    def _results(self, question: str, texts: Sequence[str]) -> list[Mapping[str, Any]]:
        """All pages of one call's results."""
        client = self._client()
        request = _request(question, texts, self._arn(client))
        results: list[Mapping[str, Any]] = []
        for _ in range(_MOST_PAGES):
            try:
                answer: Mapping[str, Any] = client.rerank(**request)
            except (ClientError, BotoCoreError) as exc:
                log.warning("%s could not rank %d texts: %s", self.name, len(texts), safe_message(exc))
                raise ModelError(f"{self.name} can't be called: {_reason(exc)}") from exc
            results.extend(answer.get("results", ()))
            if not answer.get("nextToken"):
                return results
            request["nextToken"] = answer["nextToken"]
        raise ModelError(f"{self.name} returned more than {_MOST_PAGES} pages of results")

    def _readings(self, results: Sequence[Mapping[str, Any]], count: int) -> dict[int, CandidateReading]:
        try:
            readings = {int(result["index"]): reading_of(float(result["relevanceScore"])) for result in results}
        except (KeyError, TypeError, ValueError) as exc:
            raise ModelError(f"{self.name} returned a reply of an unknown form: {exc!r}") from exc
        if len(results) != count or readings.keys() != set(range(count)):
            raise ModelError(f"{self.name} returned something else than one score for each candidate")
        return readings

    def _arn(self, client: Any) -> str:
        if self._model.startswith("arn:"):
            return self._model
        meta = client.meta
        return f"arn:{meta.partition}:bedrock:{meta.region_name}::foundation-model/{self._model}"


def _request(question: str, texts: Sequence[str], model_arn: str) -> dict[str, Any]:
    reranking = {"modelConfiguration": {"modelArn": model_arn}, "numberOfResults": len(texts)}
    return {
        "queries": [{"type": "TEXT", "textQuery": {"text": question}}],
        "sources": [
            {"type": "INLINE", "inlineDocumentSource": {"type": "TEXT", "textDocument": {"text": text}}}
            for text in texts
        ],
        "rerankingConfiguration": {"type": "BEDROCK_RERANKING_MODEL", "bedrockRerankingConfiguration": reranking},
    }


def _reason(error: Exception) -> str:
    """The error for the end user: the log has the rest."""
    if not isinstance(error, ClientError):
        return "it can't be reached"
    code = error_code(error)
    check = "; check that the model is there in this region and that the role may call it"
    return code + check if code in _REFUSING_CALLER else code

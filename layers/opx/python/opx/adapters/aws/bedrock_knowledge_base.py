"""`SearchEngine` on a Bedrock Knowledge Base whose data source are the copies of `KnowledgeBaseCopies`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from opx.adapters.aws.knowledge_base_filters import Filter, filter_note, passes, retrieval_filters
from opx.adapters.aws.knowledge_base_objects import chunk_of
from opx.adapters.aws.vendor_errors import CONNECTION_ERRORS, told
from opx.domain.results import IndexedChunk
from opx.errors import IndexUnavailableError
from opx.ports import Leg, SearchFilter, SearchRequest, SearchResponse

log = logging.getLogger(__name__)

MAX_QUERY_CHARACTERS = 1_000
"""The quota "User query size" of Bedrock Knowledge Bases. The API itself takes 20,000."""

MAX_RESULTS = 100
"""Of one `Retrieve`."""

_Found = dict[str, tuple[IndexedChunk, float]]


class BedrockKnowledgeBase:
    """Hybrid search of the service's own making: one list with one score a hit, in [0, 1].

    It embeds questions itself, so that the vector of a request is left alone and one without text finds nothing. It
    knows no term statistics. Copies are found once an ingestion job has taken them in, and until one has noticed that
    they are gone.
    """

    def __init__(self, client: Any, knowledge_base_id: str) -> None:
        self._client = client
        self._id = knowledge_base_id

    def search(self, request: SearchRequest) -> SearchResponse:
        text = (request.text or "").strip()
        found: _Found = {}
        unreadable = 0
        if text:
            for where in retrieval_filters(request.filter):
                for result in self._retrieve(text[:MAX_QUERY_CHARACTERS], where, _asked_for(request)):
                    unreadable += not _collect(found, result, request.filter)
        hits = sorted(((entry, score) for entry, (_, score) in found.items()), key=lambda hit: (-hit[1], hit[0]))
        best = tuple(hits[: request.depth])
        notes = _notes(text, unreadable, filter_note(request.filter))
        return SearchResponse(fused=Leg(best), chunks={entry: found[entry][0] for entry, _ in best}, notes=notes)

    def _retrieve(self, text: str, where: Filter, limit: int) -> Iterator[Mapping[str, Any]]:
        search: Any = {"numberOfResults": limit, "overrideSearchType": "HYBRID", "filter": where}
        request: Any = {
            "knowledgeBaseId": self._id,
            "retrievalQuery": {"text": text},
            "retrievalConfiguration": {"vectorSearchConfiguration": search},
        }
        while True:
            try:
                answer = self._client.retrieve(**request)
            except (ClientError, *CONNECTION_ERRORS) as exc:
                raise IndexUnavailableError(f"searching knowledge base {self._id} failed: {told(exc)}") from exc
            yield from answer["retrievalResults"]
            token = answer.get("nextToken")
            if not token:
                return
            request["nextToken"] = token


def _asked_for(request: SearchRequest) -> int:
    """As many results as are wanted; the most there can be where some are looked at and left out."""
    return MAX_RESULTS if filter_note(request.filter) else min(request.depth, MAX_RESULTS)


def _collect(found: _Found, result: Mapping[str, Any], where: SearchFilter) -> bool:
    """Add a result, unless a better one of its entry is there. False if it can't be told what it is."""
    try:
        chunk = chunk_of(result["content"].get("text", ""), result.get("metadata", {}))
    except ValueError:
        log.warning("a result of the knowledge base is no chunk: %s", result.get("location"))
        return False
    if chunk.scope_key not in where.scopes:
        # The filter is the service's to apply. Should it ever fail to, nobody may see what is another's.
        log.error("the knowledge base gave a chunk of another scope: entry %s", chunk.entry_id)
        return True
    if not passes(where, chunk):
        return True
    score = min(1.0, max(0.0, float(result.get("score", 0.0))))
    if chunk.entry_id not in found or found[chunk.entry_id][1] < score:
        found[chunk.entry_id] = (chunk, score)
    return True


def _notes(text: str, unreadable: int, about_filter: str) -> tuple[str, ...]:
    notes = [about_filter] if about_filter else []
    if len(text) > MAX_QUERY_CHARACTERS:
        notes.append(f"the knowledge base was asked with the first {MAX_QUERY_CHARACTERS:,} characters only")
    if unreadable:
        notes.append(f"{unreadable} results of the knowledge base were left out: they are no chunks of this corpus")
    return tuple(notes)

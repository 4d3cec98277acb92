"""Searches a Bedrock Knowledge Base (`SearchEngine`) whose data source is the output of `KnowledgeBaseCopies`.

A group of its `RetrievalFilter` holds 2 to 5 filters and may be in one other group, no deeper (Bedrock user guide,
"Configure and customize queries and response generation"; at least 2: the API's service model). It has no filter on
words: those are checked here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from typing import Any

from botocore.exceptions import ClientError

from opx.domain.results import IndexedChunk
from opx.errors import IndexUnavailableError
from opx.ports import Leg, SearchFilter, SearchRequest, SearchResponse
from opx.text.fields import TITLE_FIELD, WHOLE_FIELD, analysed_fields
from opx_aws.knowledge_base_objects import DAY_ATTRIBUTE, FILTER_ATTRIBUTES, LIST_ATTRIBUTES, chunk_of
from opx_aws.vendor_errors import CONNECTION_ERRORS, safe_message

log = logging.getLogger(__name__)

Filter = dict[str, Any]
MAX_GROUP = 5
MAX_FILTERS = 100
"""Filters per search: longer lists of values are not searched to their end, as each filter is a request of its own."""


def retrieval_filters(where: SearchFilter) -> list[Filter]:
    """Filters that together accept the results that `where` does, except for terms and the second lists, which `passes`
    checks: one, unless `where` lists more tags or resources than fit into a group.

    None without a scope: such a search can't have results. `MAX_FILTERS` at most.
    """
    if not where.scopes:
        return []
    every = [
        {"in": {"key": name, "value": list(values)}}
        for part, name in FILTER_ATTRIBUTES.items()
        if (values := getattr(where, part))
    ]
    whole = [group for group in (_all_of(every), _all_of(list(_days(where)))) if group]
    lists = [list(_any_of_list(name, getattr(where, part))) for part, name in LIST_ATTRIBUTES.items()]
    combined = islice(product(*(found for found in lists if found)), MAX_FILTERS)
    return [_all_of([*whole, *several]) for several in combined]


def filter_note(where: SearchFilter) -> str:
    """A note for the reader on limits of how a filter is applied; "" if there are none."""
    if prod(-(-len(getattr(where, part)) // MAX_GROUP) or 1 for part in LIST_ATTRIBUTES) > MAX_FILTERS:
        return "only some of the tags and resources were sent to the knowledge base: there are too many"
    if where.has_terms or where.also_tags or where.also_resources:
        return "the knowledge base can't filter by words: only its best results were looked at for them"
    return ""


def passes(where: SearchFilter, indexed: IndexedChunk) -> bool:
    """True if a result passes the conditions that the service's filters can't express."""
    for wanted, has in ((where.also_tags, indexed.chunk.tags), (where.also_resources, indexed.resources)):
        if wanted and not set(wanted) & set(has):
            return False
    if not where.has_terms:
        return True
    fields = {name: set(terms) for name, terms in analysed_fields(indexed.chunk, indexed.language).items()}
    title, whole = fields[TITLE_FIELD], fields[WHOLE_FIELD]
    return (
        all(title.intersection(group) for group in where.title_terms)
        and all(whole.intersection(group) for group in where.required_terms)
        and whole.isdisjoint(where.excluded_terms)
    )


def _days(where: SearchFilter) -> Iterator[Filter]:
    if where.updated_from is not None:
        yield {"greaterThanOrEquals": {"key": DAY_ATTRIBUTE, "value": where.updated_from}}
    if where.updated_before is not None:
        yield {"lessThan": {"key": DAY_ATTRIBUTE, "value": where.updated_before}}


def _any_of_list(name: str, values: Sequence[str]) -> Iterator[Filter]:
    """Groups that together match every list with one of the values."""
    for start in range(0, len(values), MAX_GROUP):
        has = [{"listContains": {"key": name, "value": value}} for value in values[start : start + MAX_GROUP]]
        yield {"orAll": has} if len(has) > 1 else has[0]


def _all_of(filters: list[Filter]) -> Filter:
    """One filter for all; {} for none."""
    if len(filters) > 1:
        return {"andAll": filters}
    return filters[0] if filters else {}


MAX_QUERY_CHARACTERS = 1_000
"""The quota "User query size" of Bedrock Knowledge Bases. The API itself accepts 20,000."""

MAX_RESULTS = 100
"""Results of one `Retrieve`."""

_Found = dict[str, tuple[IndexedChunk, float]]


class BedrockKnowledgeBase:
    """Hybrid search by the service: one list with one score per hit, in [0, 1].

    The service embeds queries itself, so that the vector of a request is ignored and a request without text finds nothing.
    It has no term statistics. Copies are found once an ingestion job has indexed them, and until a later job has noticed
    that they are deleted.
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
                for result in self._retrieve(text[:MAX_QUERY_CHARACTERS], where, _result_limit(request)):
                    unreadable += not _collect(found, result, request.filter)
        hits = sorted(((entry, score) for entry, (_, score) in found.items()), key=lambda hit: (-hit[1], hit[0]))
        best = tuple(hits[: request.depth])
        notes = _notes(text, unreadable, filter_note(request.filter))
        return SearchResponse(fused=Leg(best), chunks={entry: found[entry][0] for entry, _ in best}, notes=notes)

    def entries_with(self, terms: Iterable[str], scopes: Sequence[str]) -> Mapping[str, int]:  # noqa: ARG002
        """Returns nothing: the service has no term statistics."""
        return {}

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
                raise IndexUnavailableError(f"searching knowledge base {self._id} failed: {safe_message(exc)}") from exc
            yield from answer["retrievalResults"]
            token = answer.get("nextToken")
            if not token:
                return
            request["nextToken"] = token


def _result_limit(request: SearchRequest) -> int:
    """The wanted number of results; the maximum where `passes` may drop some."""
    return MAX_RESULTS if filter_note(request.filter) else min(request.depth, MAX_RESULTS)


def _collect(found: _Found, result: Mapping[str, Any], where: SearchFilter) -> bool:
    """Adds a result, unless a better one of its entry is there. False if its metadata can't be read."""
    try:
        chunk = chunk_of(result["content"].get("text", ""), result.get("metadata", {}))
    except ValueError:
        log.warning("a result of the knowledge base is not a chunk: %s", result.get("location"))
        return False
    if chunk.scope_key not in where.scopes:
        # The service should have applied the filter. Should it ever fail to, a tenant's chunk must not leak to another.
        log.error("the knowledge base returned a chunk of another scope: entry %s", chunk.entry_id)
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
        notes.append(f"only the first {MAX_QUERY_CHARACTERS:,} characters were sent to the knowledge base")
    if unreadable:
        notes.append(f"{unreadable} results of the knowledge base were left out: they are no chunks of this corpus")
    return tuple(notes)

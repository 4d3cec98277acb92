"""Converts searches to OpenSearch's query language, and its responses to legs and messages. Pure functions.

Messages leave out query and document text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from opensearchpy import OpenSearchException, TransportError

from opx.domain.record import replace
from opx.ports import HeldDocument, Leg, SearchFilter, Vector
from opx.text.fields import LEXICAL_FIELDS, TITLE_FIELD, VALUE_WEIGHT, WHOLE_FIELD, Words
from opx_aws.opensearch_schema import (
    DAY_FIELD,
    ENTRY_FIELD,
    FILTER_FIELDS,
    KEY_FIELD,
    SOURCE_FIELDS,
    VECTOR_FIELD,
    from_source,
    record_from,
)

_BAD_REQUEST = 400
_QUOTED = re.compile(r"(['\"]).*\1", re.DOTALL)


def safe_message(error: OpenSearchException) -> str:
    """The error's message; for a bad request only its kind, as the reason may quote the request."""
    if isinstance(error, TransportError) and error.status_code == _BAD_REQUEST:
        return f"{_BAD_REQUEST} {error.error}"
    return str(error)


def unquoted(reason: str) -> str:
    """Removes quotations from a reason, such as the value of a field: all from the first quotation mark to the last."""
    return _QUOTED.sub("'…'", reason)


Body = dict[str, Any]

MAX_CLAUSES = 1024
"""The service refuses a query with more clauses, nested ones included (`indices.query.bool.max_clause_count`)."""

_FILTER_CLAUSES = len(FILTER_FIELDS) + 2
"""Clauses of a filter without groups of terms: its lists, the days, and exclusions."""

MAX_QUERY_TERMS = (MAX_CLAUSES - _FILTER_CLAUSES) // len(LEXICAL_FIELDS)
"""Distinct terms that are searched. Later terms of a longer text are left out."""

_TERMS_A_REQUEST = 500
"""Buckets of an aggregation that counts terms: about as many as a misspelt word has candidates."""

_BEST_FIRST = [{"_score": {"order": "desc"}}, {ENTRY_FIELD: {"order": "asc"}}]
_FREQUENCIES = "term_frequencies"
_HELD = "held"
_HELD_FIELDS = ("scope", KEY_FIELD, "document_id", "category")


def most_terms(where: SearchFilter) -> int:
    """The number of distinct terms that can be searched within a filter: `MAX_QUERY_TERMS`, less with groups of terms."""
    groups = len(where.title_terms) + len(where.required_terms)
    return max(0, MAX_CLAUSES - _FILTER_CLAUSES - groups) // len(LEXICAL_FIELDS)


def filter_clauses(where: SearchFilter) -> list[Body]:
    """One clause for each part that is not empty and each group of terms; always one for the scopes, so that a filter
    without a scope matches nothing."""
    parts = ((part, field, getattr(where, part)) for part, field in FILTER_FIELDS.items())
    clauses: list[Body] = [_any_of(field, values) for part, field, values in parts if values or part == "scopes"]
    bounds = {"gte": where.updated_from, "lt": where.updated_before}
    days = {bound: day for bound, day in bounds.items() if day is not None}
    if days:
        clauses.append({"range": {DAY_FIELD: days}})
    clauses += [_any_of(TITLE_FIELD, terms) for terms in where.title_terms]
    clauses += [_any_of(WHOLE_FIELD, terms) for terms in where.required_terms]
    if where.excluded_terms:
        clauses.append({"bool": {"must_not": [_any_of(WHOLE_FIELD, where.excluded_terms)]}})
    return clauses


def _any_of(field: str, values: Sequence[str]) -> Body:
    """Matches entries that have one of these values; they are compared exactly, also in an analysed field."""
    return {"terms": {field: list(values)}}


def matching(where: SearchFilter) -> Body:
    """The query for everything that passes the filter, without scores."""
    return {"bool": {"filter": filter_clauses(where)}}


def lexical_body(words: Words, where: SearchFilter, depth: int, values: Set[str] = frozenset()) -> Body:
    """BM25 summed over fields and words, each times the field's boost; of a word's terms the best counts. Scores of `values`
    count `VALUE_WEIGHT`."""
    should = [
        _best_of(field, boost * (VALUE_WEIGHT if first in values else 1.0), terms)
        for field, boost in LEXICAL_FIELDS.items()
        for first, terms in words.items()
    ]
    query = {"bool": {"should": should, "minimum_should_match": 1, "filter": filter_clauses(where)}}
    return _hits_body(query, depth)


def _best_of(field: str, boost: float, terms: Sequence[str]) -> Body:
    queries = [{"term": {field: {"value": term, "boost": boost}}} for term in terms]
    return queries[0] if len(queries) == 1 else {"dis_max": {"queries": queries}}


def vector_body(vector: Vector, where: SearchFilter, depth: int) -> Body:
    """Nearest neighbours among the entries that pass the filter: inside `knn` it applies during the neighbour search."""
    knn = {"vector": [float(value) for value in vector], "k": depth, "filter": matching(where)}
    return _hits_body({"knn": {VECTOR_FIELD: knn}}, depth)


def _hits_body(query: Body, depth: int) -> Body:
    return {
        "size": depth,
        "query": query,
        "sort": _BEST_FIRST,
        "track_total_hits": False,
        "_source": {"includes": list(SOURCE_FIELDS)},
    }


def statistics_body(words: Words, where: SearchFilter) -> Body:
    """Counts entries that pass the filter, and those of them with each word, as one of its terms in any field."""
    body: Body = {"size": 0, "query": matching(where), "track_total_hits": True}
    if words:
        filters = {
            first: {"bool": {"should": [{"term": {field: term}} for field in LEXICAL_FIELDS for term in terms]}}
            for first, terms in words.items()
        }
        body["aggs"] = {_FREQUENCIES: {"filters": {"filters": filters}}}
    return body


def presence_bodies(terms: Iterable[str], scopes: Sequence[str]) -> list[Body]:
    """Requests for the number of entries of the scopes with each term. An aggregation covers the entries with any of
    its terms."""
    within = SearchFilter(tuple(scopes))
    distinct = list(dict.fromkeys(terms))
    groups = [distinct[at : at + _TERMS_A_REQUEST] for at in range(0, len(distinct), _TERMS_A_REQUEST)]
    return [
        statistics_body({term: (term,) for term in group}, replace(within, required_terms=(tuple(group),)))
        for group in groups
    ]


def references_body(key_id: str, after: str, size: int) -> Body:
    """Entries of a document key from the entry id `after` on, that one included.

    Not `search_after`: a collection that assigns ids may hold an entry twice, and a page must not end between the two.
    """
    clauses: list[Body] = [{"term": {KEY_FIELD: key_id}}]
    if after:
        clauses.append({"range": {ENTRY_FIELD: {"gte": after}}})
    return {
        "size": size,
        "query": {"bool": {"filter": clauses}},
        "sort": [{ENTRY_FIELD: {"order": "asc"}}],
        "track_total_hits": False,
        "_source": {"includes": [ENTRY_FIELD]},
    }


def held_body(after: HeldDocument | None, size: int) -> Body:
    """Document versions with the number of their entries, after `after` ("Composite aggregations" in the OpenSearch
    documentation: in the order of the sources, each value ascending)."""
    composite: Body = {"size": size, "sources": [{field: {"terms": {"field": field}}} for field in _HELD_FIELDS]}
    if after:
        position = (after.scope_key, after.key_id, after.document_id, after.category)
        composite["after"] = dict(zip(_HELD_FIELDS, position, strict=True))
    return {"size": 0, "query": {"match_all": {}}, "track_total_hits": False, "aggs": {_HELD: {"composite": composite}}}


def held_documents(response: Mapping[str, Any]) -> list[HeldDocument]:
    buckets = response.get("aggregations", {}).get(_HELD, {}).get("buckets", [])
    return [_held(each["key"], each["doc_count"]) for each in buckets]


def _held(bucket_key: Mapping[str, str], entries: int) -> HeldDocument:
    scope, key, document, category = (bucket_key[field] for field in _HELD_FIELDS)
    return HeldDocument(scope, key, document, category, entries)


def lexical_leg(response: Mapping[str, Any]) -> Leg:
    return Leg(_distinct(response), leg_error(response), response.get("took"))


def vector_leg(response: Mapping[str, Any]) -> Leg:
    """The hits with their cosine similarities."""
    hits = tuple((entry_id, cosine_of_score(score)) for entry_id, score in _distinct(response))
    return Leg(hits, leg_error(response), response.get("took"))


def cosine_of_score(score: float) -> float:
    """Converts a k-NN score of the space `innerproduct` to the dot product.

    score = 1 + dot where dot > 0, else 1 / (1 - dot) (OpenSearch documentation, k-NN spaces).
    """
    return score - 1 if score > 1 else 1 - 1 / score


def leg_error(response: Mapping[str, Any]) -> str:
    """The reason why a leg is missing or may lack hits; empty if it is complete."""
    if "error" in response:
        return f"{response.get('status', '')} {_reason(response['error'])}".strip()
    if response.get("timed_out"):
        return "timed out; hits may be missing"
    failed = response.get("_shards", {}).get("failed", 0)
    return f"{failed} shards failed; hits may be missing" if failed else ""


def statistics(response: Mapping[str, Any]) -> tuple[int, dict[str, int]]:
    """Entries that pass the filter and entries per term; zero and empty if the service couldn't count."""
    if "error" in response:
        return 0, {}
    buckets = response.get("aggregations", {}).get(_FREQUENCIES, {}).get("buckets", {})
    return response["hits"]["total"]["value"], {term: bucket["doc_count"] for term, bucket in buckets.items()}


def hits_of(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = response.get("hits", {}).get("hits", [])
    return found


def chunks_and_records(*answers: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a response for the distinct hits: chunks, and those judging records that are stored."""
    hits = (hit["_source"] for answer in answers if answer for hit in hits_of(answer))
    sources = {source[ENTRY_FIELD]: source for source in hits}
    chunks = {entry: from_source(source) for entry, source in sources.items()}
    found = ((entry, record_from(sources[entry], chunk)) for entry, chunk in chunks.items())
    return {"chunks": chunks, "records": {entry: record for entry, record in found if record}}


def _distinct(response: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Best hit of each entry: a retried write may have stored an entry twice."""
    scores: dict[str, float] = {}
    for hit in hits_of(response):
        scores.setdefault(hit["_source"][ENTRY_FIELD], hit["_score"])
    return tuple(scores.items())


def _reason(error: object) -> str:
    if not isinstance(error, Mapping):
        return str(error)
    causes = error.get("root_cause") or [error]
    return f"{causes[0].get('type', '')}: {unquoted(str(causes[0].get('reason', '')))}"

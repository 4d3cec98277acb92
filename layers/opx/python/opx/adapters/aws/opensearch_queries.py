"""Search requests in OpenSearch's query language, and its answers as legs. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opx.adapters.aws.opensearch_errors import unquoted
from opx.adapters.aws.opensearch_schema import ENTRY_FIELD, FILTER_FIELDS, KEY_FIELD, SOURCE_FIELDS, VECTOR_FIELD
from opx.ports import Leg, SearchFilter, Vector
from opx.text.fields import LEXICAL_FIELDS

Body = dict[str, Any]

MAX_CLAUSES = 1024
"""The service refuses a query with more clauses, nested ones included (`indices.query.bool.max_clause_count`)."""

MAX_QUERY_TERMS = (MAX_CLAUSES - len(FILTER_FIELDS)) // len(LEXICAL_FIELDS)
"""Distinct terms that are searched. Those that come later in a longer text are left out."""

_BEST_FIRST = [{"_score": {"order": "desc"}}, {ENTRY_FIELD: {"order": "asc"}}]
_FREQUENCIES = "term_frequencies"


def filter_clauses(where: SearchFilter) -> list[Body]:
    """One `terms` clause for each part that is not empty; always one for the scopes, so that no scope finds nothing."""
    parts = ((part, field, getattr(where, part)) for part, field in FILTER_FIELDS.items())
    return [{"terms": {field: list(values)}} for part, field, values in parts if values or part == "scopes"]


def matching(where: SearchFilter) -> Body:
    """The query for everything that passes the filter, without scores."""
    return {"bool": {"filter": filter_clauses(where)}}


def lexical_body(terms: Sequence[str], where: SearchFilter, depth: int) -> Body:
    """BM25 summed over fields and terms, each times the field's boost."""
    should = [
        {"term": {field: {"value": term, "boost": boost}}} for field, boost in LEXICAL_FIELDS.items() for term in terms
    ]
    query = {"bool": {"should": should, "minimum_should_match": 1, "filter": filter_clauses(where)}}
    return _hits_body(query, depth)


def vector_body(vector: Vector, where: SearchFilter, depth: int) -> Body:
    """Nearest neighbours among what passes the filter: inside `knn` it holds while neighbours are looked for."""
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


def statistics_body(terms: Sequence[str], where: SearchFilter) -> Body:
    """How many entries pass the filter, and how many of them hold each term in any field."""
    body: Body = {"size": 0, "query": matching(where), "track_total_hits": True}
    if terms:
        filters = {term: {"bool": {"should": [{"term": {f: term}} for f in LEXICAL_FIELDS]}} for term in terms}
        body["aggs"] = {_FREQUENCIES: {"filters": {"filters": filters}}}
    return body


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


def lexical_leg(response: Mapping[str, Any]) -> Leg:
    return Leg(_distinct(response), leg_error(response), response.get("took"))


def vector_leg(response: Mapping[str, Any]) -> Leg:
    """The hits with their cosines."""
    hits = tuple((entry_id, cosine_of_score(score)) for entry_id, score in _distinct(response))
    return Leg(hits, leg_error(response), response.get("took"))


def cosine_of_score(score: float) -> float:
    """The dot product behind a k-NN score of the space `innerproduct`.

    score = 1 + dot where dot > 0, else 1 / (1 - dot) (OpenSearch documentation, k-NN spaces).
    """
    return score - 1 if score > 1 else 1 - 1 / score


def leg_error(response: Mapping[str, Any]) -> str:
    """Why a leg is missing or may lack hits; empty if it is whole."""
    if "error" in response:
        return f"{response.get('status', '')} {_reason(response['error'])}".strip()
    if response.get("timed_out"):
        return "timed out; hits may be missing"
    failed = response.get("_shards", {}).get("failed", 0)
    return f"{failed} shards failed; hits may be missing" if failed else ""


def statistics(response: Mapping[str, Any]) -> tuple[int, dict[str, int]]:
    """Entries that pass the filter and entries a term; zero and empty if the service couldn't say."""
    if "error" in response:
        return 0, {}
    buckets = response.get("aggregations", {}).get(_FREQUENCIES, {}).get("buckets", {})
    return response["hits"]["total"]["value"], {term: bucket["doc_count"] for term, bucket in buckets.items()}


def hits_of(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = response.get("hits", {}).get("hits", [])
    return found


def _distinct(response: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Best hit of each entry: a write that was tried again may have stored an entry twice."""
    scores: dict[str, float] = {}
    for hit in hits_of(response):
        scores.setdefault(hit["_source"][ENTRY_FIELD], hit["_score"])
    return tuple(scores.items())


def _reason(error: object) -> str:
    if not isinstance(error, Mapping):
        return str(error)
    causes = error.get("root_cause") or [error]
    return f"{causes[0].get('type', '')}: {unquoted(str(causes[0].get('reason', '')))}"

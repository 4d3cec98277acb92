"""Queries of the OpenSearch double: the part of the query language that the adapter writes; the rest is refused."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.doubles.http_double import ServiceFailure
from tests.doubles.opensearch_store import StoredDocument, StoredIndex, as_float32, failure

K1, B = 1.2, 0.75
BM25_FACTOR = K1 + 1
"""Factor of BM25 in OpenSearch up to version 2 (`LegacyBM25Similarity`); version 3 has none."""

MAX_CLAUSES = 1024
MAX_K = MAX_SIZE = 10_000

Query = dict[str, Any]
Scores = dict[str, float]


def refused(reason: str) -> ServiceFailure:
    return failure(400, "parsing_exception", reason)


def only(body: dict[str, Any], allowed: set[str], where: str) -> None:
    unknown = sorted(body.keys() - allowed)
    if unknown:
        raise refused(f"unknown key [{unknown[0]}] in {where}")


class Searcher:
    """Evaluates queries over one state of an index."""

    def __init__(self, index: StoredIndex) -> None:
        self._fields = index.fields
        self._default_engine = index.default_engine
        self._documents = {document.id: document for document in index.documents()}

    def search(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a `_search` body."""
        only(body, {"size", "query", "sort", "track_total_hits", "_source", "aggs"}, "search")
        size = body.get("size", 10)
        if not 0 <= size <= MAX_SIZE:
            raise failure(400, "illegal_argument_exception", "Result window is too large")
        scores = self.evaluate(body["query"])
        ordered = self._sorted(scores, body.get("sort", [{"_score": {"order": "desc"}}]))
        hits: dict[str, Any] = {"hits": [self._hit(each, scores, body) for each in ordered[:size]]}
        if body.get("track_total_hits", True):
            hits["total"] = {"value": len(scores), "relation": "eq"}
        answer: dict[str, Any] = {"took": 1, "timed_out": False, "_shards": {"total": 1, "failed": 0}, "hits": hits}
        if "aggs" in body:
            answer["aggregations"] = {name: self._aggregated(agg, scores) for name, agg in body["aggs"].items()}
        return answer

    def count(self, body: dict[str, Any]) -> int:
        only(body, {"query"}, "count")
        return len(self.evaluate(body["query"]))

    def evaluate(self, query: Query) -> Scores:
        """Ids of the documents that match, with their scores."""
        if _clauses(query) > MAX_CLAUSES:
            raise failure(
                400,
                "too_many_nested_clauses",
                f"Query contains too many nested clauses; maxClauseCount is set to {MAX_CLAUSES}",
            )
        ((kind, _),) = query.items()
        return self._knn(query["knn"]) if kind == "knn" else self._match(query)

    def _match(self, query: Query) -> Scores:
        if len(query) != 1:
            raise refused("[query] malformed, expected one clause")
        ((kind, value),) = query.items()
        match kind:
            case "bool":
                return self._bool(value)
            case "dis_max":
                return self._dis_max(value)
            case "term":
                return self._term(value)
            case "terms":
                return self._terms(value)
            case "range":
                return self._range(value)
            case "match_all":
                only(value, set(), "match_all")
                return dict.fromkeys(self._documents, 1.0)
        raise refused(f"unknown query [{kind}]")

    def _bool(self, value: dict[str, Any]) -> Scores:
        only(value, {"should", "filter", "must_not", "minimum_should_match"}, "bool")
        allowed = set(self._documents)
        for clause in value.get("must_not", []):
            allowed -= self._match(clause).keys()
        for clause in value.get("filter", []):
            allowed &= self._match(clause).keys()
        summed: Scores = {}
        for clause in value.get("should", []):
            for each, score in self._match(clause).items():
                summed[each] = summed.get(each, 0.0) + score
        needed = value.get("minimum_should_match", 1 if value.get("should") and "filter" not in value else 0)
        if needed not in (0, 1):
            raise refused("the double knows minimum_should_match 0 and 1")
        return {each: as_float32(summed.get(each, 0.0)) for each in allowed if not needed or each in summed}

    def _dis_max(self, value: dict[str, Any]) -> Scores:
        only(value, {"queries"}, "dis_max")
        best: Scores = {}
        for clause in value["queries"]:
            for each, score in self._match(clause).items():
                best[each] = max(score, best.get(each, 0.0))
        return best

    def _term(self, value: dict[str, Any]) -> Scores:
        ((name, spec),) = value.items()
        spec = spec if isinstance(spec, dict) else {"value": spec}
        only(spec, {"value", "boost"}, "term")
        if self._kind(name) == "keyword":
            return dict.fromkeys(self._with_keyword(name, [spec["value"]]), 1.0)
        return self._bm25(name, spec["value"], spec.get("boost", 1.0))

    def _terms(self, value: dict[str, Any]) -> Scores:
        ((name, wanted),) = value.items()
        if not isinstance(wanted, list):
            raise refused("[terms] takes a list of values")
        if self._kind(name) == "text":
            return {each.id: 1.0 for each in self._documents.values() if each.terms.get(name, {}).keys() & set(wanted)}
        return dict.fromkeys(self._with_keyword(name, wanted), 1.0)

    def _range(self, value: dict[str, Any]) -> Scores:
        ((name, bounds),) = value.items()
        only(bounds, {"gte", "lt"}, "range")
        if self._kind(name) == "text":
            raise refused("the double ranges over keywords and numbers only")
        having = [each for each in self._documents.values() if name in each.source]
        low = [each for each in having if "gte" not in bounds or each.source[name] >= bounds["gte"]]
        return {each.id: 1.0 for each in low if "lt" not in bounds or each.source[name] < bounds["lt"]}

    def _kind(self, name: str) -> str:
        """Stricter than the service, for which no entry has an unknown field."""
        field = self._fields.get(name, {})
        if field.get("type") not in ("keyword", "text", "integer") or not field.get("index", True):
            raise failure(400, "query_shard_exception", f"Cannot search on field [{name}] since it is not indexed.")
        return str(field["type"])

    def _with_keyword(self, name: str, wanted: list[str]) -> Iterable[str]:
        return [each.id for each in self._documents.values() if _values(each, name) & set(wanted)]

    def _bm25(self, name: str, term: str, boost: float) -> Scores:
        """OpenSearch's BM25; documents without the field don't count, lengths are stored in a byte."""
        fields = {each.id: each.terms[name] for each in self._documents.values() if each.terms.get(name)}
        found = {each: terms[term] for each, terms in fields.items() if term in terms}
        if not found:
            return {}
        idf = math.log(1 + (len(fields) - len(found) + 0.5) / (len(found) + 0.5))
        average = sum(terms.total() for terms in fields.values()) / len(fields)
        norms = {each: K1 * (1 - B + B * stored_length(fields[each].total()) / average) for each in found}
        return {each: BM25_FACTOR * boost * idf * tf / (tf + norms[each]) for each, tf in found.items()}

    def _knn(self, value: dict[str, Any]) -> Scores:
        ((name, spec),) = value.items()
        only(spec, {"vector", "k", "filter"}, "knn")
        field = self._fields.get(name, {})
        if field.get("type") != "knn_vector" or len(spec["vector"]) != field["dimension"]:
            raise failure(400, "query_shard_exception", "Query vector has invalid dimension")
        if not 1 <= spec["k"] <= MAX_K:
            raise failure(400, "illegal_argument_exception", f"[knn] requires k to be in the range (0, {MAX_K}]")
        engine = field.get("method", {}).get("engine", self._default_engine)
        if "filter" in spec and engine == "nmslib":
            raise failure(400, "illegal_argument_exception", "Engine [NMSLIB] does not support filters")
        allowed = self._match(spec["filter"]) if "filter" in spec else dict.fromkeys(self._documents, 0.0)
        vector = [as_float32(value) for value in spec["vector"]]
        space = field.get("space_type") or field.get("method", {}).get("space_type", "l2")
        scores = {each: knn_score(space, vector, self._documents[each].vectors[name]) for each in allowed}
        return dict(sorted(scores.items(), key=lambda item: -item[1])[: spec["k"]])

    def _aggregated(self, aggregation: dict[str, Any], within: Scores) -> dict[str, Any]:
        return (
            self._composite(aggregation, within) if "composite" in aggregation else self._filters(aggregation, within)
        )

    def _composite(self, aggregation: dict[str, Any], within: Scores) -> dict[str, Any]:
        """Buckets of combinations of keyword values, one of each field, sorted, after the key `after`."""
        only(aggregation, {"composite"}, "aggregation")
        only(aggregation["composite"], {"size", "sources", "after"}, "composite aggregation")
        spec = aggregation["composite"]
        fields = [source[name]["terms"]["field"] for source in spec["sources"] for name in source]
        names = [name for source in spec["sources"] for name in source]
        if any(self._kind(field) != "keyword" for field in fields):
            raise refused("the double groups by keywords only")
        counted = Counter(tuple(self._documents[each].source[field] for field in fields) for each in within)
        after = tuple(spec["after"][name] for name in names) if "after" in spec else ()
        keys = sorted(key for key in counted if key > after)[: spec.get("size", 10)]
        buckets = [{"key": dict(zip(names, key, strict=True)), "doc_count": counted[key]} for key in keys]
        return {"buckets": buckets, **({"after_key": buckets[-1]["key"]} if buckets else {})}

    def _filters(self, aggregation: dict[str, Any], within: Scores) -> dict[str, Any]:
        only(aggregation, {"filters"}, "aggregation")
        only(aggregation["filters"], {"filters"}, "filters aggregation")
        named = aggregation["filters"]["filters"]
        return {"buckets": {n: {"doc_count": len(self.evaluate(q).keys() & within.keys())} for n, q in named.items()}}

    def _sorted(self, scores: Scores, sort: list[dict[str, Any]]) -> list[str]:
        ordered = list(scores)
        for criterion in reversed(sort):
            ((name, spec),) = criterion.items()
            only(spec, {"order"}, "sort")
            if name != "_score" and self._kind(name) != "keyword":
                raise refused(f"can't sort by [{name}]")
            values = scores if name == "_score" else {each: self._documents[each].source[name] for each in scores}
            ordered.sort(key=values.__getitem__, reverse=spec["order"] == "desc")
        return ordered

    def _hit(self, each: str, scores: Scores, body: dict[str, Any]) -> dict[str, Any]:
        source = self._documents[each].source
        scored = any("_score" in criterion for criterion in body.get("sort", [{"_score": {}}]))
        if "_source" in body:
            only(body["_source"], {"includes"}, "_source")
            source = {name: source[name] for name in body["_source"]["includes"] if name in source}
        shown = {name: value.tolist() if isinstance(value, array) else value for name, value in source.items()}
        return {"_index": "", "_id": each, "_score": as_float32(scores[each]) if scored else None, "_source": shown}


def knn_score(space: str, one: Iterable[float], other: Iterable[float]) -> float:
    """OpenSearch's score of two vectors (documentation, k-NN spaces)."""
    pairs = list(zip(one, other, strict=True))
    dot = sum(a * b for a, b in pairs)
    if space == "innerproduct":
        score = 1 + dot if dot > 0 else 1 / (1 - dot)
    elif space == "cosinesimil":
        lengths = math.hypot(*(a for a, _ in pairs)) * math.hypot(*(b for _, b in pairs))
        score = (1 + dot / lengths) / 2
    else:
        score = 1 / (1 + sum((a - b) ** 2 for a, b in pairs))
    return as_float32(score)


def stored_length(length: int) -> int:
    """A field's length after Lucene's `SmallFloat.intToByte4` and back: exact below 40, four bits of it above."""
    if length < 24:
        return length
    rest = length - 24
    shift = max(0, rest.bit_length() - 4)
    return 24 + ((rest >> shift) << shift)


def _values(document: StoredDocument, name: str) -> set[str]:
    value = document.source.get(name, [])
    return set(value) if isinstance(value, list) else {value}


def _clauses(query: Query) -> int:
    """Leaf clauses of a query."""
    total = 0
    for kind, value in query.items():
        if kind == "bool":
            total += sum(
                _clauses(clause) for part in ("should", "filter", "must_not") for clause in value.get(part, [])
            )
        elif kind == "dis_max":
            total += sum(map(_clauses, value["queries"]))
        else:
            total += 1
    return total

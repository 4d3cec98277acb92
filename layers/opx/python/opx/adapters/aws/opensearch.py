"""`SearchIndex` on OpenSearch Serverless, next-generation and classic collections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import boto3
from opensearchpy import OpenSearch, OpenSearchException, Urllib3AWSV4SignerAuth, Urllib3HttpConnection

from opx.adapters.aws import opensearch_queries as queries
from opx.adapters.aws.backoff import Backoff
from opx.adapters.aws.opensearch_bulk import BulkLimits, BulkWriter
from opx.adapters.aws.opensearch_errors import told
from opx.adapters.aws.opensearch_indices import check_index
from opx.adapters.aws.opensearch_schema import ENTRY_FIELD, from_source
from opx.domain.results import IndexedChunk
from opx.errors import IndexUnavailableError, InvalidInputError
from opx.ports import DocumentChange, Embedder, HeldDocument, Leg, SearchFilter, SearchRequest, SearchResponse
from opx.text.fields import first_words

SERVICE = "aoss"
GENERATIONS = ("nextgen", "classic")
_REFERENCES_A_PAGE = 1000
_LEXICAL, _VECTOR, _STATISTICS = "lexical", "vector", "statistics"


_NO_RETRIES: Mapping[str, Any] = {
    "max_retries": 0,
    "retry_on_timeout": False,
    "retry_on_status": (),
    "pool_maxsize": 10,
}


def opensearch_client(endpoint: str, credentials: Any, region: str, *, timeout: float = 5.0) -> OpenSearch:
    """A client for a collection's endpoint that signs with `credentials` (of a boto3 session) and never retries itself.

    `timeout` in seconds is for searches; writes have their own.
    """
    return OpenSearch(
        hosts=[endpoint],
        http_auth=Urllib3AWSV4SignerAuth(credentials, region, SERVICE),
        connection_class=Urllib3HttpConnection,
        timeout=timeout,
        **_NO_RETRIES,
    )


def serverless_client(endpoint: str, *, timeout: float = 5.0, session: boto3.Session | None = None) -> OpenSearch:
    """A client with the credentials and the region that boto3 finds.

    Raises `IndexUnavailableError` if it finds none.
    """
    session = session or boto3.Session()
    credentials = session.get_credentials()
    if credentials is None or not session.region_name:
        raise IndexUnavailableError(
            "OpenSearch Serverless needs AWS credentials and a region: set AWS_PROFILE or AWS_*"
        )
    return opensearch_client(endpoint, credentials, session.region_name, timeout=timeout)


def node_client(endpoint: str, user: tuple[str, str] | None, *, timeout: float = 5.0) -> OpenSearch:
    """A client for a node or cluster of one's own, as `user` with a password if one is given."""
    return OpenSearch(hosts=[endpoint], http_auth=user, timeout=timeout, **_NO_RETRIES)


class OpenSearchIndex:
    """`SearchIndex` over one index of a collection; `ensure_index` creates it.

    What was written is found after the collection's next refresh: about a second on a next-generation collection, a
    minute on a classic one. A classic vector collection assigns ids itself, so a write that was tried again after a
    timeout may be stored twice: searches name such an entry once, `count` counts both, `references` lists both.

    With `vectors_of`, the first write raises `IncompatibleIndexError` if the index was made for another embedder or
    another analyzer. Searches don't ask, for the sake of a function's first answer.
    """

    def __init__(
        self,
        client: OpenSearch,
        index_name: str,
        *,
        generation: str = "nextgen",
        timeout: float = 5.0,
        limits: BulkLimits = BulkLimits(),  # noqa: B008
        backoff: Backoff = Backoff(),  # noqa: B008
        sleep: Callable[[float], None] = time.sleep,
        vectors_of: Embedder | None = None,
    ) -> None:
        if generation not in GENERATIONS:
            raise InvalidInputError(f"generation must be one of {GENERATIONS}, not {generation!r}")
        self._client = client
        self._index_name = index_name
        self._derives_ids = generation == "nextgen"
        self._timeout = timeout
        self._limits = limits
        self._backoff = backoff
        self._sleep = sleep
        self._unchecked = vectors_of

    @property
    def derives_ids(self) -> bool:
        return self._derives_ids

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        self._check_once()
        writer = BulkWriter(
            self._client,
            self._index_name,
            custom_ids=self._derives_ids,
            limits=self._limits,
            backoff=self._backoff,
            sleep=self._sleep,
        )
        references = [writer.write(change) for change in changes]
        writer.finish()
        return references

    def search(self, request: SearchRequest) -> SearchResponse:
        words = first_words(request.text or "", request.languages, queries.most_terms(request.filter))
        bodies = {_STATISTICS: queries.statistics_body(words, request.filter)}
        if words:
            bodies[_LEXICAL] = queries.lexical_body(words, request.filter, request.depth)
        if request.vector is not None:
            bodies[_VECTOR] = queries.vector_body(request.vector, request.filter, request.depth)
        answers = self._search_together(bodies)
        lexical, vector = answers.get(_LEXICAL), answers.get(_VECTOR)
        entry_count, frequencies = queries.statistics(answers[_STATISTICS])
        return SearchResponse(
            lexical=queries.lexical_leg(lexical) if lexical else Leg(),
            vector=queries.vector_leg(vector) if vector else Leg(),
            chunks=_chunks(lexical, vector),
            term_frequencies=frequencies,
            entry_count=entry_count,
        )

    def count(self, where: SearchFilter) -> int:
        try:
            answer = self._client.count(
                index=self._index_name, body={"query": queries.matching(where)}, request_timeout=self._timeout
            )
        except OpenSearchException as exc:
            raise self._unavailable("counting in", exc) from exc
        return int(answer["count"])

    def references(self, key_id: str) -> list[str]:
        found: dict[str, None] = {}
        after = ""
        while True:
            hits = self._reference_page(key_id, after)
            known = len(found)
            found |= dict.fromkeys(hit["_id"] for hit in hits)
            if len(hits) < _REFERENCES_A_PAGE or len(found) == known:
                return list(found)
            after = hits[-1]["_source"][ENTRY_FIELD]

    def held(self, *, after: HeldDocument | None = None, limit: int = 1000) -> list[HeldDocument]:
        answer = self._listing(queries.held_body(after, limit), "listing what is in")
        if problem := queries.leg_error(answer):  # half of it would look as if the rest were missing
            raise IndexUnavailableError(f"listing what is in index {self._index_name} failed: {problem}")
        return queries.held_documents(answer)

    def _check_once(self) -> None:
        """See to it before the first write that the index was made for this embedder and analyzer."""
        embedder = self._unchecked
        if embedder and check_index(
            self._client, self._index_name, model_id=embedder.model_id, dimension=embedder.dimension
        ):
            self._unchecked = None

    def _reference_page(self, key_id: str, after: str) -> list[dict[str, Any]]:
        body = queries.references_body(key_id, after, _REFERENCES_A_PAGE)
        return queries.hits_of(self._listing(body, "listing references of"))

    def _listing(self, body: queries.Body, doing: str) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._client.search(
                index=self._index_name, body=body, request_timeout=self._timeout
            )
        except OpenSearchException as exc:
            raise self._unavailable(doing, exc) from exc
        return answer

    def _search_together(self, bodies: dict[str, queries.Body]) -> dict[str, dict[str, Any]]:
        """One `_msearch`. Raises `IndexUnavailableError` if it fails, or if every leg in it does."""
        lines = [line for body in bodies.values() for line in ({}, body)]
        try:
            answer = self._client.msearch(body=lines, index=self._index_name, request_timeout=self._timeout)
        except OpenSearchException as exc:
            raise self._unavailable("searching", exc) from exc
        answers = dict(zip(bodies, answer["responses"], strict=True))
        legs = [found for name, found in answers.items() if name != _STATISTICS] or list(answers.values())
        if all("error" in found for found in legs):
            raise IndexUnavailableError(f"searching index {self._index_name} failed: {queries.leg_error(legs[0])}")
        return answers

    def _unavailable(self, doing: str, exc: OpenSearchException) -> IndexUnavailableError:
        return IndexUnavailableError(f"{doing} index {self._index_name} failed: {told(exc)}")


def _chunks(*answers: dict[str, Any] | None) -> dict[str, IndexedChunk]:
    hits = [hit for answer in answers if answer for hit in queries.hits_of(answer)]
    return {hit["_source"][ENTRY_FIELD]: from_source(hit["_source"]) for hit in hits}

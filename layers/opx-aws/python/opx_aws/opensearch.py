"""Creates, checks, writes and searches an index on OpenSearch Serverless, next-generation and classic collections."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import boto3
from opensearchpy import (
    OpenSearch,
    OpenSearchException,
    RequestError,
    TransportError,
    Urllib3AWSV4SignerAuth,
    Urllib3HttpConnection,
)

from opx.errors import IncompatibleIndexError, IndexUnavailableError, IndexWakingError, InvalidInputError
from opx.ports import DocumentChange, Embedder, HeldDocument, Leg, SearchFilter, SearchRequest, SearchResponse
from opx.text.fields import first_words
from opx_aws import opensearch_queries as queries
from opx_aws.opensearch_bulk import BulkLimits, BulkWriter
from opx_aws.opensearch_calls import LONGEST_WAIT, SOONEST_SECONDS, WAKE_SECONDS, patiently
from opx_aws.opensearch_schema import ENTRY_FIELD, RECORD_FIELD, SPACE_TYPE, STORED_TEXT, index_body
from opx_aws.vendor_errors import Backoff

log = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
_ALREADY_THERE = "resource_already_exists_exception"
_COMPARED = {"type": None, "dimension": None, "space_type": SPACE_TYPE, "analyzer": None, "index": True}
"""Parameters of a field that affect the hits, and the defaults where a mapping omits them."""


def ensure_index(
    client: OpenSearch,
    index_name: str,
    *,
    model_id: str,
    dimension: int,
    engine: str = "",
    wait_seconds: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Creates the index unless it exists, and waits until it is usable; True if it was created here. `engine` searches
    the vectors; empty: the service's default.

    A new index appears after up to 15 seconds. A sleeping collection is waited for as `patiently` describes. Raises
    `IncompatibleIndexError` if there is one for another model, dimension or analyzer, and `IndexUnavailableError` if it
    doesn't appear within `wait_seconds`. An index of an earlier release gets the field of judging records.
    """
    about: dict[str, Any] = {"model_id": model_id, "dimension": dimension, "engine": engine}
    if fields := check_index(client, index_name, **about):
        ensure_record_field(client, index_name, fields)
        return False
    created = create_index(client, index_name, index_body(model_id, dimension, engine=engine))
    deadline = clock() + wait_seconds
    while not check_index(client, index_name, **about):
        if clock() >= deadline:
            raise IndexUnavailableError(f"index {index_name} was created but did not appear within {wait_seconds:g} s")
        sleep(1.0)
    return created


def delete_index(client: OpenSearch, index_name: str) -> None:
    """Deletes the index; nothing if there is none. Raises `IndexUnavailableError`."""
    try:
        client.indices.delete(index=index_name, ignore=404)
    except OpenSearchException as exc:
        raise IndexUnavailableError(f"removing index {index_name} failed: {exc}") from exc


def check_index(
    client: OpenSearch,
    index_name: str,
    *,
    model_id: str,
    dimension: int,
    engine: str = "",
    patience: float = LONGEST_WAIT,
) -> Set[str]:
    """The names of the index's fields; none if there is no index. A sleeping collection is waited for as `patiently`
    describes.

    Raises `IncompatibleIndexError` if it was built for another use: its searched fields must be those of `index_body`,
    with `engine` if that is given, and its `_meta` must have the same identity. A mapping without `_meta` is accepted with
    a warning.
    """

    def read(timeout: float) -> Any:
        return client.indices.get_mapping(index=index_name, ignore=404, request_timeout=timeout)

    answer = patiently(read, f"reading the mapping of index {index_name}", timeout=CHECK_SECONDS, patience=patience)
    if not answer or "error" in answer:
        return frozenset()
    (mapping,) = (index["mappings"] for index in answer.values())
    wanted = index_body(model_id, dimension, engine=engine)["mappings"]
    different = [*_other_identity(index_name, mapping, wanted), *_other_fields(mapping, wanted)]
    if different:
        raise IncompatibleIndexError(
            f"index {index_name} was made with {'; '.join(different)}: run `opx reindex`, which makes one "
            "for this program; or make an index of another name, set OPX_SEARCH_INDEX to it, and fill it from the corpus as "
            "`opx rebuild` says"
        )
    return frozenset(mapping["properties"])


def ensure_record_field(client: OpenSearch, index_name: str, fields: Set[str]) -> bool:
    """Adds the field of judging records to an index of an earlier release, which needs the right `aoss:UpdateIndex`. True if
    the index, with these fields, has it now."""
    if RECORD_FIELD in fields:
        return True
    try:
        client.indices.put_mapping(index=index_name, body={"properties": {RECORD_FIELD: STORED_TEXT}})
    except OpenSearchException as exc:
        remedy = "allow aoss:UpdateIndex on it, or run `opx reindex`"
        log.warning("index %s stores no judging records (%s): %s", index_name, queries.safe_message(exc), remedy)
        return False
    return True


def _other_identity(index_name: str, mapping: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    found = mapping.get("_meta")
    if not found:
        log.warning("index %s doesn't record the model and analyzer that it was built for", index_name)
        return
    for name, value in wanted["_meta"].items():
        if found.get(name) != value:
            yield f"{name} {found.get(name)!r}, not {value!r}"


def _other_fields(mapping: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    fields = mapping.get("properties") or {}
    for name, parameters in wanted["properties"].items():
        if name not in fields:
            if name != RECORD_FIELD:
                yield f"no field {name}"
            continue
        if parameters.get("index") is False:  # only stored: of any type, it is returned as it was put
            continue
        found = {**fields[name].get("method", {}), **fields[name]}  # a method may have the space
        engine = parameters.get("method", {}).get("engine")
        if engine and found.get("engine") != engine:
            yield f"field {name} of engine {found.get('engine', 'unknown')}, not {engine}"
        for parameter, default in _COMPARED.items():
            has, needs = found.get(parameter, default), parameters.get(parameter, default)
            if has != needs:
                yield f"field {name} of {parameter} {has!r}, not {needs!r}"


def create_index(client: OpenSearch, index_name: str, body: Mapping[str, Any]) -> bool:
    """Creates an index; False if there is one of that name. Raises `IndexUnavailableError`."""
    try:
        client.indices.create(index=index_name, body=body)
    except RequestError as exc:
        if exc.error == _ALREADY_THERE:
            return False
        raise IndexUnavailableError(f"creating index {index_name} failed: {exc}") from exc
    except OpenSearchException as exc:
        raise IndexUnavailableError(f"creating index {index_name} failed: {exc}") from exc
    return True


SERVICE = "aoss"
GENERATIONS = ("nextgen", "classic")
_REFERENCES_A_PAGE = 1000
AWAKE_SECONDS = 480.0
"""Seconds after an answer for which a collection certainly stays awake: it stops after ten idle minutes."""

KNOCK_SECONDS = 2.0
_NOTHING: Mapping[str, Any] = {"size": 0, "query": {"match_all": {}}}
R = TypeVar("R")
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
    """A client for a self-hosted node or cluster, as `user` with a password if one is given."""
    return OpenSearch(hosts=[endpoint], http_auth=user, timeout=timeout, **_NO_RETRIES)


class OpenSearchIndex:
    """`SearchIndex` over one index of a collection; `ensure_index` creates it.

    While a collection is asleep, calls wait for it as long as their caller does (`opensearch_calls.patiently`). Writes are
    found after the collection's next refresh: ten seconds on a next-generation collection, a minute on a classic one. A
    classic vector collection assigns ids itself (so does another one, if `own_ids` is False), so a write that was retried
    after a timeout may be stored twice: searches return such an entry once, `count` counts both, `references` lists both.

    With `vectors_of`, the first write raises `IncompatibleIndexError` if the index was made for another embedder or
    another analyzer. Searches don't check, to keep a function's first answer fast.
    """

    def __init__(
        self,
        client: OpenSearch,
        index_name: str,
        *,
        generation: str = "nextgen",
        own_ids: bool | None = None,
        timeout: float = 5.0,
        limits: BulkLimits = BulkLimits(),  # noqa: B008
        backoff: Backoff = Backoff(),  # noqa: B008
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        patience: float = LONGEST_WAIT,
        vectors_of: Embedder | None = None,
    ) -> None:
        if generation not in GENERATIONS:
            raise InvalidInputError(f"generation must be one of {GENERATIONS}, not {generation!r}")
        self._client = client
        self._index_name = index_name
        self._derives_ids = generation == "nextgen" if own_ids is None else own_ids
        self._timeout = timeout
        self._sleep = sleep
        self._clock = clock
        self._patience = patience
        self._answered_at = -math.inf
        self._knocked_at = self._unanswered_at = -math.inf
        self._waker: threading.Thread | None = None
        writer = partial(BulkWriter, client, index_name, custom_ids=self._derives_ids)
        self._bulk_writer = partial(writer, limits=limits, backoff=backoff, sleep=sleep, clock=clock)
        self._unchecked = vectors_of
        self._records = True

    @property
    def derives_ids(self) -> bool:
        return self._derives_ids

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        self._check_once()
        writer = self._bulk_writer(records=self._records)
        references = [writer.write(change) for change in changes]
        writer.finish()
        return references

    def search(self, request: SearchRequest) -> SearchResponse:
        words = first_words(request.text or "", request.languages, queries.most_terms(request.filter))
        bodies = {_STATISTICS: queries.statistics_body(words, request.filter)}
        if words:
            bodies[_LEXICAL] = queries.lexical_body(words, request.filter, request.depth, request.values)
        if request.vector is not None:
            bodies[_VECTOR] = queries.vector_body(request.vector, request.filter, request.depth)
        answers = self._search_together(bodies)
        lexical, vector = answers.get(_LEXICAL), answers.get(_VECTOR)
        entry_count, frequencies = queries.statistics(answers[_STATISTICS])
        return SearchResponse(
            lexical=queries.lexical_leg(lexical) if lexical else Leg(),
            vector=queries.vector_leg(vector) if vector else Leg(),
            **queries.chunks_and_records(lexical, vector),
            term_frequencies=frequencies,
            entry_count=entry_count,
        )

    def entries_with(self, terms: Iterable[str], scopes: Sequence[str]) -> Mapping[str, int]:
        bodies = {str(number): body for number, body in enumerate(queries.presence_bodies(terms, scopes))}
        answers = self._search_together(bodies) if bodies else {}
        counts = [queries.statistics(answer)[1] for answer in answers.values()]
        return {term: count for found in counts for term, count in found.items() if count}

    def count(self, where: SearchFilter) -> int:
        body = {"query": queries.matching(where)}

        def send(timeout: float) -> int:
            return int(self._client.count(index=self._index_name, body=body, request_timeout=timeout)["count"])

        return self._answered("counting in", send)

    def references(self, key_id: str) -> list[str]:
        found: dict[str, None] = {}
        after = ""
        while True:
            body = queries.references_body(key_id, after, _REFERENCES_A_PAGE)
            hits = queries.hits_of(self._listing(body, "listing references of"))
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

    def wake(self, *, wait: bool = False) -> None:
        if not wait and self._clock() - self._answered_at < AWAKE_SECONDS:
            return
        request = partial(self._client.search, index=self._index_name, body=_NOTHING)
        if wait:
            self._answered("waking", lambda timeout: request(request_timeout=timeout))
        elif self._waker is None or not self._waker.is_alive():
            self._waker = threading.Thread(target=self._knock, args=(request,), name="wake", daemon=True)
            self._waker.start()

    def waking(self, within: float) -> float:
        started = self._clock()
        if started - self._answered_at < AWAKE_SECONDS:
            return 0.0
        if started - self._unanswered_at >= KNOCK_SECONDS:  # just before, it would be the same
            request = partial(self._client.search, index=self._index_name, body=_NOTHING)
            try:
                self._answered("waking", lambda timeout: request(request_timeout=timeout), most=within)
            except IndexWakingError:
                self._unanswered_at = self._clock()
                if started - self._knocked_at > LONGEST_WAIT:
                    self._knocked_at = started
            else:
                return 0.0
        return max(SOONEST_SECONDS, WAKE_SECONDS - (self._clock() - self._knocked_at))

    def _knock(self, request: Callable[..., object]) -> None:
        """Sends one request, which wakes a collection whether or not its answer is waited for."""
        with suppress(OpenSearchException, OSError):
            request(request_timeout=KNOCK_SECONDS)
            self._answered_at = self._clock()

    def _check_once(self) -> None:
        """Checks before the first write that the index was built for this embedder and analyzer, and if it stores records."""
        if not (embedder := self._unchecked):
            return
        about: dict[str, Any] = {"model_id": embedder.model_id, "dimension": embedder.dimension}
        if fields := check_index(self._client, self._index_name, **about, patience=self._patience):
            self._records = ensure_record_field(self._client, self._index_name, fields)
            self._unchecked = None

    def _listing(self, body: queries.Body, doing: str) -> dict[str, Any]:
        def send(timeout: float) -> dict[str, Any]:
            found: dict[str, Any] = self._client.search(index=self._index_name, body=body, request_timeout=timeout)
            return found

        return self._answered(doing, send)

    def _search_together(self, bodies: dict[str, queries.Body]) -> dict[str, dict[str, Any]]:
        """Sends one `_msearch`. Raises `IndexUnavailableError` if it fails, or if every leg in it does."""
        lines = [line for body in bodies.values() for line in ({}, body)]

        def send(timeout: float) -> dict[str, dict[str, Any]]:
            answer = self._client.msearch(body=lines, index=self._index_name, request_timeout=timeout)
            answers = dict(zip(bodies, answer["responses"], strict=True))
            legs = [found for name, found in answers.items() if name != _STATISTICS] or list(answers.values())
            if all("error" in found for found in legs):
                raise TransportError(legs[0].get("status", 0), queries.leg_error(legs[0]))
            return answers

        return self._answered("searching", send)

    def _answered(self, doing: str, send: Callable[[float], R], *, most: float = math.inf) -> R:
        """The answer to a request, which is repeated as `patiently` describes, for `most` seconds."""
        name = f"{doing} index {self._index_name}"
        waiting = {"timeout": min(self._timeout, most), "patience": min(self._patience, most)}
        answer = patiently(send, name, **waiting, clock=self._clock, sleep=self._sleep)
        self._answered_at = self._clock()
        return answer

"""A double of a Bedrock Knowledge Base over an S3 data source without chunking: HTTP in, documented behaviour out.

It ingests the objects below the data source's prefix when an ingestion job runs, and searches them. Shapes and
limits are those of the service models of `bedrock-agent` and `bedrock-agent-runtime`; the quotas (one job at a time, ten
seconds between calls, questions of 1,000 characters) those of "Amazon Bedrock endpoints and quotas".
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from opx.ports import ObjectStore
from tests.doubles.bedrock import a_failure, bag_of_words, only, refused
from tests.doubles.http_double import HttpDouble, Request, Response, ServiceFailure

MAX_GROUP = 5
GROUPS = ("andAll", "orAll")

_NUMERIC: dict[str, Callable[[float, float], bool]] = {"greaterThanOrEquals": operator.ge, "lessThan": operator.lt}

Metadata = Mapping[str, Any]
Passes = Callable[[Metadata], bool]


def compiled(given: Any, depth: int = 0) -> Passes:
    """A predicate on metadata. Refuses what the service does."""
    if not isinstance(given, dict) or len(given) != 1:
        raise refused("filter must have exactly one member set")
    ((name, argument),) = given.items()
    return _group(name, argument, depth) if name in GROUPS else _comparison(name, argument)


def _group(name: str, members: Any, depth: int) -> Passes:
    if depth > 1:
        raise refused("filters can be embedded one level deep")
    if not isinstance(members, list) or not 2 <= len(members) <= MAX_GROUP:
        raise refused(f"{name} must have 2 to {MAX_GROUP} members")
    passes = [compiled(member, depth + 1) for member in members]
    combine = all if name == "andAll" else any
    return lambda metadata: combine(each(metadata) for each in passes)


def _comparison(name: str, argument: Any) -> Passes:
    if not isinstance(argument, dict) or argument.keys() != {"key", "value"}:
        raise refused(f"{name} takes key and value")
    key, value = argument["key"], argument["value"]
    if not isinstance(key, str) or not 1 <= len(key) <= 100:
        raise refused("a key has 1 to 100 characters")
    if name == "in" and isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return lambda metadata: isinstance(metadata.get(key), str) and metadata[key] in value
    if name == "equals" and isinstance(value, str | int | float | bool):
        return lambda metadata: metadata.get(key) == value
    if name in _NUMERIC and isinstance(value, int | float):
        compare = _NUMERIC[name]
        return lambda metadata: isinstance(metadata.get(key), int | float) and compare(metadata[key], value)
    if name == "listContains" and isinstance(value, str):
        return lambda metadata: isinstance(metadata.get(key), list) and value in metadata[key]
    raise refused(f"{name} does not take {value!r}, or the double does not know it")


KNOWLEDGE_BASE_ID, DATA_SOURCE_ID = "KB12345678", "DS12345678"
PREFIX = "managed/"
MAX_QUERY_CHARACTERS = 1_000
MAX_SIDECAR_BYTES = 10_000
SECONDS_BETWEEN_STARTS = 10.0
_SIDECAR = ".metadata.json"
_TEXT_FILES = (".txt", ".md", ".html", ".csv")
_RETRIEVE = re.compile(r"/knowledgebases/(?P<base>[0-9a-zA-Z]{10})/retrieve\Z")
_JOBS = re.compile(
    r"/knowledgebases/(?P<base>[0-9a-zA-Z]{10})/datasources/(?P<source>[0-9a-zA-Z]{10})/ingestionjobs/\Z"
)
_WORD = re.compile(r"\w+")


@dataclass
class Chunk:
    """An index entry of a file."""

    uri: str
    text: str
    metadata: dict[str, Any]


@dataclass
class Job:
    number: int
    started: float
    status: str
    seen: dict[str, Chunk]
    failed: int = 0

    def to_json(self) -> dict[str, Any]:
        moment = datetime.fromtimestamp(self.started, UTC).isoformat()
        return {
            "knowledgeBaseId": KNOWLEDGE_BASE_ID,
            "dataSourceId": DATA_SOURCE_ID,
            "ingestionJobId": f"JOB{self.number:07d}",
            "status": self.status,
            "startedAt": moment,
            "updatedAt": moment,
            "statistics": {"numberOfDocumentsScanned": len(self.seen), "numberOfDocumentsFailed": self.failed},
        }


@dataclass
class KnowledgeBaseState:
    chunks: dict[str, Chunk] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    last_call: float = -math.inf


class KnowledgeBaseDouble(HttpDouble):
    """Jobs see the store as it is when they begin, and are over `job_seconds` of `clock` later. Pages of results have
    `page` members."""

    def __init__(
        self, store: ObjectStore, clock: Callable[[], float], *, job_seconds: float = 60.0, page: int = 40
    ) -> None:
        super().__init__("bedrock")
        self._store = store
        self._clock = clock
        self._job_seconds = job_seconds
        self._page = page
        self.state = KnowledgeBaseState()

    # -- what tests do to it

    def end_job(self, status: str) -> None:
        """Fails the running job; it has changed nothing."""
        self.state.jobs[-1].status = status

    @property
    def statuses(self) -> list[str]:
        """Statuses of all jobs, the oldest first."""
        self._advance()
        return [job.status for job in self.state.jobs]

    # -- the service

    def answer(self, request: Request) -> Response:
        self._advance()
        retrieval, jobs = _RETRIEVE.match(request.path), _JOBS.match(request.path)
        if retrieval and request.method == "POST":
            _known(retrieval["base"] == KNOWLEDGE_BASE_ID)
            return Response(200, self._retrieve(request.json()))
        if not jobs:
            raise ServiceFailure(a_failure(404, "UnknownOperationException"))
        _known(jobs["base"] == KNOWLEDGE_BASE_ID and jobs["source"] == DATA_SOURCE_ID)
        if request.method == "PUT":
            return Response(202, {"ingestionJob": self._start(request.json())})
        return Response(200, {"ingestionJobSummaries": self._list(request.json())})

    def _advance(self) -> None:
        for job in self.state.jobs:
            if job.status == "IN_PROGRESS" and self._clock() >= job.started + self._job_seconds:
                job.status = "COMPLETE"
                self.state.chunks = job.seen

    # -- ingestion

    def _start(self, body: dict[str, Any]) -> dict[str, Any]:
        only(body, {"clientToken", "description"})
        if self._clock() < self.state.last_call + SECONDS_BETWEEN_STARTS:
            raise ServiceFailure(a_failure(429, "ThrottlingException", "Your request rate is too high."))
        self.state.last_call = self._clock()
        if any(job.status == "IN_PROGRESS" for job in self.state.jobs):
            raise ServiceFailure(a_failure(409, "ConflictException", "There is an ongoing ingestion job."))
        job = Job(len(self.state.jobs) + 1, self._clock(), "IN_PROGRESS", {})
        self._scan(job)
        self.state.jobs.append(job)
        return job.to_json()

    def _scan(self, job: Job) -> None:
        for info in self._store.list(PREFIX):
            if info.key.endswith(_SIDECAR):
                continue
            if not info.key.endswith(_TEXT_FILES):
                job.failed += 1
                continue
            sidecar = self._store.head(info.key + _SIDECAR)
            fits = sidecar and sidecar.size <= MAX_SIDECAR_BYTES
            metadata = _attributes(self._read(info.key + _SIDECAR)) if fits else {}
            job.seen[info.key] = Chunk(info.location, self._read(info.key).decode(), metadata)

    def _read(self, key: str) -> bytes:
        with self._store.open(key) as stream:
            return stream.read()

    def _list(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        only(body, {"sortBy", "maxResults"})
        if body.get("sortBy") != {"attribute": "STARTED_AT", "order": "DESCENDING"}:
            raise refused("the double lists the newest first and nothing else")
        return [job.to_json() for job in reversed(self.state.jobs)][: body.get("maxResults", 10)]

    # -- retrieval

    def _retrieve(self, body: dict[str, Any]) -> dict[str, Any]:
        only(body, {"retrievalQuery", "retrievalConfiguration", "nextToken"})
        only(body["retrievalQuery"], {"text", "type"})
        text = body["retrievalQuery"].get("text")
        if not isinstance(text, str) or not 1 <= len(text) <= MAX_QUERY_CHARACTERS:
            raise refused(f"text must have 1 to {MAX_QUERY_CHARACTERS} characters")
        only(body["retrievalConfiguration"], {"vectorSearchConfiguration"})
        search = body["retrievalConfiguration"]["vectorSearchConfiguration"]
        only(search, {"numberOfResults", "overrideSearchType", "filter"})
        if search.get("overrideSearchType") not in (None, "HYBRID", "SEMANTIC"):
            raise refused("overrideSearchType is not a valid enum value")
        limit = search.get("numberOfResults", 5)
        if not isinstance(limit, int) or not 1 <= limit <= 100:
            raise refused("numberOfResults must be between 1 and 100")
        results = self._ranked(text, search)[:limit]
        start = int(body.get("nextToken", "0"))
        answer: dict[str, Any] = {"retrievalResults": results[start : start + self._page]}
        if start + self._page < len(results):
            answer["nextToken"] = str(start + self._page)
        return answer

    def _ranked(self, text: str, search: dict[str, Any]) -> list[dict[str, Any]]:
        passes = compiled(search["filter"]) if "filter" in search else lambda _: True
        score = relevance if search.get("overrideSearchType") == "HYBRID" else similarity
        scored = [(score(text, chunk.text), chunk) for chunk in self.state.chunks.values() if passes(chunk.metadata)]
        scored.sort(key=lambda pair: (-pair[0], pair[1].uri))
        return [_result(chunk, value) for value, chunk in scored]


def similarity(question: str, text: str) -> float:
    """In [0, 1]: half of it for a right angle."""
    one, other = bag_of_words(question, 256), bag_of_words(text, 256)
    cosine = sum(a * b for a, b in zip(one, other, strict=True)) / math.hypot(*one) / math.hypot(*other)
    return (1 + cosine) / 2


def relevance(question: str, text: str) -> float:
    """In [0, 1]: mostly the share of the question's words that the text has."""
    words = set(_WORD.findall(question.casefold())) or {""}
    covered = len(words & set(_WORD.findall(text.casefold()))) / len(words)
    return 0.8 * covered + 0.2 * similarity(question, text)


def _known(known: bool) -> None:
    if not known:
        raise ServiceFailure(a_failure(404, "ResourceNotFoundException", "Knowledge Base does not exist"))


def _attributes(sidecar: bytes) -> dict[str, Any]:
    """The attributes as they are filtered by. Null and empty values are refused, which makes the service ignore all."""
    attributes = json.loads(sidecar)["metadataAttributes"]
    lists = [value for value in attributes.values() if isinstance(value, list)]
    plain = [value for value in attributes.values() if not isinstance(value, list)]
    strings = all(found and all(isinstance(each, str) for each in found) for found in lists)
    scalars = all(isinstance(value, str | int | float | bool) for value in plain)
    return dict(attributes) if strings and scalars else {}


def _result(chunk: Chunk, score: float) -> dict[str, Any]:
    own = {"x-amz-bedrock-kb-source-uri": chunk.uri, "x-amz-bedrock-kb-data-source-id": DATA_SOURCE_ID}
    return {
        "content": {"type": "TEXT", "text": chunk.text},
        "location": {"type": "S3", "s3Location": {"uri": chunk.uri}},
        "metadata": {**chunk.metadata, **own},
        "score": score,
    }

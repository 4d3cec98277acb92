"""Bedrock's batch inference: jobs that read JSON Lines from S3 and write `FILE.jsonl.out` beside a manifest, with the
service's quotas, states and failures.

Amazon Bedrock user guide, "Process multiple prompts with batch inference" and "Format and upload your batch inference data";
AWS General Reference, "Amazon Bedrock endpoints and quotas". A job goes on by one state each time that it is looked at.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.doubles.bedrock import a_failure, refused, titan_v2
from tests.doubles.http_double import HttpDouble, Request, Response, ServiceFailure

_JOBS = "/model-invocation-job"
_ARN = "arn:aws:bedrock:eu-central-1:123456789012:model-invocation-job/"
_NAME = re.compile(r"[a-zA-Z0-9]{1,63}(-*[a-zA-Z0-9+\-.]){0,63}")
_TOKEN = re.compile(r"[a-zA-Z0-9]{1,256}(-*[a-zA-Z0-9]){0,256}")
_URI = re.compile(r"s3://(?P<bucket>[a-z0-9.-]+)/(?P<key>[-!_*'().a-z0-9A-Z]+(?:/[-!_*'().a-z0-9A-Z]+)*/?)")
_STATES = ("Submitted", "Validating", "Scheduled", "InProgress")
ENDED = ("Completed", "PartiallyCompleted", "Failed", "Stopped", "Expired")
_EMBEDDING_MODEL = "amazon.titan-embed-text-v2:0"


@dataclass
class Quotas:
    """Of an account; a test may lower them at any time."""

    fewest_records: int = 100
    most_records: int = 100_000
    most_records_a_file: int = 100_000
    file_bytes: int = 10**9
    job_bytes: int = 5 * 10**9
    jobs: int = 20


@dataclass
class Misbehaviour:
    """Failures of the jobs that are created from now on. `errors`, `missing` and `twice` are shares of their records; `ends`
    are states that jobs end with, in their order, before others end well."""

    errors: float = 0.0
    missing: float = 0.0
    twice: float = 0.0
    shuffled: bool = True
    ends: list[str] = field(default_factory=list)


@dataclass
class Job:
    arn: str
    name: str
    token: str
    model: str
    source: str
    target: str
    role: str
    end: str
    state: str = _STATES[0]
    message: str = ""
    records: int = 0

    @property
    def described(self) -> dict[str, Any]:
        return {
            "jobArn": self.arn,
            "jobName": self.name,
            "modelId": self.model,
            "clientRequestToken": self.token,
            "roleArn": self.role,
            "status": self.state,
            "message": self.message,
            "submitTime": "2026-01-01T00:00:00Z",
            "inputDataConfig": {"s3InputDataConfig": {"s3Uri": self.source}},
            "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": self.target}},
            "totalRecordCount": self.records,
        }


class BatchInferenceDouble(HttpDouble):
    """`s3` is the client through which jobs read and write. `embedded` counts the records of each id that jobs answered."""

    def __init__(self, s3: Any) -> None:
        super().__init__("bedrock")
        self._s3 = s3
        self._random = random.Random(7)
        self.quotas = Quotas()
        self.misbehaviour = Misbehaviour()
        self.jobs: dict[str, Job] = {}
        self.embedded: Counter[str] = Counter()

    @property
    def running(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state not in ENDED]

    def answer(self, request: Request) -> Response:
        if request.method == "GET" and request.path == "/model-invocation-jobs":
            named = request.parameters.get("nameContains", "")
            found = [job.described for job in self.jobs.values() if named in job.name]
            return Response(200, {"invocationJobSummaries": found})
        if request.method == "POST" and request.path == _JOBS:
            return Response(200, {"jobArn": self._create(request.json()).arn})
        _, known, identifier = request.path.partition(_JOBS + "/")
        stopping = identifier.endswith("/stop")
        job = self.jobs.get(identifier.removesuffix("/stop")) if known else None
        if job is None:
            raise ServiceFailure(a_failure(404, "ResourceNotFoundException", "The provided job was not found"))
        if request.method == "POST" and stopping:
            return self._stop(job)
        self._advance(job)
        return Response(200, job.described)

    def _create(self, body: dict[str, Any]) -> Job:
        token = body.get("clientRequestToken", "")
        known = next((job for job in self.jobs.values() if token and job.token == token), None)
        if known:
            return known
        self._check(body)
        if len(self.running) >= self.quotas.jobs:
            raise ServiceFailure(
                a_failure(400, "ServiceQuotaExceededException", "Sum of in-progress and submitted batch inference jobs")
            )
        misbehaving = self.misbehaviour.ends
        arn = _ARN + hashlib.sha256(f"{len(self.jobs)}".encode()).hexdigest()[:12]
        source = body["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]
        target = body["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"]
        names = (body["jobName"], token, body["modelId"], source, target, body["roleArn"])
        job = Job(arn, *names, misbehaving.pop(0) if misbehaving else "Completed")
        self.jobs[arn] = job
        return job

    def _check(self, body: dict[str, Any]) -> None:
        source = body["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]
        target = body["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"]
        hours = body.get("timeoutDurationInHours", 24)
        fits = _NAME.fullmatch(body["jobName"]) and len(body["jobName"]) <= 63
        if not fits or not _TOKEN.fullmatch(body.get("clientRequestToken", "x")):
            raise refused("Member must satisfy regular expression pattern")
        if not (_URI.fullmatch(source) and _URI.fullmatch(target)) or not 24 <= hours <= 168:
            raise refused("The request is malformed")
        if any(job.name == body["jobName"] for job in self.jobs.values()):
            raise ServiceFailure(a_failure(400, "ConflictException", "A job with this name exists"))

    def _stop(self, job: Job) -> Response:
        if job.state in ENDED:
            raise ServiceFailure(a_failure(400, "ConflictException", f"The job is {job.state}"))
        job.state = "Stopping"
        return Response(200, {})

    def _advance(self, job: Job) -> None:
        if job.state in ENDED:
            return
        if job.state == "Stopping":
            job.state = "Stopped"
            return
        following = _STATES.index(job.state) + 1
        if job.state == "Validating":
            job.message = self._validated(job)
            if job.message:
                job.state = "Failed"
                return
        if following < len(_STATES):
            job.state = _STATES[following]
        elif job.end in ("Completed", "PartiallyCompleted"):
            self._write(job)
            job.state = job.end
        else:
            job.state, job.message = job.end, "The job timed out" if job.end == "Expired" else "Internal failure"

    def _validated(self, job: Job) -> str:
        """The reason for which validation fails, if it does."""
        quotas, sizes = self.quotas, []
        for key, body in self._files(job):
            lines = body.splitlines()
            if len(lines) > quotas.most_records_a_file:
                return f"{key} has more than {quotas.most_records_a_file} records"
            if len(body) > quotas.file_bytes:
                return f"{key} is larger than {quotas.file_bytes} bytes"
            for line in lines:
                if set(json.loads(line)) != {"recordId", "modelInput"}:
                    return f"{key} has a malformed record"
            job.records += len(lines)
            sizes.append(len(body))
        if not quotas.fewest_records <= job.records <= quotas.most_records:
            return f"{job.records} records: the quota is {quotas.fewest_records} to {quotas.most_records}"
        return "the files are too large together" if sum(sizes) > quotas.job_bytes else ""

    def _files(self, job: Job) -> Iterator[tuple[str, bytes]]:
        """Key and content of each file of a job's input, which is one file, or a folder."""
        place = _URI.fullmatch(job.source)
        assert place
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=place["bucket"], Prefix=place["key"])
        for page in pages:
            for found in page.get("Contents", []):
                if found["Key"].endswith(".jsonl"):
                    yield (
                        found["Key"],
                        self._s3.get_object(Bucket=place["bucket"], Key=found["Key"])["Body"].read(),
                    )

    def _write(self, job: Job) -> None:
        """The results of each file, below a folder with the job's id; half of them if the job ends halfway."""
        place, identifier = _URI.fullmatch(job.target), job.arn.rpartition("/")[2]
        assert place
        folder = f"{place['key'].rstrip('/')}/{identifier}"
        wanted = list(self._files(job))
        for key, body in wanted:
            records = [json.loads(line) for line in body.splitlines()]
            if job.end == "PartiallyCompleted":
                records = records[: len(records) // 2]
            lines = [msgspec.json.encode(answer) for record in records for answer in self._answers(record)]
            if self.misbehaviour.shuffled:
                self._random.shuffle(lines)
            name = f"{folder}/{key.rpartition('/')[2]}.out"
            self._put(place["bucket"], name, b"".join(line + b"\n" for line in lines))
        manifest = {"totalRecordCount": job.records, "processedRecordCount": job.records}
        self._put(place["bucket"], f"{folder}/manifest.json.out", json.dumps(manifest).encode())

    def _put(self, bucket: str, key: str, body: bytes) -> None:
        self._s3.put_object(Bucket=bucket, Key=key, Body=body)

    def _answers(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        chance, wrong = self._random.random(), self.misbehaviour
        if chance < wrong.missing:
            return []
        if chance < wrong.missing + wrong.errors:
            return [record | {"error": {"errorCode": 500, "errorMessage": "Internal error", "expired": False}}]
        try:
            answer = record | {"modelOutput": titan_v2(record["modelInput"])}
        except ServiceFailure as failure:
            reason: Any = failure.response.body
            return [record | {"error": {"errorCode": 400, "errorMessage": reason["message"], "retryable": False}}]
        self.embedded[record["recordId"]] += 1
        return [answer] * (2 if chance < wrong.missing + wrong.errors + wrong.twice else 1)

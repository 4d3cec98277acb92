"""`IndexSync` on the ingestion jobs of a Bedrock Knowledge Base's data source."""

from __future__ import annotations

import logging
from typing import Any

from botocore.exceptions import ClientError

from opx.adapters.aws.vendor_errors import error_code, translated_errors

log = logging.getLogger(__name__)

_UNDER_WAY = ("STARTING", "IN_PROGRESS", "STOPPING")
_COVERS = ("STARTING", "IN_PROGRESS", "COMPLETE")
_LATER = ("ConflictException", "ServiceQuotaExceededException", "ThrottlingException")
"""Another job of the data source, the knowledge base (one each) or the account (five) is under way, or the last call was
less than ten seconds ago (Amazon Bedrock endpoints and quotas)."""

CLOCK_SKEW_SECONDS = 5.0
"""A job counts as begun after a moment only if it did so this much later: the service's clock is not ours."""


class KnowledgeBaseSync:
    """Starts a job when none has begun since. Each job finds by itself what was added, changed and removed."""

    def __init__(self, client: Any, knowledge_base_id: str, data_source_id: str) -> None:
        self._client = client
        self._ids: Any = {"knowledgeBaseId": knowledge_base_id, "dataSourceId": data_source_id}

    def cover(self, since: float) -> bool:
        last = self._last_job()
        if last:
            _report(last)
            if last["startedAt"].timestamp() >= since + CLOCK_SKEW_SECONDS and last["status"] in _COVERS:
                return True
            if last["status"] in _UNDER_WAY:
                return False
        return self._start()

    def _last_job(self) -> Any:
        newest: Any = {"attribute": "STARTED_AT", "order": "DESCENDING"}
        with translated_errors("list ingestion jobs"):
            jobs = self._client.list_ingestion_jobs(**self._ids, sortBy=newest, maxResults=1)["ingestionJobSummaries"]
        return jobs[0] if jobs else None

    def _start(self) -> bool:
        with translated_errors("start an ingestion job"):
            try:
                job = self._client.start_ingestion_job(**self._ids)["ingestionJob"]
            except ClientError as exc:
                if error_code(exc) not in _LATER:
                    raise
                log.info("an ingestion job has to wait: %s", error_code(exc))
                return False
        log.info("ingestion job %s began", job["ingestionJobId"])
        return True


def _report(job: Any) -> None:
    """Say what a finished job could not do: nobody else looks at it."""
    failed = job.get("statistics", {}).get("numberOfDocumentsFailed", 0)
    if failed or job["status"] == "FAILED":
        name = job["ingestionJobId"]
        log.warning("ingestion job %s is %s; it could not take in %d chunks", name, job["status"], failed)
